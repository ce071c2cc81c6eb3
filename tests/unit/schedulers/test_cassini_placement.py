"""Which placement cassini takes, by candidates made by hand: 1 s of compute, and 1 s on an uplink that is crossed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harmonics_emu.schedulers.cassini_placement import choose_placement, score_placement
from harmonics_emu.schedulers.interface import Snapshot
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import job
from topologies.rack_spine import rack_spine

FABRIC = rack_spine(4, 8, 1, host_rate_bps=10**9, uplink_rate_bps=8 * 10**6)


def placed(*racks: str, **settings: float) -> Snapshot:
    """One job for each of `racks`, on the racks whose digits it holds: "01" crosses, "0" stays."""
    jobs = []
    for number, own in enumerate(racks):
        hosts = tuple(f"r{own[rank % len(own)]}h{2 * number + rank // len(own)}" for rank in range(2))
        jobs.append(job(number, hosts=hosts, **settings))
    return snapshot_of(FABRIC, jobs)


LOOP = placed("01", "12", "20")


def test_jobs_that_do_not_meet_fit_best() -> None:
    crowded, apart = placed("01", "01", compute_s=0.2), placed("01", "2", compute_s=0.2)
    assert score_placement(crowded).score < 0.9
    assert (score_placement(apart).score, score_placement(apart).links) == (1.0, 0)
    choice = choose_placement([crowded, apart, placed("0", "1")])
    assert choice.index == 1
    assert [found["score"] for found in choice.facts["scores"]] == [score_placement(crowded).score, 1.0, 1.0]


def test_of_equals_the_first_is_taken() -> None:
    assert choose_placement([placed("01", "01"), placed("0", "1")]).index == 0


def test_a_score_is_the_mean_over_links() -> None:
    """One pair that fits its uplinks, and one that can't, on racks of their own."""
    fits, too_much = placed("01", "01"), placed("01", "01", compute_s=0.2)
    pairs = [state.job for state in (*placed("23", "23").jobs, *placed("01", "01").jobs)]
    jobs = [replace(one, index=index, name=f"job{index}") for index, one in enumerate(pairs)]
    both = [*jobs[:2], *(replace(one, compute_s=0.2) for one in jobs[2:])]
    mean = (score_placement(fits).score + score_placement(too_much).score) / 2
    assert score_placement(snapshot_of(FABRIC, both)).score == pytest.approx(mean)


def test_a_loop_is_dropped_unless_all_have_one() -> None:
    assert score_placement(LOOP).loops == 1
    assert score_placement(LOOP).score == pytest.approx(1)
    worse = placed("01", "01", "01")
    assert (score_placement(worse).loops, score_placement(worse).score < 0.9) == (0, True)
    assert choose_placement([LOOP, worse]).index == 1
    assert choose_placement([LOOP, LOOP]).index == 0
