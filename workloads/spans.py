"""Iteration spans: what each rank measured of its own iterations, as workloads.span_writer writes it.

A file is an 8-byte header and then rows of dtype `ITERATION`.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.span_writer import HEADER, SpanWriter

__all__ = ["ITERATION", "MOST_BYTES", "SpanReader", "SpanWriter", "read_spans"]

ITERATION = np.dtype(
    [
        ("rank", np.int32),
        ("iteration", np.int32),
        ("start_s", np.float64),
        ("compute_s", np.float64),
        ("gate_s", np.float64),
        ("end_s", np.float64),
    ]
)
"""One rank's iteration. start_s and end_s count from time zero; compute_s and gate_s are durations inside it."""

MOST_BYTES = 2**20
"""Read at once: 26,000 rows. What is left over comes with the next call."""


def read_spans(path: Path) -> NDArray[Any]:
    """All whole rows of a span file, dtype `ITERATION`; none if the rank died before its first row.

    ValueError if the file is something else.
    """
    content = path.read_bytes()
    if not content:
        return np.empty(0, ITERATION)
    if not content.startswith(HEADER):
        raise ValueError(f"{path} is not a span file of this version")
    rows = (len(content) - len(HEADER)) // ITERATION.itemsize
    return np.frombuffer(content, ITERATION, count=rows, offset=len(HEADER)).copy()


class SpanReader:
    """Reads a span file that is still being written: each call of `new_rows` gives what has come since the last.

    The file may not be there yet. It lies where the rank's user may put anything in its place, and the reader may be
    root: links are not followed, and what is no span file gives no rows.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._at = len(HEADER)

    def new_rows(self) -> NDArray[Any]:
        """Whole rows of dtype `ITERATION`, in the order in which they were written."""
        if self._file is None and not self._open():
            return np.empty(0, ITERATION)
        assert self._file is not None
        content = os.pread(self._file, MOST_BYTES, self._at)
        rows = np.frombuffer(content, ITERATION, count=len(content) // ITERATION.itemsize)
        self._at += rows.nbytes
        return rows

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> bool:
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        if stat.S_ISREG(os.fstat(self._file).st_mode) and os.pread(self._file, len(HEADER), 0) == HEADER:
            return True
        self.close()
        return False
