"""From captures to jobs, collectives and contention, with and without a run; and the command."""

from __future__ import annotations

import csv
import gzip
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.cli.main import main
from harmonics_emu.errors import UsageError
from harmonics_emu.evidence.address_groups import groups_given, groups_of_run
from harmonics_emu.evidence.collectives import Collective, ring_order, spans_of
from harmonics_emu.evidence.examine import examine
from harmonics_emu.evidence.segments import amounts, covers, edges_of, total, union
from harmonics_emu.scenario import parse_scenario
from tests.unit.evidence.captures import pcap, pcapng, rings, segment, written

TWO_JOBS = [[f"10.{job}.0.{host}" for host in (1, 2, 5, 6)] for job in (1, 2)]
SCENARIO = b"""
name: two
share_gpus: true
fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 4, spines: 1, host_rate: 1Gbit, uplink_rate: 500Mbit}
jobs:
  - {name: vision, model: vgg16, placement: [r0h0, r0h1, r1h0, r1h1], iterations: 5}
  - {name: text, model: gpt2, placement: [r0h0, r0h1, r1h0, r1h1], iterations: 5}
"""


def test_jobs_collectives_and_their_ring_are_found_in_packets_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "leaf0-spine0.pcap", pcap(rings(TWO_JOBS, 10, apart_s=0.1)))
    shown = examine([path]).traffic
    assert shown.grouping == shown.directions == "guessed"
    assert [job.hosts for job in shown.jobs] == [tuple(sorted(hosts)) for hosts in TWO_JOBS]
    for job, hosts in zip(shown.jobs, TWO_JOBS, strict=True):
        assert job.ring == tuple(hosts)
        assert job.collectives == 10
        assert (job.mean_collective_s, job.mean_period_s) == pytest.approx((0.05, 0.2), abs=1e-4)
        assert job.mean_collective_bytes == 40_000
        assert job.counts.payload_bytes == 400_000
    first = shown.collectives[0]
    assert (first.job, first.start_s, first.bytes) == ("group-1", 0.0, 40_000)
    assert first.participants == tuple(TWO_JOBS[0])
    assert np.sum(shown.contention.seconds) == 0


@pytest.mark.parametrize("apart_s", [0.0, 0.02])
def test_contended_time_is_the_time_that_both_send(apart_s: float, tmp_path: Path) -> None:
    path = written(tmp_path / "l.pcap", pcap(rings(TWO_JOBS, 10, apart_s=apart_s)))
    shown = examine([path]).traffic  # all frames bear one MAC, as behind a router
    together_s = 10 * (0.05 - apart_s)
    assert shown.contention.seconds[0][1] == shown.contention.seconds[1][0] == pytest.approx(together_s, rel=0.01)
    for link in shown.links:
        assert link.contended_s == pytest.approx(together_s, rel=0.01)
        assert link.busy_s == pytest.approx((0.5, 0.5), rel=0.01)
        sent = 10 * 2 * 10_000  # half of each ring goes this way
        assert sum(link.pairs_bytes[0]) == pytest.approx(sent * (1 - 20 * apart_s), rel=0.15)


def test_a_run_names_jobs_hosts_and_directions(tmp_path: Path) -> None:
    scenario = parse_scenario(SCENARIO, "two.yaml")
    frames = rings(TWO_JOBS, 6)
    uplink = [frame for frame in frames if (frame[1][29] < 5) != (frame[1][33] < 5)]
    paths = [
        written(tmp_path / "leaf0-spine0.pcap", pcap(uplink)),
        written(tmp_path / "leaf1-spine0.pcapng.gz", gzip.compress(pcapng(uplink))),
    ]
    groups = groups_of_run(scenario.fabric(), scenario.jobs())
    shown = examine(paths, groups=groups, fabric=scenario.fabric()).traffic
    assert (shown.grouping, shown.directions) == ("run", "run")
    assert [job.name for job in shown.jobs] == ["vision", "text"]
    assert shown.jobs[0].hosts == ("r0h0", "r0h1", "r1h0", "r1h1")
    # Each byte crosses both cables and counts once.
    assert shown.jobs[0].counts.payload_bytes == 6 * 10 * 2 * 1000
    assert [link.link for link in shown.links] == [
        "leaf0>spine0",
        "spine0>leaf0",
        "leaf1>spine0",
        "spine0>leaf1",
    ]
    assert {flow.link for flow in shown.flows if flow.src == "10.1.0.2"} == {"leaf0>spine0", "spine0>leaf1"}


def test_a_gap_that_is_given_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "l.pcap", pcap(rings(TWO_JOBS[:1], 10)))
    assert [len(examine([path], gap_s=gap_s).traffic.collectives) for gap_s in (0.001, 0.02, 0.2)] == [100, 10, 1]


def test_hosts_that_two_jobs_share_need_names(tmp_path: Path) -> None:
    shared = [["10.0.0.1", "10.0.0.2", "10.0.0.3"], ["10.0.0.3", "10.0.0.4", "10.0.0.5"]]
    path = written(tmp_path / "l.pcap", pcap(rings(shared, 5)))
    assert len(examine([path]).traffic.jobs) == 1
    named = examine([path], groups=groups_given(["a=10.0.0.1,10.0.0.2", "b=10.0.0.4/31"])).traffic
    assert [(job.name, job.hosts) for job in named.jobs] == [
        ("a", ("10.0.0.1", "10.0.0.2")),
        ("b", ("10.0.0.4", "10.0.0.5")),
    ]
    assert {flow.job for flow in named.flows} == {"a", "b", None}


@pytest.mark.parametrize("text", ["10.0.0.1", "a=", "=10.0.0.1", "a=10.0.0.300", "a=10.0.0.1,"])
def test_wrong_groups_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--job"):
        groups_given([text])


def test_a_job_is_at_work_from_the_first_to_the_last_packet_of_each_collective() -> None:
    collectives = [Collective(start, start + 0.1, 1, (), None) for start in (0.0, 0.5, 1.0)]
    start_s = np.array([1.02, -0.001, 0.04, 0.5, 0.58])
    end_s = start_s + 0.01
    spans = spans_of(collectives, start_s, end_s)
    assert spans == pytest.approx(np.array([[-0.001, 0.05], [0.5, 0.59], [1.02, 1.03]]))
    assert spans_of(collectives, np.zeros(0), np.zeros(0)).shape == (0, 2)
    assert spans_of(collectives[:1], start_s, end_s) == pytest.approx(np.array([[-0.001, 1.03]]))


def test_ring_order_wants_one_ring() -> None:
    hosts = ("a", "b", "c", "d")
    around = np.roll(np.eye(4), 1, axis=1)
    assert ring_order(around, hosts) == hosts
    assert ring_order(around.T, hosts) == ("a", "d", "c", "b")
    assert ring_order(around + 0.1, hosts) == hosts
    for traffic in (np.ones((4, 4)), np.zeros((4, 4)), np.eye(4)[[1, 0, 3, 2]], np.diag([1.0, 1, 1], 1)):
        assert ring_order(traffic, hosts) is None


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)), max_size=12).map(
    lambda rows: np.array([(s, s + d) for s, d in rows], float).reshape(-1, 2)
)


@given(spans, spans)
def test_segments_measure_as_sets_do(first: np.ndarray, second: np.ndarray) -> None:
    def members(intervals: np.ndarray) -> set[int]:
        return {t for s, e in intervals.tolist() for t in range(int(s), int(e))}

    a, b = union(first), union(second)
    assert total(a) == len(members(first))
    edges = edges_of([a, b])
    both = covers(a, edges) & covers(b, edges)
    assert np.diff(edges)[both].sum() == len(members(first) & members(second))


@given(spans.filter(len), st.lists(st.integers(-5, 60), min_size=2, max_size=9, unique=True))
def test_amounts_are_shared_out_evenly(rows: np.ndarray, cuts: list[int]) -> None:
    edges = np.array(sorted(cuts), float)
    sizes = np.arange(1.0, len(rows) + 1)
    expected = [
        sum(
            size * max(0.0, min(e, high) - max(s, low)) / (e - s)
            for size, (s, e) in zip(sizes, rows.tolist(), strict=True)
        )
        for low, high in pairwise(edges)
    ]
    assert amounts(rows[:, 0], rows[:, 1], sizes, edges) == pytest.approx(expected, abs=1e-6)


def test_the_command_tells_of_a_capture_and_writes_its_series(tmp_path: Path) -> None:
    path = written(tmp_path / "leaf0-spine0.pcap", pcap(rings(TWO_JOBS, 6))[:-3])
    told = CliRunner().invoke(main, ["pcap", path])
    assert told.exit_code == 0, told.output
    for part in ("group-1: ring 10.1.0.1 > 10.1.0.2 > 10.1.0.5", "leaf0-spine0 a>b", "cut short at byte", "--job"):
        assert part in " ".join(told.output.split())
    out = tmp_path / "out"
    told = CliRunner().invoke(main, ["pcap", path, "--job", "x=10.1.0.0/16", "--out", str(out), "--json"])
    assert told.exit_code == 0, told.output
    shown = json.loads(told.stdout)
    assert [job["name"] for job in shown["jobs"]] == ["x"]
    assert not shown["files"][0]["complete"]
    with open(out / "series.csv") as file:
        rows = list(csv.DictReader(file))
    whole = sum(int(row["bytes"]) for row in rows if not row["job"] and not row["src"])
    assert whole == shown["files"][0]["bytes"]
    assert sum(int(row["bytes"]) for row in rows if row["src"]) == whole
    assert float(rows[0]["time_s"]) <= 0 < float(rows[-1]["time_s"]) < 1.1


def test_wrong_use_of_the_command_is_told(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no packets in here, only words\n")
    for arguments, message in (
        ([], "name a capture FILE"),
        ([str(text)], "looks like text"),
        ([str(text), "--gap", "20"], "has no unit"),
        ([str(text), "--bin", "0s"], "above zero"),
    ):
        told = CliRunner().invoke(main, ["pcap", *arguments])
        assert (told.exit_code, message in told.output) == (2, True), told.output


def test_other_packets_are_counted_and_told(tmp_path: Path) -> None:
    frames = [(0, b""), (1000, b"\xff" * 60), (500, bytes(segment("10.0.0.1", "10.0.0.2", 1, 2, 3, 4, 5)))]
    path = written(tmp_path / "l.pcap", pcap(frames, nanoseconds=True))
    told = " ".join(CliRunner().invoke(main, ["pcap", path]).output.split())
    assert "2 that are not IP, 1 of zero length, 1 earlier than the one before" in told
