"""The policy: its plans by hand-made cases and properties, and what they come to on the fluid engine."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.errors import UsageError
from harmonics_emu.scenario import load_scenario
from harmonics_emu.schedulers.cassini import COMPATIBLE, policy
from harmonics_emu.schedulers.fair import policy as fair
from harmonics_emu.schedulers.interface import JobState, Plan, Policy, Snapshot
from harmonics_emu.simulate.decisions import decide
from harmonics_emu.simulate.engine import Options, simulate
from harmonics_emu.simulate.jitter import SlowestRank
from harmonics_emu.simulate.predict import alone
from tests.unit.simulate.cases import communication_s, fabric, job
from topologies.fabric import Fabric
from topologies.rack_spine import rack_spine
from workloads.collectives import job_transfers
from workloads.job import Background, Job


def state(one: Job, on: Fabric, **changes: Any) -> JobState:
    settings_: dict[str, Any] = {"compute_s": one.compute_s} | changes
    return JobState(one, job_transfers(one, on.rack_of), **settings_)


def planned(jobs: list[Job], on: Fabric | None = None, **changes: Any) -> Plan:
    on = on or fabric()
    settings_: dict[str, Any] = {"time_s": 0.0, "seed": 0} | changes
    return policy.plan(Snapshot(fabric=on, jobs=tuple(state(one, on) for one in jobs), **settings_))


def slowdown(on: Fabric, jobs: list[Job], by: Policy, epoch_s: float | None = None) -> float:
    """Mean slowdown of the jobs, alike in GPUs."""
    options = Options(sample_s=None, epoch_s=epoch_s, policy={"epoch": f"{epoch_s}s"} if epoch_s else {})
    records = simulate(on, jobs, by, options=options)
    spans = [records.outcomes[one.name].end_s - one.start_s for one in jobs]
    return float(np.mean([span / alone(on, one)[1] for span, one in zip(spans, jobs, strict=True)]))


def test_two_equal_jobs_take_turns() -> None:
    """1 s of compute, then 1 s on the link: one goes at 1, 3, 5 .., the other at 2, 4, 6 .."""
    plan = planned([job(0), job(1)])
    assert plan.of("job0").starts_s == pytest.approx((1, 3, 5, 7), abs=0.02)
    assert plan.of("job1").starts_s == pytest.approx((2, 4, 6, 8), abs=0.02)
    assert plan.facts["compatible"]
    assert plan.facts["score"] == pytest.approx(1)


def test_what_cannot_fit_is_shifted_once_and_said_to_be_incompatible() -> None:
    plan = planned([job(number, compute_s=0.2) for number in range(3)])
    assert not plan.facts["compatible"]
    assert plan.facts["score"] < COMPATIBLE
    starts = [plan.of(f"job{number}").starts_s for number in range(3)]
    assert max(map(len, starts)) == 1
    assert 0.2 < max(start for own in starts for start in own) <= 1.4


def test_jobs_that_share_no_full_link_are_not_gated() -> None:
    narrow = rack_spine(2, 8, 1, host_rate_bps=10**6, uplink_rate_bps=10**9)
    assert planned([job(0), job(1)], on=narrow).jobs == {}


@pytest.mark.parametrize("idle", [{"bucket_bytes": ()}, {"bucket_bytes": (0,)}, {"compute_s": 0.0, "bucket_bytes": ()}])
def test_a_job_that_sends_nothing_is_left_out(idle: dict[str, Any]) -> None:
    plan = planned([job(0), job(1), job(2, **idle)])
    assert plan.jobs.keys() == {"job0", "job1"}


def test_close_periods_share_one_circle() -> None:
    plan = planned(
        [job(0, compute_s=0.4997, bucket_bytes=(500_000,)), job(1, compute_s=0.5013, bucket_bytes=(500_000,))]
    )
    (circle,) = plan.facts["circles"]
    assert circle["perimeter_s"] == pytest.approx(1.0013)
    assert circle["held"]


def test_jobs_without_a_common_circle_are_not_delayed() -> None:
    """Seven periods that no circle of bounded length fits: what is scored is a rounding of them."""
    plan = planned([job(number, compute_s=4 + number * 0.73) for number in range(7)])
    (link,), (circle,) = plan.facts["links"], plan.facts["circles"]
    assert link["score"] > link["score_without_delays"]
    assert circle["stretch"] > 1.02
    assert not circle["held"]
    assert not plan.facts["compatible"]
    assert not any(circle["delays_s"])
    assert {one.starts_s for one in plan.jobs.values()} == {()}


def test_a_running_job_in_phase_is_left_alone_and_one_off_phase_is_re_timed() -> None:
    on, jobs = fabric(), [job(number, iterations=40) for number in range(2)]

    def delays(off_s: float) -> list[float]:
        states = [
            state(one, on, iterations_done=5, next_start_s=10.0 + at, communication_s=1.0)
            for one, at in zip(jobs, (0.0, 1.0 + off_s), strict=True)
        ]
        plan = policy.plan(Snapshot(time_s=10.0, fabric=on, jobs=tuple(states), seed=0))
        return [plan.of(s.job.name).starts_s[0] - s.next_start_s - s.compute_s for s in states]

    assert delays(0.0) == pytest.approx([0, 0])
    assert delays(0.09) == pytest.approx([0, 0])
    assert sum(delays(0.5)) == pytest.approx(0.5, abs=0.03)


def test_a_wait_that_costs_more_than_it_saves_is_not_imposed() -> None:
    scenario = load_scenario("vision-and-text")
    plan = planned(list(scenario.jobs()), scenario.fabric())
    (link,), (circle,) = plan.facts["links"], plan.facts["circles"]
    assert 0 < link["score"] - link["score_without_delays"] < 0.01
    assert not circle["held"]
    assert circle["delays_s"] == [0, 0]
    assert [plan.of(name).starts_s for name in ("vision", "text")] == [(), ()]


def test_jitter_is_allowed_for_until_it_is_measured() -> None:
    """A job waits for the slowest of its ranks, so at the nominal pace it would drift from its phase at once."""
    jobs = [job(number, compute_cv=0.1) for number in range(2)]
    (circle,) = planned(jobs).facts["circles"]
    assert circle["perimeter_s"] == pytest.approx((1 + SlowestRank(jobs[0], 0).draw(20_000).mean()) * 1.01, rel=0.005)


def test_background_traffic_takes_its_part_of_the_link() -> None:
    flow = Background("r0h7", "r1h7", 4_000_000)
    (circle,) = planned([job(0), job(1)], background=(flow,)).facts["circles"]
    assert circle["perimeter_s"] == pytest.approx(3.0)


def test_links_that_close_a_loop_are_on_record() -> None:
    """Three jobs, each of which meets another one on the uplinks of two of three racks."""
    on = rack_spine(3, 8, 1, host_rate_bps=10**9, uplink_rate_bps=8 * 10**6)
    ends = [(0, 1), (1, 2), (2, 0)]
    jobs = [job(n, hosts=(f"r{a}h{n}", f"r{b}h{n}")) for n, (a, b) in enumerate(ends)]
    plan = planned(jobs, on=on)
    assert len(plan.facts["dropped_links"]) == 1
    assert len(plan.facts["links"]) == 2
    assert not plan.facts["compatible"]


@pytest.mark.parametrize(
    ("options", "named"), [({"angle": 5}, "angle"), ({"epoch": 2}, "epoch"), ({"epoch": "0s"}, "epoch")]
)
def test_options_that_cannot_be(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        planned([job(0)], options=options)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    on = rack_spine(3, 8, draw(st.integers(1, 2)), host_rate_bps=10**8, uplink_rate_bps=8 * 10**6)
    hosts = [host.name for host in on.hosts]
    states = []
    for number in range(draw(st.integers(1, 6))):
        buckets = tuple(draw(st.lists(st.integers(0, 2_000_000), max_size=3)))
        placed = tuple(draw(st.lists(st.sampled_from(hosts), min_size=1, max_size=4, unique=True)))
        one = job(number, hosts=placed, bucket_bytes=buckets, overlap=draw(st.floats(0, 1)), iterations=30)
        states.append(
            state(
                one,
                on,
                compute_s=draw(st.floats(0, 3)),
                communication_s=draw(st.none() | st.floats(0, 3)),
                iterations_done=draw(st.integers(0, 29)),
                next_start_s=draw(st.floats(5, 8)),
            )
        )
    return Snapshot(time_s=6.0, fabric=on, jobs=tuple(states), seed=draw(st.integers(0, 9)))


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_plans_are_valid(at: Snapshot) -> None:
    plan, _ = decide(policy, at)
    assert plan == policy.plan(at)
    assert all(link["score"] <= 1 for link in plan.facts["links"])
    for one in at.jobs:
        starts = plan.of(one.job.name).starts_s
        assert len(starts) <= one.job.iterations - one.iterations_done
        assert all(first < second for first, second in pairwise(starts))
        assert all(start >= max(one.next_start_s, at.time_s) for start in starts[:1])


@pytest.mark.parametrize("epoch_s", [None, 6.0])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_equal_jobs_in_step_stop_colliding(n: int, epoch_s: float | None) -> None:
    jobs = [job(number, compute_s=n - 1.0, iterations=100) for number in range(n)]
    assert slowdown(fabric(), jobs, fair) > 1.25
    assert slowdown(fabric(), jobs, policy, epoch_s) < 1.03


def test_two_tenants_communicate_as_if_alone() -> None:
    scenario = load_scenario("two-tenants")
    records = simulate(scenario.fabric(), scenario.jobs(), policy)
    for name in ("tenant-a", "tenant-b"):
        assert communication_s(records, name)[1:] == pytest.approx([0.0664] * 59, abs=1e-3)


@pytest.mark.parametrize("epoch_s", [None, 2.0])
def test_jobs_that_do_not_fit_lose_nothing_against_fair_sharing(epoch_s: float | None) -> None:
    scenario = load_scenario("vision-and-text")
    jobs = list(scenario.jobs())
    by_fair, by_cassini = (slowdown(scenario.fabric(), jobs, by, epoch_s) for by in (fair, policy))
    assert by_cassini <= by_fair * 1.02
