"""Rows of CSV files, streamed, with what is wrong in them counted instead of raised."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from workloads.traces.source import Skipped, TraceError, lines

Row = TypeVar("Row")
MAX_COUNT = 10**6
"""Most GPUs of one job that are believed."""
MAX_SECONDS = 10.0**10
"""Longest time that is believed: three centuries."""
_NO_TIME = frozenset(("", "None", "NULL", "nan", "NaN", "null", "N/A", "Unknown"))
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)


class BadRow(Exception):
    """Why a row can't be used, in a few words that serve as the name of the reason."""


class Ids:
    """The ids of a file so far."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def require_new(self, name: str, what: str) -> None:
        """BadRow for an empty id, or one that was met before."""
        if not name:
            raise BadRow(f"{what} is missing")
        if name in self._seen:
            raise BadRow(f"{what} used before")
        self._seen.add(name)


def read_table(
    path: Path, columns: Sequence[str], skipped: Skipped, parse: Callable[[list[str]], Row | None]
) -> Iterator[Row]:
    """What `parse` makes of each row's values of `columns`, in that order; rows for which it returns None are left out.

    Rows that raise BadRow are counted in `skipped`. The header is row 1. TraceError if a column is missing.
    """
    reader = csv.reader(lines(path, skipped))
    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        raise TraceError(path, f"row 1 is no header: {error}") from None
    missing = [column for column in columns if column not in header]
    if missing:
        raise TraceError(path, f"row 1 has no column {missing[0]!r}; it needs {', '.join(columns)}")
    places = [header.index(column) for column in columns]
    width, number = len(header), 1
    while True:
        number += 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            skipped.add(f"not CSV: {error}", number)
            continue
        if not row:
            continue
        if len(row) != width:
            skipped.add(f"not {width} columns", number)
            continue
        try:
            parsed = parse([row[place] for place in places])
        except BadRow as why:
            skipped.add(str(why), number)
            continue
        if parsed is not None:
            yield parsed


def count(text: str, what: str) -> int:
    """A whole number from 0. BadRow for anything else; 8.0 is 8."""
    value = number(text, what)
    if value > MAX_COUNT or value != int(value):
        raise BadRow(f"{what} is no count")
    return int(value)


def number(text: str, what: str) -> float:
    """A finite number from 0. BadRow for anything else."""
    try:
        value = float(text)
    except ValueError:
        raise BadRow(f"{what} is no number") from None
    if not math.isfinite(value):
        raise BadRow(f"{what} is not finite")
    if value < 0:
        raise BadRow(f"{what} is negative")
    return value


def seconds(text: str, what: str, unit_s: float = 1.0) -> float:
    """A time from 0 in units of `unit_s` seconds. BadRow for none, or one that is too long to be true."""
    value = number(text, what) * unit_s
    if value > MAX_SECONDS:
        raise BadRow(f"{what} is too large")
    return value


def moment(text: str, what: str) -> float | None:
    """Seconds since 1970 of an ISO date and time, UTC where it says no zone; None for no time. BadRow for others."""
    if text in _NO_TIME:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadRow(f"{what} is no date and time") from None
    delta = at - (_EPOCH if at.tzinfo is None else _EPOCH_UTC)
    return delta.days * 86400.0 + delta.seconds + delta.microseconds * 1e-6
