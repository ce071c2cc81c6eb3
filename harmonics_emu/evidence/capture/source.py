"""Bytes of a capture file, from a file, a pipe or standard input, unpacked from gzip where it is that."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from harmonics_emu.errors import UsageError
from harmonics_emu.ownership import acting_as, invoking_owner

STANDARD_INPUT = "-"
GZIP = b"\x1f\x8b"
PIECE = 2**20


class UnreadableCapture(UsageError):
    """A file that can't be read as a capture, and why."""


class Source(Protocol):
    """Where bytes come from. `damage`: one line on what is wrong with them, known once they end."""

    damage: str | None

    def fill(self, view: memoryview) -> int:
        """Write the next bytes to the front of `view`; 0 only at the end."""


class Plain:
    """The bytes of a file as they are, with the first few looked at already."""

    damage: str | None = None

    def __init__(self, file: BinaryIO, head: bytes) -> None:
        self._file, self._head = file, head

    def fill(self, view: memoryview) -> int:
        if self._head:
            count = min(len(view), len(self._head))
            view[:count] = self._head[:count]
            self._head = self._head[count:]
            return count
        return self._file.readinto(view) or 0  # type: ignore[attr-defined]


class Unzipped:
    """What gzip packed, in one member or in several as `cat a.gz b.gz` makes them. What came before damage counts."""

    def __init__(self, packed: Source) -> None:
        self.damage: str | None = None
        self._packed, self._pending = packed, b""
        self._piece = bytearray(PIECE)
        self._inflater = zlib.decompressobj(wbits=31)
        self._members = 0

    def fill(self, view: memoryview) -> int:
        while self.damage is None:
            if not self._pending and not self._inflater.unconsumed_tail:
                count = self._packed.fill(memoryview(self._piece))
                if count == 0:
                    if not self._inflater.eof:
                        self.damage = "the gzip data end in the middle"
                    return 0
                self._pending = bytes(self._piece[:count])
            if self._inflater.eof:
                if not self._pending.startswith(GZIP[:1]):
                    return 0  # padding behind the last member
                self._inflater = zlib.decompressobj(wbits=31)
            packed = self._inflater.unconsumed_tail or self._pending
            try:
                # At most as much as there is room for: a small file can unpack to a huge one.
                found = self._inflater.decompress(packed, len(view))
            except zlib.error as error:
                self.damage = f"the gzip data are damaged ({error})"
                return 0
            self._pending = self._inflater.unused_data
            if found:
                view[: len(found)] = found
                return len(found)
        return 0


@contextmanager
def opened(path: str) -> Iterator[Source]:
    """The bytes of the file at `path`, '-' for standard input. UnreadableCapture if it can't be opened or is empty.

    Opened with the rights of the user who called sudo.
    """
    with _file(path) as file:
        try:
            head = _first(file, 4)
        except OSError as error:
            raise UnreadableCapture(f"cannot read {path}: {error.strerror}") from None
        if not head:
            raise UnreadableCapture(f"{path} is empty (0 bytes): nothing was captured, or the capture was not closed")
        plain = Plain(file, head)
        yield Unzipped(plain) if head.startswith(GZIP) else plain


@contextmanager
def _file(path: str) -> Iterator[BinaryIO]:
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        with acting_as(invoking_owner()):
            file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below
    except IsADirectoryError:
        raise UnreadableCapture(f"{path} is a directory; name the capture files in it") from None
    except OSError as error:
        raise UnreadableCapture(f"cannot read {path}: {error.strerror}") from None
    with file:
        yield file


def _first(file: BinaryIO, count: int) -> bytes:
    """The first `count` bytes, fewer if there are no more: a pipe may hand them over one by one."""
    found = b""
    while len(found) < count and (more := file.read(count - len(found))):
        found += more
    return found


def link_of(path: str) -> str:
    """The link that a file name says its packets are of: the name without folders and known endings."""
    name = "stdin" if path == STANDARD_INPUT else Path(path).name
    for ending in (".gz", ".pcapng", ".pcap", ".cap"):
        name = name.removesuffix(ending)
    return name or path
