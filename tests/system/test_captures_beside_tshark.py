"""Flows, bytes, retransmissions and the rest as tshark counts them on the same files. Needs tshark, no root."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from harmonics_emu.bench.synthetic_capture import write_capture
from harmonics_emu.evidence.examine import examine
from harmonics_emu.shell import run
from tests.unit.evidence.captures import Frame, pcap, pcapng, segment, written

FIELDS = (
    "ip.src",
    "tcp.srcport",
    "ip.dst",
    "tcp.dstport",
    "frame.len",
    "tcp.len",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.duplicate_ack",
)


def by_tshark(path: str) -> dict[tuple[str, ...], list[int]]:
    """Each flow's packets, bytes, payload, retransmissions, packets out of order, duplicate acknowledgements."""
    wanted = [part for field in FIELDS for part in ("-e", field)]
    flows: dict[tuple[str, ...], list[int]] = {}
    for line in run(["tshark", "-n", "-r", path, "-T", "fields", *wanted], timeout_s=60).splitlines():
        *key, size, payload, retransmission, out_of_order, duplicate = line.split("\t")
        counts = [1, int(size), int(payload), *(int(bool(text)) for text in (retransmission, out_of_order, duplicate))]
        flows[tuple(key)] = [a + b for a, b in zip(flows.get(tuple(key), [0] * 6), counts, strict=True)]
    return flows


def by_us(path: str) -> dict[tuple[str, ...], list[int]]:
    def counts(flow: Any) -> list[int]:
        c = flow.counts
        return [c.packets, c.bytes, c.payload_bytes, c.retransmissions, c.out_of_order, c.duplicate_acks]

    return {
        (flow.src, str(flow.src_port), flow.dst, str(flow.dst_port)): counts(flow)
        for flow in examine([path]).traffic.flows
    }


def conversation(draw: random.Random, port: int) -> list[Frame]:
    """A transfer with its handshake, in which segments are lost on the way, come late, twice or again."""
    a, b = "10.1.0.1", "10.1.0.2"
    time_us = draw.randrange(1000)
    rtt_us = draw.choice([200, 2_000, 20_000])
    packets = [
        (0, segment(a, b, port, 80, 100, 0, flags="S")),
        (rtt_us // 2, segment(b, a, 80, port, 500, 101, flags="SA")),
        (rtt_us, segment(a, b, port, 80, 101, 501)),
    ]
    seq = 101
    for number in range(draw.randrange(20, 200)):
        at = rtt_us + 100 * number
        if draw.random() < 0.95:
            packets.append((at + draw.choice([0] * 30 + [250, 4000, 30_000]), segment(a, b, port, 80, seq, 501, 1000)))
        if draw.random() < 0.03:
            packets.append((at + draw.choice([350, 5000, 300_000]), segment(a, b, port, 80, seq, 501, 1000)))
        if draw.random() < 0.5:
            acked = seq - 1000 * draw.choice([0, 0, 0, 1, 1, 5])
            for again in range(draw.choice([1, 1, 1, 4])):
                packets.append((at + rtt_us // 2 + again, segment(b, a, 80, port, 501, max(acked, 101))))
        seq += 1000
    return [(1_700_000_000 * 10**9 + (time_us + at) * 1000, bytes(packet)) for at, packet in packets]


@pytest.mark.parametrize("seed", range(6))
def test_every_flow_counts_as_in_tshark(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    frames = sorted(frame for port in range(1000, 1004) for frame in conversation(draw, port))
    content = pcap(frames, snap=90) if seed % 2 else pcapng(frames, resolution=9)
    path = written(tmp_path / "a.pcap", content)
    expected = by_tshark(path)
    assert by_us(path) == expected
    assert all(sum(flow[place] for flow in expected.values()) > 0 for place in range(6))


def test_a_long_capture_has_the_totals_of_tshark(tmp_path: Path) -> None:
    write_capture(tmp_path / "a.pcap", 20_000)
    path = str(tmp_path / "a.pcap")
    assert by_us(path) == by_tshark(path)
