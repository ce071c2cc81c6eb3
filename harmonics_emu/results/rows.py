"""Records as files and back: iterations.csv and links.csv (one row a measurement), link_bytes.csv (one row a reading of
all counters), decisions.jsonl and rules.jsonl.

Numbers are written so that reading gives back the very same ones; an empty cell is a value that was not measured.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from harmonics_emu.records import ITERATION, LINK_SAMPLE, Decision, LinkBytes
from harmonics_emu.results.schema import UnreadableResult

ITERATION_COLUMNS = ("job", "rank", "iteration", "start_s", "compute_s", "gate_s", "end_s")
LINK_COLUMNS = ("time_s", "link", "bytes", "drops", "backlog_bytes", "delay_s")

T = TypeVar("T")


def write_iterations(sink: TextIO, iterations: Mapping[str, NDArray[Any]]) -> None:
    """iterations: each job's rows (dtype records.ITERATION)."""
    _write_csv(sink, ITERATION_COLUMNS, "job", iterations)


def write_links(sink: TextIO, links: Mapping[str, NDArray[Any]]) -> None:
    """links: each directed link's rows (dtype records.LINK_SAMPLE)."""
    _write_csv(sink, LINK_COLUMNS, "link", links)


def write_link_bytes(sink: TextIO, counters: LinkBytes) -> None:
    """time_s, then a column of bytes for each directed link."""
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["time_s", *counters.links])
    for time_s, row in zip(counters.time_s.tolist(), counters.bytes.tolist(), strict=True):
        writer.writerow([round(time_s, 6), *row])


def read_link_bytes(path: Path) -> LinkBytes | None:
    """link_bytes.csv, None where a run has none. UnreadableResult says what does not fit."""
    if not path.is_file():
        return None
    with _explained(path), path.open(encoding="utf-8", newline="") as source:
        reader = csv.reader(source)
        try:
            first, *links = next(reader, ["nothing"])
            if first != "time_s" or len(set(links)) < len(links):
                raise ValueError("its first line must read time_s and then each link once")
            times, rows = [], []
            for line in reader:
                if len(line) != len(links) + 1:
                    raise ValueError(f"it has {len(line)} cells, not {len(links) + 1}")
                times.append(float(line[0]))
                rows.append([int(cell) for cell in line[1:]])
            carried = np.array(rows, np.int64).reshape(len(rows), len(links))
        except (ValueError, OverflowError, csv.Error) as error:
            raise UnreadableResult(f"{path}, line {max(1, reader.line_num)}: {error}") from None
    time_s = np.array(times, np.float64)
    if not np.isfinite(time_s).all() or (np.diff(time_s) <= 0).any() or (np.diff(carried, axis=0) < 0).any():
        raise UnreadableResult(f"{path}: times and bytes must grow from line to line")
    return LinkBytes(tuple(links), time_s, carried)


def read_iterations(path: Path) -> dict[str, NDArray[Any]]:
    """iterations.csv as Records hold it. UnreadableResult names the line that does not fit."""
    return _read_csv(path, ITERATION_COLUMNS, "job", ITERATION)


def read_links(path: Path) -> dict[str, NDArray[Any]]:
    """links.csv as Records hold it. UnreadableResult names the line that does not fit."""
    return _read_csv(path, LINK_COLUMNS, "link", LINK_SAMPLE)


def write_lines(sink: TextIO, values: Iterable[Any]) -> None:
    """One JSON value a line; numpy numbers and arrays become plain ones, NaN and infinities null."""
    encoder = msgspec.json.Encoder(enc_hook=as_builtin)
    for value in values:
        sink.write(encoder.encode(value).decode())
        sink.write("\n")


def read_decisions(path: Path) -> list[Decision]:
    """decisions.jsonl. UnreadableResult names the line and field that do not fit."""
    return _read_lines(path, Decision)


def read_rules(path: Path) -> list[dict[str, Any]]:
    """rules.jsonl. UnreadableResult names the line that does not fit."""
    return _read_lines(path, dict[str, Any])


def _write_csv(sink: TextIO, columns: tuple[str, ...], key: str, tables: Mapping[str, NDArray[Any]]) -> None:
    fields = [column for column in columns if column != key]
    place = columns.index(key)
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(columns)
    for name, rows in tables.items():
        for values in zip(*(rows[field].tolist() for field in fields), strict=True):
            cells = ["" if value != value else value for value in values]
            cells.insert(place, name)
            writer.writerow(cells)


def _read_csv(path: Path, columns: tuple[str, ...], key: str, dtype: np.dtype[Any]) -> dict[str, NDArray[Any]]:
    place = columns.index(key)
    kinds = [int if np.issubdtype(dtype[column], np.integer) else _number for column in columns if column != key]
    order = [column for column in columns if column != key]
    found: dict[str, list[tuple[float, ...]]] = {}
    with _explained(path), path.open(encoding="utf-8", newline="") as source:
        reader = csv.reader(source)
        try:
            if tuple(next(reader, ())) != columns:
                raise ValueError(f"its first line must read {','.join(columns)}")
            for cells in reader:
                name = cells.pop(place)
                row = tuple(kind(cell) for kind, cell in zip(kinds, cells, strict=True))
                found.setdefault(name, []).append(row)
        except (ValueError, IndexError, csv.Error) as error:
            raise UnreadableResult(f"{path}, line {max(1, reader.line_num)}: {error}") from None
    layout = np.dtype([(column, dtype[column]) for column in order])
    try:
        return {name: np.array(rows, layout)[list(dtype.names or ())].astype(dtype) for name, rows in found.items()}
    except OverflowError as error:
        raise UnreadableResult(f"{path} holds a number that is too large: {error}") from None


def _number(cell: str) -> float:
    return float(cell) if cell else float("nan")


def _read_lines(path: Path, kind: type[T]) -> list[T]:
    decoder = msgspec.json.Decoder(kind)
    found = []
    with _explained(path), path.open("rb") as source:
        for number, line in enumerate(source, start=1):
            try:
                found.append(decoder.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise UnreadableResult(f"{path}, line {number}: {error}") from None
    return found


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnreadableResult(f"cannot read {path}: {error.strerror}") from None


def as_builtin(value: Any) -> Any:
    """A numpy number or array as what JSON has; for msgspec's `enc_hook`, so NotImplementedError for anything else."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} is no JSON value")
