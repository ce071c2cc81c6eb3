"""The blocks of pcapng that are not packets: sections, interfaces and their statistics."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence.capture.kernel.records import CLOCK, INTERFACE, STATISTICS

SECTION_MAGIC = b"\x0a\x0d\x0d\x0a"
LITTLE, BIG = b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"
LEAST_SECTION, LEAST_INTERFACE, LEAST_STATISTICS = 12, 20, 24
LARGEST_SPECIAL = 2**20
MOST_INTERFACES = 4096
NAME, RESOLUTION, OFFSET, DROPS = 2, 9, 14, 5
"""Option codes: if_name, if_tsresol and if_tsoffset of an interface, isb_ifdrop of statistics."""
MICROSECONDS = 6


class BrokenBlock(ValueError):
    """A block that can't be right, and why."""


@dataclass(frozen=True)
class Interface:
    link_type: int
    snap_length: int
    name: str


class Section:
    """How the blocks of the section at hand are read: byte order (big-endian if `swapped`) and interfaces so far."""

    def __init__(self) -> None:
        self.swapped = False
        self.clocks: NDArray[Any] = np.zeros(0, CLOCK)

    def length_of_next(self, data: NDArray[Any], at: int) -> int:
        """Length of the special block that begins at data[at:at + 12]. BrokenBlock if it is no possible one."""
        swapped = self.swapped
        if data[at : at + 4].tobytes() == SECTION_MAGIC:
            order = data[at + 8 : at + 12].tobytes()
            if order not in (LITTLE, BIG):
                raise BrokenBlock("a section has no byte order mark")
            swapped = order == BIG
        length = block_length(data, at, swapped)
        if length < LEAST_SECTION or length % 4 or length > LARGEST_SPECIAL:
            raise BrokenBlock(f"a block claims to be {length} bytes long")
        return length

    def begins(self, block: bytes) -> bool:
        """Whether the block begins a section; then it is this one from now on."""
        if not block.startswith(SECTION_MAGIC):
            return False
        self.swapped = block[8:12] == BIG
        self.clocks = np.zeros(0, CLOCK)
        return True

    def add_interface(self, block: bytes) -> Interface | None:
        """Take up the interface that the block describes; None if it is another kind of block."""
        if self._kind(block) != INTERFACE:
            return None
        if len(block) < LEAST_INTERFACE:
            raise BrokenBlock("an interface's description is too short")
        if len(self.clocks) >= MOST_INTERFACES:
            raise BrokenBlock(f"a section has more than {MOST_INTERFACES} interfaces")
        link_type, snap_length = struct.unpack_from(self._order("HxxI"), block, 8)
        options = dict(self._options(block[16:-4]))
        resolution = options.get(RESOLUTION, b"")[:1] or bytes([MICROSECONDS])
        multiplier, divisor, shift = _clock(resolution[0])
        offset_s = struct.unpack(self._order("q"), options[OFFSET])[0] if len(options.get(OFFSET, b"")) == 8 else 0
        # An offset beyond some centuries is no time; it would only make sums overflow.
        offset_ns = offset_s * 10**9 if abs(offset_s) < 2**32 else 0
        row = np.array([(link_type, snap_length, multiplier, divisor, shift, offset_ns)], CLOCK)
        self.clocks = np.concatenate([self.clocks, row])
        name = options.get(NAME, b"").rstrip(b"\0").decode(errors="replace")
        return Interface(link_type, snap_length, name or f"interface {len(self.clocks) - 1}")

    def drops_in(self, block: bytes) -> int | None:
        """Packets that the statistics in the block say were lost, None if it holds no such count."""
        if self._kind(block) != STATISTICS or len(block) < LEAST_STATISTICS:
            return None
        value = dict(self._options(block[20:-4])).get(DROPS, b"")
        return int(struct.unpack(self._order("Q"), value)[0]) if len(value) == 8 else None

    def _kind(self, block: bytes) -> int:
        return int(struct.unpack_from(self._order("I"), block)[0])

    def _order(self, layout: str) -> str:
        return (">" if self.swapped else "<") + layout

    def _options(self, area: bytes) -> Iterator[tuple[int, bytes]]:
        """Code and value of each option; ends at the first that does not fit."""
        at = 0
        while at + 4 <= len(area):
            code, length = struct.unpack_from(self._order("HH"), area, at)
            if code == 0 or at + 4 + length > len(area):
                return
            yield code, area[at + 4 : at + 4 + length]
            at += 4 + (length + 3) // 4 * 4


def block_length(data: NDArray[Any], at: int, swapped: bool) -> int:
    return int(struct.unpack_from(">I" if swapped else "<I", data.data, at + 4)[0])


def _clock(resolution: int) -> tuple[int, int, int]:
    """multiplier, divisor and shift of CLOCK. The top bit of `resolution` tells powers of 2 from powers of 10."""
    exponent = resolution & 127
    if resolution & 128:
        if exponent > 63:
            raise BrokenBlock(f"an interface's clock ticks 2^{exponent} times a second")
        return (1, 1, exponent) if exponent else (10**9, 1, 0)
    if exponent > 18:
        raise BrokenBlock(f"an interface's clock ticks 10^{exponent} times a second")
    return (10 ** (9 - exponent), 1, 0) if exponent <= 9 else (1, 10 ** (exponent - 9), 0)
