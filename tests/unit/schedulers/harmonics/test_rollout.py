"""Rollouts: the engine's own times, to the last iteration, whatever the plan."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.schedulers.harmonics.messages import JobView, View
from harmonics_emu.schedulers.harmonics.rollout import Judge, Rollout
from harmonics_emu.schedulers.harmonics.views import Problem
from harmonics_emu.schedulers.interface import JobPlan, Plan, Snapshot
from harmonics_emu.simulate.engine import simulate
from tests.unit.schedulers.harmonics.cases import (
    drawn_background,
    drawn_fabric,
    drawn_jobs,
    engine_times_s,
    keeping,
    whole_view,
    with_starts,
)
from tests.unit.schedulers.harmonics.cases import names as names_of
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import MBIT, fabric, job, watching
from workloads.job import DEFAULT_LEVEL, Background


def drawn_plans(draw: random.Random, snapshot: Snapshot) -> dict[str, JobPlan]:
    plans = {}
    for state in snapshot.jobs:
        gates = draw.choice((0, 0, draw.randint(1, state.job.iterations)))
        paths = {pair: draw.choice(snapshot.fabric.paths(*pair)) for pair in state.transfers if draw.random() < 0.5}
        starts_s = sorted(draw.uniform(0, 12) for _ in range(gates))
        plans[state.job.name] = JobPlan(draw.randint(0, 7), paths, starts_s=tuple(starts_s))
    return plans


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6))
def test_rollout_is_the_engine(number: int) -> None:
    draw = random.Random(number)
    on = drawn_fabric(draw)
    jobs = drawn_jobs(draw, on, together=False)
    snapshot = replace(with_starts(snapshot_of(on, jobs)), background=drawn_background(draw, on), seed=number)
    plans = drawn_plans(draw, snapshot)
    view = whole_view(snapshot, plans)
    found = Rollout(view).times_s(
        [plans[name].level for name in names_of(view, jobs)],
        {job.number: plans[jobs[job.number].name].starts_s for job in view.jobs},
    )
    assert dict(zip(names_of(view, jobs), found.tolist(), strict=True)) == pytest.approx(
        engine_times_s(snapshot, keeping(plans)), rel=1e-9
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_jobs_that_links_down_cut_off_are_left_out_and_the_others_foreseen(number: int) -> None:
    draw = random.Random(number)
    on = drawn_fabric(draw)
    down = frozenset(draw.sample(sorted(on.links), 3))
    snapshot = replace(snapshot_of(on, drawn_jobs(draw, on)), links_down=down)
    view = whole_view(snapshot)
    times_s = Rollout(view).times_s([DEFAULT_LEVEL] * len(view.jobs)).tolist()
    measured = [time_s for time_s in engine_times_s(snapshot, keeping({})).values() if time_s < math.inf]
    assert times_s == pytest.approx(measured, rel=1e-9)


def view_of(*jobs: JobView, capacity: float = 1.0, steady: tuple[JobView, ...] = (), time_s: float = 0.0) -> View:
    return View(time_s, {7: capacity}, jobs, steady)


ONE = JobView(0, 0.0, 2, 0.5, (1.0,), (1.0,), (1.0,), (7,), (1.0,), 1.0, math.inf, 2, True)


def test_cost_is_weighted_time() -> None:
    # Two iterations of 1 s of compute and 1 s of the link.
    assert Rollout(view_of(ONE)).cost([3]) == 2.0
    # Beside each other both send at half the rate until both are done: 2 x (1 + 2) s each.
    both = Rollout(view_of(ONE, msgspec.structs.replace(ONE, number=1)))
    assert both.cost([3, 3]) == pytest.approx(2 * 0.5 * 6)
    # The first sends from 1 to 2 and from 3 to 4, the second in between and after.
    assert both.times_s([1, 2]).tolist() == pytest.approx([4.0, 5.0])


def test_a_job_that_stalls_costs_infinity() -> None:
    assert Rollout(view_of(ONE, capacity=0.0)).cost([3]) == math.inf
    full = JobView(-1, 0.0, 0, 0.0, (), (), (), (7,), (1.0,), 1.0, 9.0, 0, False)
    beside, behind = (Rollout(view_of(ONE, steady=(full,))).cost([level]) for level in (DEFAULT_LEVEL, 5))
    assert (beside, behind) == (pytest.approx(0.5 * 6), math.inf)


def test_nobody_at_all() -> None:
    assert Rollout(View(3.0, {}, ())).cost([]) == 0.0
    flow = JobView(-1, 0.0, 0, 0.0, (), (), (), (7,), (1.0,), 1.0, 9.0, 0, False)
    assert Rollout(view_of(steady=(flow, flow))).cost([]) == 0.0


def test_a_judge_takes_the_mean_over_draws_and_counts_iterations() -> None:
    slower = JobView(0, 0.0, 2, 0.5, (1.0, 3.0), (1.0,), (1.0,), (7,), (1.0,), 1.0, math.inf, 2, True)
    judge = Judge([view_of(ONE), view_of(slower)])
    assert judge.cost([3]) == pytest.approx((2.0 + 3.0) / 2)
    assert judge.fair_cost() == pytest.approx(2.5)
    assert judge.spent == 8


def test_rollouts_of_part_of_the_iterations_cost_about_as_much() -> None:
    snapshot = snapshot_of(fabric(), [job(0, iterations=300), job(1, iterations=150, compute_s=0.4)])
    view = whole_view(snapshot)
    problem = Problem(snapshot)
    short = problem.whole_view(problem.crossings({}), [0, 1], 45)
    assert Rollout(short).iterations == 45
    assert Rollout(short).cost([1, 2]) == pytest.approx(Rollout(view).cost([1, 2]), rel=0.02)
    assert Rollout(view).iterations == 450


def test_a_job_that_was_held_until_now_sends_now_and_not_in_the_past() -> None:
    # job0 is ready at 1 s, but held until 9 s; when job1 comes at 3 s and sends at 4 s, nobody is held any more.
    jobs = [job(0), job(1, start_s=3.0)]
    seen: list[Snapshot] = []
    held = {"job0": JobPlan(starts_s=(9.0,))}
    policy = watching(seen, lambda snapshot: Plan("watching", held if snapshot.time_s == 0 else {}))
    outcomes = simulate(fabric(), jobs, policy).outcomes
    assert [state.next_start_s for state in seen[1].jobs] == [0.0, 3.0]
    times_s = Rollout(whole_view(seen[1])).times_s([DEFAULT_LEVEL] * 2).tolist()
    assert times_s == pytest.approx([outcome.end_s - outcome.start_s for outcome in outcomes.values()], rel=1e-9)


def test_background_has_its_rate_and_no_more() -> None:
    flow = Background("r0h5", "r1h5", 2 * MBIT)
    view = whole_view(replace(snapshot_of(fabric(), [job(0)]), background=(flow,)))
    assert Rollout(view).times_s([DEFAULT_LEVEL]).tolist() == pytest.approx([4 * (1 + 1 / 0.75)])
