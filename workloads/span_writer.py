"""Writes iteration spans: what a rank measured of its own iterations, one small binary file a rank.

Each row is handed to the kernel as it is made, so a rank that is killed keeps all rows of the iterations it finished.
Needs nothing but Python's own library, as it also runs in users' scripts; workloads.spans reads the files.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

HEADER = b"SPANS\0\0\1"
_ROW = struct.Struct("=iidddd")


class SpanWriter:
    """Appends a rank's rows to a file, which it replaces. One write call a row: about 2 us on a tmpfs."""

    def __init__(self, path: Path, rank: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._rank = rank
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        os.write(self._file, HEADER)

    def add(self, iteration: int, start_s: float, compute_s: float, gate_s: float, end_s: float) -> None:
        os.write(self._file, _ROW.pack(self._rank, iteration, start_s, compute_s, gate_s, end_s))

    def close(self) -> None:
        os.close(self._file)
