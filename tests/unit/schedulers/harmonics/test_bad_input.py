"""What can be odd about racks, jobs, profiles and links: a plan comes all the same, and every job that can end does."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from harmonics_emu.schedulers.harmonics.plan import plan_harmonics, policy
from harmonics_emu.schedulers.interface import Plan, Snapshot
from harmonics_emu.simulate.decisions import decide
from harmonics_emu.simulate.engine import Options, simulate
from tests.unit.schedulers.harmonics.cases import engine_times_s, keeping
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import MBIT, fabric, job
from topologies.rack_spine import rack_spine
from workloads.job import Background, Job, LinkEvent

pytestmark = pytest.mark.filterwarnings("error")


def good_plan(snapshot: Snapshot) -> Plan:
    """The policy's plan, if it can be carried out and lets all jobs end that it is about."""
    plan = decide(policy, snapshot)[0]
    times_s = engine_times_s(snapshot, keeping(plan.jobs))
    assert all(times_s[name] < math.inf for name in plan.jobs)
    return plan


def test_a_rack_with_200_jobs() -> None:
    jobs = [
        job(number, hosts=(f"r0h{number}", f"r1h{number}"), compute_s=1 + number / 100, bucket_bytes=(9_000,))
        for number in range(200)
    ]
    snapshot = snapshot_of(fabric(hosts=200), jobs)
    plan = good_plan(snapshot)
    assert len(plan.jobs) == 200
    times_s = {name: engine_times_s(snapshot, keeping(jobs)) for name, jobs in (("own", plan.jobs), ("fair", {}))}
    assert sum(times_s["own"].values()) <= 1.01 * sum(times_s["fair"].values())


def test_racks_without_a_job_and_a_job_on_every_rack() -> None:
    on = rack_spine(8, 2, 2, 1000 * MBIT, 8 * MBIT)
    everywhere = job(0, hosts=tuple(f"r{rack}h0" for rack in range(8)))
    two = [job(number, hosts=(f"r{number}h1", f"r{number + 1}h1")) for number in (1, 3)]
    flows = (Background("r6h0", "r6h1", MBIT), Background("r6h0", "r6h1", MBIT))
    plan = good_plan(replace(snapshot_of(on, [everywhere, *two]), background=flows))
    assert set(plan.jobs) == {"job0", "job1", "job3"}


def test_communication_longer_than_the_period() -> None:
    # Each sends for 3 s after 0.1 s of compute: together they want far more than the uplink has.
    jobs = [job(number, compute_s=0.1, overlap=0.9, bucket_bytes=(1_500_000, 1_500_000)) for number in range(3)]
    plan = good_plan(snapshot_of(fabric(), jobs))
    assert plan.facts["objective"] < 3


def test_equal_jobs() -> None:
    plans = []
    for jobs in ([job(number) for number in range(4)], [job(number) for number in range(3, -1, -1)]):
        plan = good_plan(snapshot_of(fabric(), jobs, deadline="60s"))
        assert len({own.level for own in plan.jobs.values()}) > 1
        plans.append(plan.facts["objective"])
    assert plans[0] == pytest.approx(plans[1], rel=0.01)


def test_profiles_with_zero_and_missing_figures() -> None:
    jobs = [
        job(0, compute_s=0.0),
        job(1, bucket_bytes=()),
        job(2, bucket_bytes=(0,)),
        job(3, bucket_bytes=(0, 400_000, 0), overlap=0.5),
        job(4, compute_s=0.0, compute_cv=0.2),
        job(5, compute_s=0.0, overlap=1.0, bucket_bytes=(1, 100_000)),
    ]
    snapshot = snapshot_of(fabric(), jobs)
    plan = good_plan(snapshot)
    assert {"job0", "job3", "job4", "job5"} == set(plan.jobs)
    states = tuple(replace(state, compute_s=0.0, communication_s=0.0, iterations_done=1) for state in snapshot.jobs)
    assert set(plan_harmonics(replace(snapshot, jobs=states)).jobs) == set(plan.jobs)


@pytest.mark.parametrize("count", [2, 40, 90])
def test_a_deadline_of_a_millisecond(count: int) -> None:
    jobs = [job(number, compute_s=1 + number / 50, bucket_bytes=(20_000,)) for number in range(count)]
    snapshot = snapshot_of(fabric(hosts=count, spines=2), jobs, deadline="1ms")
    plan_harmonics(snapshot)
    began = time.monotonic()
    plan = good_plan(snapshot)
    # What is set up for a plan, and the last comparison with fair sharing, are not cut short.
    assert time.monotonic() - began < 1
    assert plan.facts["fallback"] or plan.facts["critical_path_s"] < 0.01


def down(jobs: Sequence[Job], *links: str) -> Snapshot:
    return replace(snapshot_of(fabric(), jobs), links_down=frozenset(links))


def test_all_links_down() -> None:
    snapshot = down([job(0), job(1)], *fabric().links)
    assert plan_harmonics(snapshot) == Plan("harmonics")


def test_jobs_that_links_down_cut_off_do_not_keep_others_from_a_good_plan() -> None:
    jobs = [job(0), job(1, compute_s=0.5, bucket_bytes=(200_000,)), job(2)]
    plan = good_plan(down(jobs, "r0h0>leaf0"))
    without = good_plan(snapshot_of(fabric(), jobs[1:]))
    assert set(plan.jobs) == {"job1", "job2"}
    assert plan.facts["objective"] == pytest.approx(without.facts["objective"])
    assert plan.of("job1").level < plan.of("job2").level


def test_links_that_go_down_and_up_again_during_a_run() -> None:
    jobs = [job(number, iterations=6) for number in range(3)]
    events = [LinkEvent(2.5, "leaf0-spine0", "down"), LinkEvent(4.0, "leaf0-spine0", "up")]
    outcomes = simulate(fabric(), jobs, policy, events=events, options=Options(sample_s=None)).outcomes
    assert {outcome.status for outcome in outcomes.values()} == {"done"}


def test_more_jobs_on_a_link_than_there_are_levels() -> None:
    jobs = [job(number, compute_s=1 + number / 8, bucket_bytes=(60_000,)) for number in range(16)]
    plan = good_plan(snapshot_of(fabric(hosts=16), jobs))
    assert min(own.level for own in plan.jobs.values()) >= 1
    assert max(own.level for own in plan.jobs.values()) <= 7


def test_one_iteration_left() -> None:
    jobs = [job(0, iterations=1), job(1, iterations=5)]
    plan = good_plan(snapshot_of(fabric(), jobs))
    assert set(plan.jobs) == {"job0", "job1"}
    last = snapshot_of(fabric(), jobs, done={"job1": 4})
    assert set(plan_harmonics(last).jobs) == {"job0", "job1"}
    over = snapshot_of(fabric(), jobs, done={"job0": 1, "job1": 5})
    assert plan_harmonics(over) == Plan("harmonics")


def test_a_last_collective_on_its_way_is_not_left_behind_those_that_follow() -> None:
    # job0's only collective is under way when job2 ends; the others would keep it waiting for the rest of their runs.
    jobs = [
        job(0, iterations=1, compute_s=0.0, bucket_bytes=(400_000,)),
        job(1, iterations=30, compute_s=0.0, bucket_bytes=(300_000,)),
        job(2, iterations=1, compute_s=0.0, bucket_bytes=(50_000,)),
    ]
    times_s = engine_times_s(snapshot_of(fabric(), jobs), policy)
    assert times_s["job0"] < 1


def test_next_iterations_in_the_past() -> None:
    snapshot = snapshot_of(fabric(), [job(0), job(1, compute_s=1.3)])
    late = tuple(replace(state, next_start_s=1.0) for state in snapshot.jobs)
    plan = plan_harmonics(replace(snapshot, time_s=50.0, jobs=late))
    assert len({own.level for own in plan.jobs.values()}) == 2
    # Both send from 50 s on, not from 2 s on.
    assert plan.facts["objective"] > 48 / 8
    assert all(at >= 50.0 for own in plan.jobs.values() for at in own.starts_s[:1])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1e-7, 1), (1e-7, 1)),
        ((1e5, 10**10), (1e5, 10**10)),
        ((1e-6, 1), (1e5, 10**10)),
        ((1e-6, 10**10), (1e5, 1)),
    ],
)
def test_huge_and_tiny_numbers(first: tuple[float, int], second: tuple[float, int]) -> None:
    jobs = [
        job(number, compute_s=compute_s, bucket_bytes=(size,))
        for number, (compute_s, size) in enumerate((first, second))
    ]
    for on in (fabric(), fabric(uplink_bps=10**12)):
        began = time.monotonic()
        plan = good_plan(snapshot_of(on, jobs))
        assert time.monotonic() - began < 2
        assert 1 - 1e-9 <= plan.facts["objective"] <= 2 + 1e-9


def test_background_that_fills_a_link_starves_nobody() -> None:
    # Whoever is behind the default level would never send.
    jobs = [job(number, compute_s=1 + number / 4) for number in range(7)]
    snapshot = replace(snapshot_of(fabric(), jobs), background=(Background("r0h7", "r1h7", 1000 * MBIT),))
    for options in ({}, {"tiers": "local"}, {"tiers": "coordinator", "guard": False}):
        good_plan(replace(snapshot, options=options))
