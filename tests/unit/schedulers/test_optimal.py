"""The policy optimal: as good as any other policy, as good as all orders on one link, within its time."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.bench.entangled import entangled_cluster
from harmonics_emu.errors import UsageError
from harmonics_emu.scenario import load_scenario
from harmonics_emu.schedulers.exact.outlook import look_ahead
from harmonics_emu.schedulers.exact.quick import QuickOutlook
from harmonics_emu.schedulers.interface import JobPlan
from harmonics_emu.schedulers.optimal import SEEDS, plan_optimal, policy
from harmonics_emu.schedulers.registry import find_policy
from harmonics_emu.simulate.engine import Options, simulate
from harmonics_emu.simulate.run import simulate_scenario
from tests.unit.schedulers.harmonics.cases import drawn_snapshot
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.schedulers.test_lower_bound import mean_slowdown
from tests.unit.simulate.cases import always, fabric, job, levels


def test_a_late_start_is_better_than_any_fixed_order() -> None:
    # Both are ready at 1 s, job0 again 2 s after its collective's end. A job1 that always gives way is interrupted in
    # each iteration, and one that never does makes job0 wait for long: holding job0 for the last bit of job1 is better.
    jobs = [
        job(0, compute_s=1.0, bucket_bytes=(500_000,), iterations=20),
        job(1, compute_s=1.6, bucket_bytes=(1_100_000,), iterations=11),
    ]
    plan = plan_optimal(snapshot_of(fabric(), jobs))
    fixed = min(mean_slowdown(fabric(), jobs, levels(order)) for order in permutations(jobs))
    reached = mean_slowdown(fabric(), jobs, policy)
    assert plan.facts["objective"] == pytest.approx(reached, rel=1e-6)
    assert plan.facts["proven"]
    assert reached < fixed - 0.002
    assert any(own.starts_s for own in plan.jobs.values())


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_no_other_policy_is_better_for_jobs_that_start_together(number: int) -> None:
    draw = random.Random(number)
    on = fabric(spines=draw.choice((1, 2)))
    jobs = [
        job(
            index,
            iterations=draw.randint(2, 12),
            compute_s=draw.uniform(0.1, 2),
            overlap=draw.choice((0.0, 0.5)),
            bucket_bytes=tuple(draw.randrange(100_000, 1_000_000) for _ in range(draw.randint(1, 3))),
            weight=draw.choice((1.0, 3.0)),
        )
        for index in range(draw.randint(2, 4))
    ]
    facts = plan_optimal(snapshot_of(on, jobs, time_limit="2s")).facts
    for name in SEEDS:
        # Others plan anew when a job ends, which `optimal` does too, but does not foresee.
        first_plan = find_policy(name).plan(snapshot_of(on, jobs))
        assert facts["objective"] <= mean_slowdown(on, jobs, always(**first_plan.jobs)) * (1 + 1e-9)
    assert facts["bound"] <= facts["objective"]


def test_paths_are_chosen() -> None:
    assert (
        pytest.approx(1) == simulate_scenario(load_scenario("hash-collision").short().with_policy("optimal")).cluster.S
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_what_is_searched_by_is_the_objective(number: int) -> None:
    snapshot = drawn_snapshot(number)
    outlook = look_ahead(snapshot)
    assert outlook is not None
    quick = QuickOutlook(outlook, outlook.objective({}))
    draw = random.Random(number)
    for _ in range(3):
        plans = {}
        for state in snapshot.jobs:
            paths = {pair: draw.choice(snapshot.fabric.paths(*pair)) for pair in state.transfers if draw.random() < 0.5}
            starts_s = tuple(sorted(draw.uniform(0, 5) for _ in range(draw.randint(0, 3))))
            plans[state.job.name] = JobPlan(draw.randint(1, 7), paths, starts_s=starts_s)
        assert quick.of(plans) == pytest.approx(outlook.objective(plans), rel=1e-6)


def test_with_many_jobs_it_is_better_than_what_it_begins_with() -> None:
    plan = plan_optimal(replace(entangled_cluster(3, 0), options={"time_limit": "3s"}))
    sources = [found["source"] for found in plan.facts["found"]]
    assert "random change" in sources
    first = min(found["objective"] for found in plan.facts["found"] if found["source"] in SEEDS)
    assert plan.facts["objective"] < first * 0.98


def test_time_limit() -> None:
    jobs = [job(index, hosts=(f"r0h{index}", f"r1h{index}"), compute_s=1 + index / 7) for index in range(6)]
    plan_optimal(snapshot_of(fabric(), jobs, time_limit="10ms"))
    for limit_s in (0.3, 1.0):
        began = time.monotonic()
        facts = plan_optimal(snapshot_of(fabric(), jobs, time_limit=f"{limit_s:g}s")).facts
        assert time.monotonic() - began < 1.1 * limit_s + 0.05
        assert facts["time_limit_s"] == limit_s


def test_more_jobs_than_there_is_time_for() -> None:
    jobs = [job(index) for index in range(8)]
    plan = plan_optimal(snapshot_of(fabric(), jobs, time_limit="1ms"))
    assert plan.facts["fallback"]
    assert not plan.jobs


def test_bad_time_limit() -> None:
    for bad in (10, "0s", "soon"):
        with pytest.raises(UsageError, match=r"policy\.time_limit: "):
            plan_optimal(snapshot_of(fabric(), [job(0)], time_limit=bad))


def test_jobs_in_the_middle_of_their_iterations() -> None:
    # It is asked again when job1 comes and when it goes, while job0 computes or sends.
    jobs = [job(0, iterations=12), job(1, iterations=4, start_s=3.3, compute_s=0.7)]
    records = simulate(fabric(), jobs, policy, options=Options(sample_s=None))
    assert [outcome.status for outcome in records.outcomes.values()] == ["done", "done"]
    assert len(records.decisions) == 3
    assert mean_slowdown(fabric(), jobs, policy) <= mean_slowdown(fabric(), jobs, find_policy("fair")) + 1e-9
