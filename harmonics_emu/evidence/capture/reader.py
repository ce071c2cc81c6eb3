"""Capture files to packets: tells pcap from pcapng, and streams either through one buffer."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence.capture import pcapng
from harmonics_emu.evidence.capture.kernel.records import (
    BROKEN,
    LARGEST_PACKET,
    MORE_NEEDED,
    PACKETS_FULL,
    RECORD_HEADER,
    walk_pcap,
    walk_pcapng,
)
from harmonics_emu.evidence.capture.packet import LINK_TYPES, PACKET
from harmonics_emu.evidence.capture.source import Source, UnreadableCapture, opened

BUFFER = 4 * LARGEST_PACKET
CHUNK = 8192
"""Packets handed on at once: few enough to stay in a processor's cache until they are accounted for."""
PCAP_MAGICS = {b"\xd4\xc3\xb2\xa1": (False, 1000), b"\xa1\xb2\xc3\xd4": (True, 1000)} | {
    b"\x4d\x3c\xb2\xa1": (False, 1),
    b"\xa1\xb2\x3c\x4d": (True, 1),
}
"""First bytes: whether the file is big-endian, and the nanoseconds of a timestamp's unit."""
PCAP_HEADER = 24
OTHERS = {
    b"\x28\xb5\x2f\xfd": "zstd: unpack it first",
    b"\xfd7zX": "xz: unpack it first",
    b"BZh": "bzip2: unpack it first",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x34\xcd\xb2\xa1": "a pcap variant of old Red Hat kernels: convert it with editcap -F pcap",
    b"\xa1\xb2\xcd\x34": "a pcap variant of old Red Hat kernels: convert it with editcap -F pcap",
}


@dataclass
class Capture:
    """What is known of a file besides its packets; complete once all packets have been read.

    damage: one line on where and why reading stopped early, None if it did not. skipped_blocks: of pcapng, of unknown
    type. reported_drops: packets that the capturing system says it lost, None where the file has no such count.
    """

    path: str
    format: str = ""
    link_types: set[str] = field(default_factory=set)
    snap_length: int = 0
    damage: str | None = None
    skipped_blocks: int = 0
    reported_drops: int | None = None
    interface_names: list[str] = field(default_factory=list)


def read_capture(path: str, capture: Capture, chunk: int = CHUNK) -> Iterator[NDArray[Any]]:
    """Yield the packets of a file in order, as arrays of at most `chunk` rows of PACKET, and fill in `capture`.

    An array is overwritten by the next one. A file that is cut short or damaged inside yields what can be read and says
    so in `capture.damage`; one that is no capture raises UnreadableCapture.
    """
    with opened(path) as source:
        window = _Window(source)
        window.reach(PCAP_HEADER)
        head = bytes(window.data[: min(4, window.end)])
        if head in PCAP_MAGICS:
            yield from _read_pcap(window, capture, chunk, *PCAP_MAGICS[head])
        elif head == pcapng.SECTION_MAGIC:
            yield from _read_pcapng(window, capture, chunk)
        else:
            raise UnreadableCapture(f"{path} is no capture: {_likely(bytes(window.data[: min(64, window.end)]))}")
        capture.damage = capture.damage or source.damage


def read_all(path: str) -> NDArray[Any]:
    """All packets of a file at once, for files that fit in memory. Errors as of read_capture."""
    chunks = [chunk.copy() for chunk in read_capture(path, Capture(path))]
    return np.concatenate(chunks) if chunks else np.empty(0, PACKET)


class _Window:
    """The part of the file that is in memory: data[at:end], whose first byte is number `offset + at` of the file."""

    def __init__(self, source: Source) -> None:
        self.data = np.zeros(BUFFER, np.uint8)
        self.at = self.end = self.offset = 0
        self._source, self._view = source, self.data.data

    @property
    def position(self) -> int:
        return self.offset + self.at

    @property
    def left(self) -> int:
        return self.end - self.at

    def reach(self, count: int) -> bool:
        """Have at least `count` bytes at hand, and as many more as there is room for; False if the file ends first."""
        while self.left < count:
            if self.at:
                self.data[: self.left] = self.data[self.at : self.end].copy()
                self.offset, self.at, self.end = self.offset + self.at, 0, self.left
            found = self._source.fill(self._view[self.end :])
            if found == 0:
                return False
            self.end += found
        return True

    def skip(self, count: int) -> bool:
        """Pass over `count` bytes, however many; False if the file ends first."""
        while count > self.left:
            count -= self.left
            self.at = self.end
            if not self.reach(1):
                return False
        self.at += count
        return True


def _read_pcap(
    window: _Window, capture: Capture, chunk: int, swapped: bool, fraction_ns: int
) -> Iterator[NDArray[Any]]:
    if window.left < PCAP_HEADER:
        raise UnreadableCapture(f"{capture.path} is a pcap file that ends within its header")
    head = struct.unpack_from(">IHHiIII" if swapped else "<IHHiIII", window.data.data)
    link_type = head[6] & 0xFFFF  # above it stand the bytes of a frame check sequence
    unit, order = "ns" if fraction_ns == 1 else "us", "big-endian" if swapped else "little-endian"
    capture.format, capture.snap_length = f"pcap, {unit}, {order}", head[5]
    capture.link_types.add(name_link_type(link_type))
    window.at = PCAP_HEADER
    packets = np.zeros(chunk, PACKET)
    count = 0
    while True:
        decoded, window.at, why = walk_pcap(
            window.data, window.at, window.end, swapped, fraction_ns, link_type, packets[count:], chunk - count
        )
        count += decoded
        if why == MORE_NEEDED and window.reach(window.left + 1):
            continue
        if count:
            yield packets[:count]
            count = 0
        if why == PACKETS_FULL:
            continue
        if why == BROKEN:
            capture.damage = f"damaged at byte {window.position}: a record claims more than {LARGEST_PACKET} bytes"
        elif window.left:
            what = "a record's header" if window.left < RECORD_HEADER else "a packet"
            capture.damage = f"cut short at byte {window.position + window.left}, in the middle of {what}"
        return


def _read_pcapng(window: _Window, capture: Capture, chunk: int) -> Iterator[NDArray[Any]]:
    section = pcapng.Section()
    packets = np.zeros(chunk, PACKET)
    count = 0
    while True:
        decoded, unknown, window.at, why = walk_pcapng(
            window.data, window.at, window.end, section.swapped, section.clocks, packets[count:], chunk - count
        )
        count += decoded
        capture.skipped_blocks += unknown
        if why == MORE_NEEDED:
            if window.left < BUFFER and window.reach(window.left + 1):
                continue
            if window.left == BUFFER:
                # Larger than all the buffer, so no packet: those are bounded.
                length = pcapng.block_length(window.data, window.at, section.swapped)
                capture.skipped_blocks += 1
                if window.skip(length):
                    continue
                capture.damage = f"cut short at byte {window.position}, in the middle of a block"
        if count:
            yield packets[:count]
            count = 0
        if why == PACKETS_FULL:
            continue
        if why == MORE_NEEDED:
            if window.left:
                capture.damage = f"cut short at byte {window.position + window.left}, in the middle of a block"
            return
        try:
            if why == BROKEN:
                raise pcapng.BrokenBlock("a block's lengths contradict each other, or its interface is not declared")
            if not _special_block(window, section, capture):
                capture.damage = f"cut short at byte {window.position + window.left}, in the middle of a block"
                return
        except pcapng.BrokenBlock as error:
            if not capture.format:
                raise UnreadableCapture(f"{capture.path} is a pcapng file with a broken first block: {error}") from None
            capture.damage = f"damaged at byte {window.position}: {error}"
            return


def _special_block(window: _Window, section: pcapng.Section, capture: Capture) -> bool:
    """Read a block that says how others are to be read. False if the file ends within it."""
    if not window.reach(pcapng.LEAST_SECTION):
        return False
    length = section.length_of_next(window.data, window.at)
    if not window.reach(length):
        return False
    block = window.data[window.at : window.at + length].tobytes()
    if section.begins(block):
        capture.format = f"pcapng, {'big-endian' if section.swapped else 'little-endian'}"
    elif interface := section.add_interface(block):
        capture.link_types.add(name_link_type(interface.link_type))
        capture.snap_length = max(capture.snap_length, interface.snap_length)
        capture.interface_names.append(interface.name)
    elif (drops := section.drops_in(block)) is not None:
        capture.reported_drops = (capture.reported_drops or 0) + drops
    window.at += length
    return True


def name_link_type(link_type: int) -> str:
    return LINK_TYPES.get(link_type, f"link type {link_type}, which is not read")


def _likely(head: bytes) -> str:
    for magic, what in OTHERS.items():
        if head.startswith(magic):
            return f"it is {what}"
    expected = "expected pcap, pcapng or either in gzip"
    if not head:
        return f"nothing is in it; {expected}"
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head):
        return f"it looks like text, beginning with {head[:20].decode()!r}; {expected}"
    return f"it begins with {head[:4].hex(' ')}; {expected}"
