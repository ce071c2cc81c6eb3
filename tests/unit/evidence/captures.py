"""Capture files made by hand, and a conversation to put in them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

ETHERNET, RAW = 1, 101
Frame = tuple[int, bytes]
"""Nanoseconds since 1970, and the frame."""


def pcap(
    frames: Iterable[Frame],
    *,
    big: bool = False,
    nanoseconds: bool = False,
    link_type: int = ETHERNET,
    snap: int = 262144,
) -> bytes:
    order = ">" if big else "<"
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link_type)]
    for time_ns, frame in frames:
        second, fraction = divmod(time_ns, 10**9)
        kept = frame[:snap]
        unit = 1 if nanoseconds else 1000
        parts.append(struct.pack(order + "IIII", second, fraction // unit, len(kept), len(frame)) + kept)
    return b"".join(parts)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    padded = body + b"\0" * (-len(body) % 4)
    length = struct.pack(order + "I", len(padded) + 12)
    return struct.pack(order + "I", kind) + length + padded + length


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + b"\0" * (-len(value) % 4)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type: int = ETHERNET, resolution: int = 6, order: str = "<", snap: int = 0) -> bytes:
    options = option(9, bytes([resolution]), order) + option(0, b"", order)
    return block(1, struct.pack(order + "HHI", link_type, 0, snap) + options, order)


def enhanced(ticks: int, frame: bytes, number: int = 0, order: str = "<") -> bytes:
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
    return block(6, head + frame, order)


def pcapng(frames: Iterable[Frame], *, big: bool = False, resolution: int = 6, link_type: int = ETHERNET) -> bytes:
    order = ">" if big else "<"
    per_second = 2 ** (resolution & 127) if resolution & 128 else 10**resolution
    packets = b"".join(enhanced(time_ns * per_second // 10**9, frame, 0, order) for time_ns, frame in frames)
    return section(order) + interface(link_type, resolution, order) + packets


def segment(
    src: str, dst: str, sport: int, dport: int, seq: int, ack: int, size: int = 0, flags: str = "A", stamp: int = 1
) -> Packet:
    options = [("NOP", None), ("NOP", None), ("Timestamp", (stamp, stamp))]
    tcp = TCP(sport=sport, dport=dport, seq=seq, ack=ack, flags=flags, window=500, options=options)
    return Ether(src="02:00:00:00:00:01", dst="02:00:ff:00:00:01") / IP(src=src, dst=dst) / tcp / Raw(b"\0" * size)


def rings(
    jobs: Sequence[Sequence[str]],
    iterations: int,
    *,
    period_s: float = 0.2,
    burst_s: float = 0.05,
    apart_s: float = 0.0,
) -> list[Frame]:
    """Jobs whose hosts send around a ring for `burst_s` of every `period_s`, each `apart_s` after the one before.

    Ten segments of 1000 bytes go each way of each pair of neighbours in each burst.
    """
    frames = []
    for job, hosts in enumerate(jobs):
        for iteration in range(iterations):
            for part in range(10):
                for number, src in enumerate(hosts):
                    dst = hosts[(number + 1) % len(hosts)]
                    seq = 1 + 1000 * (10 * iteration + part)
                    time_s = 1_700_000_000 + job * apart_s + iteration * period_s + part * burst_s / 9
                    made = segment(src, dst, 4000 + number, 5000, seq, 1, 1000, stamp=iteration * 10 + part)
                    frames.append((round(time_s * 1e6) * 1000 + number * 1000, bytes(made)))
    return sorted(frames, key=lambda frame: frame[0])


def written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)
