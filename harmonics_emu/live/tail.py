"""Follows a text file that another program writes line by line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_BYTES = 2**22
"""Read at once; the rest comes with the next call."""


class Tail:
    """Hands out the whole lines that have come since the last call.

    The file may not be there yet, and may begin anew. It lies where its owner may put anything in its place: links are
    not followed, and what is no plain file has no lines.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._at = 0
        self._pending = b""

    def new_lines(self) -> list[bytes]:
        if not self._open():
            return []
        assert self._file is not None
        content = os.pread(self._file, MOST_BYTES, self._at)
        self._at += len(content)
        *lines, self._pending = (self._pending + content).split(b"\n")
        return lines

    def age_s(self, now_s: float) -> float | None:
        """Since when (seconds, by the clock of `now_s`, which is the time since 1970) nothing was written."""
        return None if self._file is None else max(0.0, now_s - os.fstat(self._file).st_mtime)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> bool:
        """Whether there is a file to read, from its beginning where it is another or shorter than before."""
        if self._file is not None:
            held = os.fstat(self._file)
            try:
                there = os.stat(self._path, follow_symlinks=False)
            except OSError:
                there = held
            if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino) and held.st_size >= self._at:
                return True
            self.close()
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        self._at, self._pending = 0, b""
        if stat.S_ISREG(os.fstat(self._file).st_mode):
            return True
        self.close()
        return False
