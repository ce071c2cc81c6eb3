"""Iteration spans: what each rank measured of its own iterations, one small binary file a rank.

A file is an 8-byte header and then rows of dtype `ITERATION`. Each row is handed to the kernel as it is made, so a
rank that is killed keeps all rows of the iterations it finished.
"""

from __future__ import annotations

import os
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
