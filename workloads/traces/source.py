"""Opens trace files, plain or gzipped, and reads them as lines or as text of bounded pieces."""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

MAX_LINE_BYTES = 2**20
CHUNK_BYTES = 2**20
_GZIP = b"\x1f\x8b"


class TraceError(ValueError):
    """A trace that can't be used. The message names the file, the place in it, and what to do."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")


@dataclass
class Skipped:
    """Rows that were passed over: how many for each reason, and the first one of each (counted from 1)."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def add(self, why: str, row: int) -> None:
        self.counts[why] += 1
        self.first.setdefault(why, row)

    @property
    def total(self) -> int:
        return self.counts.total()


@contextmanager
def open_trace(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes, decompressed if they are gzipped. TraceError if it can't be read, also while reading."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise TraceError(path, "is no regular file")
        with open(path, "rb") as raw:
            zipped = raw.read(2) == _GZIP
            raw.seek(0)
            if zipped:
                with gzip.open(raw) as file:
                    yield cast(IO[bytes], file)
            else:
                yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(path, f"its gzip data is damaged or ends too early ({error})") from None
    except OSError as error:
        raise TraceError(path, f"can't be read: {error.strerror}") from None


def lines(path: Path, skipped: Skipped) -> Iterator[str]:
    """The file's lines without their ends. A line of more than MAX_LINE_BYTES is skipped, and yields an empty one.

    Bytes that are no UTF-8 become U+FFFD. TraceError, saying after which line, where the data is damaged.
    """
    number = 0
    try:
        with open_trace(path) as file:
            while line := file.readline(MAX_LINE_BYTES):
                number += 1
                if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                    while line and not line.endswith(b"\n"):
                        line = file.readline(MAX_LINE_BYTES)
                    skipped.add(f"longer than {MAX_LINE_BYTES:,} bytes", number)
                    line = b""
                yield line.decode("utf-8", "replace").rstrip("\r\n").removeprefix("\ufeff" if number == 1 else "")
    except TraceError as error:
        if number == 0:
            raise
        raise TraceError(path, f"line {number + 1}: {str(error).removeprefix(f'{path}: ')}") from None


def chunks(path: Path) -> Iterator[str]:
    """The file's text in pieces of about CHUNK_BYTES."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    with open_trace(path) as file:
        while raw := file.read(CHUNK_BYTES):
            yield decoder.decode(raw)


def head(path: Path, size: int = 4096) -> bytes:
    """The first bytes of a file, decompressed."""
    with open_trace(path) as file:
        return file.read(size)
