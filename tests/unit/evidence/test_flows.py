"""Flows: what is told of TCP, and that bounded memory changes no total."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from harmonics_emu.evidence.capture.compaction import merge_bursts, merge_cells
from harmonics_emu.evidence.capture.flow import BURST, CELL
from harmonics_emu.evidence.capture.kernel.accounting import BACKWARDS, BEYOND_TABLE, PACKETS
from harmonics_emu.evidence.capture.packet import PACKET
from harmonics_emu.evidence.capture.reader import read_all
from harmonics_emu.evidence.capture.round_trips import round_trips
from harmonics_emu.evidence.capture.table import FlowTable
from tests.unit.evidence.captures import Frame, pcap, segment, written

A, B = "10.1.0.1", "10.1.0.2"
MS = 1_000_000


def data(seq: int, size: int = 100, stamp: int = 1) -> Packet:
    return segment(A, B, 1000, 2000, seq, 1, size, stamp=stamp)


def acknowledgement(ack: int, stamp: int = 1) -> Packet:
    return segment(B, A, 2000, 1000, 1, ack, stamp=stamp)


def counted(tmp_path: Path, packets: list[tuple[float, Packet]], **room: int) -> FlowTable:
    """A table of packets at times in milliseconds, a second after the epoch."""
    frames: list[Frame] = [(10**9 + round(time_ms * MS), bytes(packet)) for time_ms, packet in packets]
    table = FlowTable(**room)
    table.add(read_all(written(tmp_path / "a.pcap", pcap(frames, nanoseconds=True))))
    table.finish()
    return table


def test_retransmissions_reordering_and_repeated_acknowledgements(tmp_path: Path) -> None:
    table = counted(
        tmp_path,
        [
            (0, data(100)),
            (1, data(300)),  # 200 is late
            (2, data(200)),  # within 3 ms of the newest: reordered
            (3, acknowledgement(200)),
            (4, acknowledgement(200)),
            (5, acknowledgement(200)),
            (6, data(200)),  # asked for twice
            (7, acknowledgement(400)),
            (100, data(400)),
            (200, data(400)),  # much later: sent again
            (201, data(100)),  # long acknowledged
        ],
    )
    forward, backward = table.flows
    assert (forward["out_of_order"], forward["retransmissions"], forward["retransmitted_bytes"]) == (1, 3, 300)
    assert (backward["duplicate_acks"], forward["reverse"], backward["reverse"]) == (2, 1, 0)
    assert (forward["packets"], forward["payload_bytes"]) == (7, 700)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), min_size=1, max_size=25),
    st.sampled_from([1000, 2**32 - 700]),
)
def test_payload_is_sent_again_only_if_it_was_seen(segments: list[tuple[int, int]], base: int) -> None:
    rows = np.zeros(len(segments), PACKET)
    rows["time_ns"], rows["version"], rows["protocol"], rows["has_tcp"] = 1, 4, 6, 1
    rows["seq"] = [(base + 100 * start) % 2**32 for start, _ in segments]
    rows["payload_bytes"] = [100 * length for _, length in segments]
    table = FlowTable()
    table.add(rows)
    seen: set[int] = set()
    again = repeated = late = 0
    for start, length in segments:
        blocks = set(range(start, start + length))
        highest = max(seen, default=-1)
        again += 100 * len(blocks & seen)
        repeated += bool(blocks & seen)
        late += bool(seen) and not blocks & seen and start < highest
        seen |= blocks
    (flow,) = table.flows
    assert (flow["repeated_bytes"], flow["repeated"], flow["late"]) == (again, repeated, late)


def test_what_an_acknowledgement_overtook_is_not_sent_again(tmp_path: Path) -> None:
    ahead = segment(A, B, 1000, 2000, 500, 1)  # bare, but with the number of data that are still queued
    table = counted(tmp_path, [(0, data(100)), (1, ahead), (9, data(200)), (18, data(300)), (27, data(400))])
    assert table.flows["retransmissions"].sum() == 3  # Wireshark says so too
    assert (table.flows["repeated"].sum(), table.flows["late"].sum()) == (0, 0)


def test_sequence_numbers_go_around(tmp_path: Path) -> None:
    start = 2**32 - 250
    table = counted(tmp_path, [(number, data((start + 100 * number) % 2**32)) for number in range(10)])
    assert table.flows["retransmissions"].sum() == table.flows["out_of_order"].sum() == 0


def test_a_keep_alive_is_no_retransmission(tmp_path: Path) -> None:
    table = counted(tmp_path, [(0, data(100)), (500, data(199, size=0)), (900, data(199, size=1))])
    assert table.flows["retransmissions"].sum() == 0


def test_round_trips_from_timestamps(tmp_path: Path) -> None:
    packets: list[tuple[float, Packet]] = []
    for number in range(100):
        packets.append((10 * number, data(100 * number, stamp=number + 1)))
        packets.append((10 * number + 1 + number / 100, acknowledgement(100 * number + 100, stamp=number + 1)))
    packets.append((2000, acknowledgement(10_000, stamp=100)))  # echoed before: no sample
    table = counted(tmp_path, packets)
    trips = round_trips(table.flows[:1], table.rtt_bins[:1])
    assert trips is not None
    assert trips.samples == 100
    assert (trips.least_s, trips.most_s) == pytest.approx((0.001, 0.00199), rel=1e-6)
    assert trips.mean_s == pytest.approx(0.001495, rel=1e-6)
    assert (trips.median_s, trips.p99_s) == pytest.approx((0.0015, 0.00198), rel=0.05)
    assert round_trips(table.flows[1:], table.rtt_bins[1:]) is None


def test_super_segments_are_those_above_the_mss(tmp_path: Path) -> None:
    syn = segment(B, A, 2000, 1000, 0, 1, flags="SA")
    syn["TCP"].options = [("MSS", 1400)]
    table = counted(tmp_path, [(0, syn), (1, data(1, 1400)), (2, data(1401, 1401)), (3, data(3000, 5000))])
    assert table.flows["super_segments"].tolist() == [0, 2]


def test_dscp_and_clocks_that_run_backwards(tmp_path: Path) -> None:
    def marked(dscp: int) -> Packet:
        return Ether() / IP(src=A, dst=B, tos=dscp << 2) / UDP(sport=1, dport=2) / Raw(b"\0" * 58)

    table = counted(tmp_path, [(50, marked(8)), (10, marked(8)), (90, marked(46))])
    assert table.dscp_bytes[0][[0, 8, 46]].tolist() == [0, 200, 100]
    assert table.totals[BACKWARDS] == 1
    assert (table.flows["first_ns"][0], table.flows["last_ns"][0]) == (1010 * MS, 1090 * MS)
    assert table.cells["bin"].tolist() == [101, 105, 109]
    assert [(row["start_ns"], row["end_ns"]) for row in table.bursts] == [(t * MS, t * MS) for t in (1010, 1050, 1090)]


def test_little_room_changes_no_total(tmp_path: Path) -> None:
    draw = random.Random(1)
    packets = []
    for number in range(2000):
        src, dst = draw.sample(range(1, 13), 2)
        made = Ether() / IP(src=f"10.0.0.{src}", dst=f"10.0.0.{dst}") / UDP(sport=src, dport=dst) / Raw(b"\0" * 9)
        packets.append((number * 70.0, made))
    ample, tight = counted(tmp_path, packets), counted(tmp_path, packets, most_flows=140, most_rows=600)
    assert len(ample.flows) > 100
    assert np.array_equal(ample.flows["packets"], tight.flows["packets"])
    assert tight.width_ns > ample.width_ns
    for table in (ample, tight):
        assert table.cells["bytes"].sum() == table.flows["wire_bytes"].sum()
        assert table.bursts["bytes"].sum() == table.flows["payload_bytes"].sum() == 9 * 2000
    few = counted(tmp_path, packets, most_flows=50)
    assert len(few.flows) == 50
    assert few.totals[BEYOND_TABLE] == 2000 - few.flows["packets"].sum() > 0
    assert few.totals[PACKETS] == 2000


numbers = st.integers(-50, 50)


@given(st.lists(st.tuples(st.integers(0, 3), numbers, st.integers(1, 9)), max_size=40), st.sampled_from([1, 2, 8]))
def test_merged_cells_keep_every_byte(rows: list[tuple[int, int, int]], coarser: int) -> None:
    cells = np.array(rows, CELL) if rows else np.zeros(0, CELL)
    merged = merge_cells(cells, coarser)
    expected: dict[tuple[int, int], int] = {}
    for flow, number, size in rows:
        key = (flow, number // coarser)
        expected[key] = expected.get(key, 0) + size
    assert {(int(f), int(b)): int(s) for f, b, s in merged.tolist()} == expected
    assert len(merged) == len(expected)


@given(
    st.lists(st.tuples(st.integers(0, 3), numbers, st.integers(0, 9), st.integers(1, 9)), max_size=30),
    st.integers(0, 5),
)
def test_merged_bursts_are_apart_and_keep_every_byte(rows: list[tuple[int, int, int, int]], gap: int) -> None:
    bursts = np.array([(f, s, s + d, b, 1) for f, s, d, b in rows], BURST) if rows else np.zeros(0, BURST)
    merged = merge_bursts(bursts, gap)
    for flow in range(4):
        before, after = bursts[bursts["flow"] == flow], merged[merged["flow"] == flow]
        assert before["bytes"].sum() == after["bytes"].sum()
        assert (after["start_ns"][1:] - after["end_ns"][:-1] > gap).all()
        for row in before:
            assert ((after["start_ns"] <= row["start_ns"]) & (after["end_ns"] >= row["end_ns"])).sum() == 1
