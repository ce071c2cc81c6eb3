"""A capture of any length made at once: two jobs that take turns on a link, each a ring of four hosts."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SNAP = 80
"""Bytes kept of a packet: Ethernet, IP and TCP headers with timestamps, and some payload."""
RECORD = np.dtype(
    [
        ("second", "<u4"),
        ("microsecond", "<u4"),
        ("captured", "<u4"),
        ("wire", "<u4"),
        ("ether_dst", "u1", 6),
        ("ether_src", "u1", 6),
        ("ether_type", ">u2"),
        ("ip_version", "u1"),
        ("ip_tos", "u1"),
        ("ip_length", ">u2"),
        ("ip_id", ">u2"),
        ("ip_offset", ">u2"),
        ("ip_ttl", "u1"),
        ("ip_protocol", "u1"),
        ("ip_checksum", ">u2"),
        ("ip_src", "u1", 4),
        ("ip_dst", "u1", 4),
        ("src_port", ">u2"),
        ("dst_port", ">u2"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("tcp_header", "u1"),
        ("tcp_flags", "u1"),
        ("window", ">u2"),
        ("tcp_checksum", ">u2"),
        ("urgent", ">u2"),
        ("option", ">u4"),
        ("ts_value", ">u4"),
        ("ts_echo", ">u4"),
        ("payload", "u1", 14),
    ]
)
assert RECORD.itemsize == 16 + SNAP
MTU, HEADERS, PAYLOAD = 1498, 52, 1446
PIECE = 500_000
TURN = 1000
"""Packets of one job before the other's turn."""
MEMBERS = 4
PER_ACK = 5


def write_capture(path: Path, packets: int) -> None:
    """Write a pcap file of `packets` packets, 5 us apart: of five, four are full segments and one acknowledges."""
    state = np.zeros((2, MEMBERS), np.int64)
    with path.open("wb") as sink:
        sink.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP, 1))
        for first in range(0, packets, PIECE):
            _records(np.arange(first, min(first + PIECE, packets)), state).tofile(sink)


def _records(number: NDArray[np.int64], sent: NDArray[np.int64]) -> NDArray[np.void]:
    """Records of the packets of these numbers; `sent` counts the segments of each job's hosts so far, and goes on."""
    records = np.zeros(len(number), RECORD)
    job, host = number // TURN % 2, number % MEMBERS
    pure_ack = number % PER_ACK == PER_ACK - 1
    peer = (host + 1) % MEMBERS
    time_us = 5 * number
    records["second"], records["microsecond"] = 1_700_000_000 + time_us // 10**6, time_us % 10**6
    records["captured"] = SNAP
    records["wire"] = np.where(pure_ack, SNAP, 14 + MTU)
    records["ether_dst"], records["ether_src"] = (2, 0, 255, 0, 0, 1), (2, 0, 0, 0, 0, 0)
    records["ether_src"][:, 5] = np.where(pure_ack, peer, host)
    records["ether_type"], records["ip_version"], records["ip_ttl"], records["ip_protocol"] = 0x0800, 0x45, 64, 6
    records["ip_tos"] = job * 8
    records["ip_length"] = np.where(pure_ack, HEADERS, MTU)
    for field, end in (("ip_src", np.where(pure_ack, peer, host)), ("ip_dst", np.where(pure_ack, host, peer))):
        records[field][:, 0], records[field][:, 1], records[field][:, 3] = 10, job + 1, end + 1
    records["src_port"] = np.where(pure_ack, 5000, 4000) + host
    records["dst_port"] = np.where(pure_ack, 4000, 5000) + host
    for j in range(2):
        for h in range(MEMBERS):
            here = (job == j) & (host == h)
            segments = sent[j, h] + np.cumsum(here & ~pure_ack)
            data = here & ~pure_ack
            records["seq"][data] = (1 + (segments[data] - 1) * PAYLOAD) % 2**32
            records["ack"][data] = 1
            records["seq"][here & pure_ack] = 1
            records["ack"][here & pure_ack] = (1 + segments[here & pure_ack] * PAYLOAD) % 2**32
            sent[j, h] = segments[-1]
    records["tcp_header"], records["tcp_flags"], records["window"] = 0x80, 0x10, 4096
    records["option"] = 0x0101080A
    records["ts_value"] = records["ts_echo"] = 1 + time_us // 1000
    return records
