"""Writes tables as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from harmonics_emu.ownership import Owner
from harmonics_emu.results.run_directory import replacing, write_file

Batch = Sequence[Iterable[Any]]
"""Some rows, as a sequence for each column."""
Kind = type[str] | type[int] | type[float] | type[bool]


@dataclass(frozen=True)
class Series:
    """One table. columns: names and kinds, in order; batches: the rows, to be gone through once."""

    name: str
    columns: Mapping[str, Kind]
    batches: Iterable[Batch]


def parquet_available() -> bool:
    """Whether the extra `parquet` is installed."""
    try:
        import pyarrow.parquet
    except ImportError:
        return False
    return bool(pyarrow.parquet)


def write_all_series(directory: Path, tables: Iterable[Series], owner: Owner | None) -> str:
    """Write each table as CSV, and as Parquet where that is available; says in one line what was written."""
    parquet = parquet_available()
    names = [series.name for series in tables if write_series(directory, series, owner, parquet=parquet)]
    how = "CSV and Parquet" if parquet else "CSV (for Parquet: pip install 'harmonics-emu[parquet]')"
    return f"Wrote {', '.join(names)} to {directory} as {how}"


def write_series(directory: Path, series: Series, owner: Owner | None, *, parquet: bool) -> tuple[str, ...]:
    """Write one table as CSV, and as Parquet if asked to, as `owner`; returns the files' names.

    None and NaN become an empty cell, or null.
    """
    name = series.name
    with replacing(directory, f"{name}.csv", owner) as sink:
        passed_on = _as_csv(sink, list(series.columns), series.batches)
        if not parquet:
            for _ in passed_on:
                pass
            return (f"{name}.csv",)
        packed = io.BytesIO()
        _as_parquet(packed, series.columns, passed_on)
    write_file(directory, f"{name}.parquet", packed.getvalue(), owner)
    return (f"{name}.csv", f"{name}.parquet")


def _as_csv(sink: TextIO, columns: Sequence[str], batches: Iterable[Batch]) -> Iterator[Batch]:
    """Write the batches, and hand each on: they can be gone through only once."""
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(columns)
    for batch in batches:
        plain = [column.tolist() if hasattr(column, "tolist") else column for column in batch]
        for cells in zip(*plain, strict=True):
            writer.writerow(["" if cell is None or cell != cell else cell for cell in cells])
        yield plain


def _as_parquet(sink: io.BytesIO, columns: Mapping[str, Kind], batches: Iterable[Batch]) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    types: dict[Kind, Any] = {
        str: pyarrow.string(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        bool: pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    with ParquetWriter(sink, schema) as writer:
        for batch in batches:
            arrays = [
                pyarrow.array(column, field.type, from_pandas=True) for column, field in zip(batch, schema, strict=True)
            ]
            writer.write_table(pyarrow.table(arrays, schema=schema))
