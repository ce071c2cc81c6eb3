"""Walks over the records of a pcap file, and the blocks of a pcapng file, in a buffer, decoding their packets."""

from __future__ import annotations

from typing import Any

import numpy as np

from harmonics_emu.evidence.capture.kernel.frames import _decode_frame
from harmonics_emu.evidence.capture.packet import NO_TIME
from harmonics_emu.simulate.kernel.jit import compiled

MORE_NEEDED, PACKETS_FULL, BROKEN, SPECIAL_BLOCK = range(4)
"""Why a walk stopped: the next record is not wholly there; no room for its packet; it can't be right; it is the
caller's to read."""

LARGEST_PACKET = 2**20
"""Bytes of one packet beyond which a record is taken for damage. tcpdump records at most 2**18."""
RECORD_HEADER = 16
BLOCK_HEADER, BLOCK_TRAILER = 8, 4

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, STATISTICS, ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 5, 6
"""Block types of pcapng. Others are skipped."""

CLOCK = np.dtype(
    [
        ("link_type", np.int64),
        ("snap_length", np.int64),
        ("multiplier", np.uint64),
        ("divisor", np.uint64),
        ("shift", np.uint64),
        ("offset_ns", np.int64),
    ]
)
"""How a pcapng interface's packets are read. Its timestamps count 2**-shift seconds, or where shift is 0 units of
multiplier / divisor nanoseconds; offset_ns is added."""
MOST_SHIFT = 34
"""Up to this shift a fraction of a second times 10**9 stays within 64 bits."""


@compiled
def _word(data: Any, at: Any, swapped: bool) -> Any:
    """32 bits in the file's byte order, which is big-endian if `swapped`."""
    a, b = np.int64(data[at]), np.int64(data[at + 1])
    c, d = np.int64(data[at + 2]), np.int64(data[at + 3])
    if swapped:
        return (a << 24) | (b << 16) | (c << 8) | d
    return (d << 24) | (c << 16) | (b << 8) | a


@compiled
def walk_pcap(
    data: Any, at: Any, end: int, swapped: bool, fraction_ns: int, link_type: int, packets: Any, room: int
) -> Any:
    """Decode the records in data[at:end] into packets[:room]. fraction_ns: nanoseconds of a timestamp's lower word.

    Returns (packets decoded, where the first record that was not decoded begins, why the walk stopped).
    """
    count = 0
    while True:
        if at + RECORD_HEADER > end:
            return count, at, MORE_NEEDED
        captured, wire = _word(data, at + 8, swapped), _word(data, at + 12, swapped)
        if captured > LARGEST_PACKET:
            return count, at, BROKEN
        if at + RECORD_HEADER + captured > end:
            return count, at, MORE_NEEDED
        if count == room:
            return count, at, PACKETS_FULL
        packet = packets[count]
        packet.time_ns = _word(data, at, swapped) * 1_000_000_000 + _word(data, at + 4, swapped) * fraction_ns
        packet.interface = 0
        _decode_frame(data, at + RECORD_HEADER, captured, max(captured, wire), link_type, packet)
        at += RECORD_HEADER + captured
        count += 1


@compiled
def _time_ns(high: int, low: int, clock: Any) -> Any:
    ticks = (np.uint64(high) << np.uint64(32)) | np.uint64(low)
    second = np.uint64(1_000_000_000)
    if clock.shift == np.uint64(0):
        if clock.multiplier > np.uint64(1) and ticks > np.uint64(2**62) // clock.multiplier:
            return np.int64(NO_TIME)
        time = ticks * clock.multiplier // clock.divisor
    else:
        whole = ticks >> clock.shift
        fraction = ticks & ((np.uint64(1) << clock.shift) - np.uint64(1))
        if whole > np.uint64(2**32):
            return np.int64(NO_TIME)
        shift = clock.shift
        if shift > np.uint64(MOST_SHIFT):
            fraction >>= shift - np.uint64(MOST_SHIFT)
            shift = np.uint64(MOST_SHIFT)
        time = whole * second + ((fraction * second) >> shift)
    if time > np.uint64(2**62):
        return np.int64(NO_TIME)
    return np.int64(time) + clock.offset_ns


@compiled
def walk_pcapng(data: Any, at: Any, end: int, swapped: bool, clocks: Any, packets: Any, room: int) -> Any:
    """Decode the packet blocks in data[at:end] into packets[:room]. clocks: rows of CLOCK, one for each interface.

    Returns (packets decoded, blocks of unknown type passed over, where the first block that was not read begins, why
    the walk stopped). Sections, interfaces and statistics are left to the caller (SPECIAL_BLOCK).
    """
    count = unknown = 0
    while True:
        if at + BLOCK_HEADER + BLOCK_TRAILER > end:
            return count, unknown, at, MORE_NEEDED
        kind = _word(data, at, swapped)
        if kind in (SECTION, INTERFACE, STATISTICS):
            return count, unknown, at, SPECIAL_BLOCK
        length = _word(data, at + 4, swapped)
        if length < BLOCK_HEADER + BLOCK_TRAILER or length % 4:
            return count, unknown, at, BROKEN
        simple = kind == SIMPLE_PACKET
        if not simple and kind != ENHANCED_PACKET and kind != OLD_PACKET:
            if at + length > end:
                return count, unknown, at, MORE_NEEDED
            unknown += 1
            at += length
            continue
        head = 12 if simple else 28
        if length < head + BLOCK_TRAILER or length > 2 * LARGEST_PACKET:
            return count, unknown, at, BROKEN
        if at + length > end:
            return count, unknown, at, MORE_NEEDED
        if count == room:
            return count, unknown, at, PACKETS_FULL
        if simple:
            interface = 0
        elif kind == ENHANCED_PACKET:
            interface = _word(data, at + 8, swapped)
        else:
            word = _word(data, at + 8, swapped)
            interface = word >> 16 if swapped else word & 0xFFFF
        if interface >= len(clocks):
            return count, unknown, at, BROKEN
        clock = clocks[interface]
        packet = packets[count]
        if simple:
            wire = _word(data, at + 8, swapped)
            captured = min(wire, length - head - BLOCK_TRAILER)
            if clock.snap_length > 0:
                captured = min(captured, clock.snap_length)
            packet.time_ns = NO_TIME
        else:
            captured, wire = _word(data, at + 20, swapped), _word(data, at + 24, swapped)
            packet.time_ns = _time_ns(_word(data, at + 12, swapped), _word(data, at + 16, swapped), clock)
        if captured > length - head - BLOCK_TRAILER:
            return count, unknown, at, BROKEN
        packet.interface = interface
        _decode_frame(data, at + head, captured, max(captured, wire), clock.link_type, packet)
        at += length
        count += 1
