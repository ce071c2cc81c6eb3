"""Iteration spans: what each rank measured of its own iterations, one small binary file a rank.

A file is an 8-byte header and then rows of dtype `ITERATION`. Each row is handed to the kernel as it is made, so a
rank that is killed keeps all rows of the iterations it finished.
"""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

_HEADER = b"SPANS\0\0\1"
_ROW = struct.Struct("=iidddd")
MOST_BYTES = 2**20
"""Read at once: 26,000 rows. What is left over comes with the next call."""


class SpanWriter:
    """Appends a rank's rows to a file, which it replaces. One write call a row: about 2 us on a tmpfs."""

    def __init__(self, path: Path, rank: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._rank = rank
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        os.write(self._file, _HEADER)

    def add(self, iteration: int, start_s: float, compute_s: float, gate_s: float, end_s: float) -> None:
        os.write(self._file, _ROW.pack(self._rank, iteration, start_s, compute_s, gate_s, end_s))

    def close(self) -> None:
        os.close(self._file)


def read_spans(path: Path) -> NDArray[Any]:
    """All whole rows of a span file, dtype `ITERATION`; none if the rank died before its first row.

    ValueError if the file is something else.
    """
    content = path.read_bytes()
    if not content:
        return np.empty(0, ITERATION)
    if not content.startswith(_HEADER):
        raise ValueError(f"{path} is not a span file of this version")
    rows = (len(content) - len(_HEADER)) // ITERATION.itemsize
    return np.frombuffer(content, ITERATION, count=rows, offset=len(_HEADER)).copy()


class SpanReader:
    """Reads a span file that is still being written: each call of `new_rows` gives what has come since the last.

    The file may not be there yet. It lies where the rank's user may put anything in its place, and the reader may be
    root: links are not followed, and what is no span file gives no rows.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._at = len(_HEADER)

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
        if stat.S_ISREG(os.fstat(self._file).st_mode) and os.pread(self._file, len(_HEADER), 0) == _HEADER:
            return True
        self.close()
        return False
