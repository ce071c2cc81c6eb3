"""The lower bound of S: below what every policy reaches, and not far below what can be reached."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.schedulers.exact.bound import lower_bound
from harmonics_emu.schedulers.exact.capacity import capacity_bound
from harmonics_emu.schedulers.exact.serial import Chain, bounds
from harmonics_emu.schedulers.interface import JobPlan, Policy
from harmonics_emu.schedulers.registry import BUILT_IN, find_policy
from harmonics_emu.simulate.engine import Options, simulate
from harmonics_emu.simulate.predict import alone
from tests.unit.simulate.cases import always, fabric, job, levels
from topologies.fabric import Fabric
from workloads.job import Job

QUICK = [name for name in BUILT_IN if name != "optimal"]
"""Whether `optimal` is above the bound is held on the scenarios of the suite."""


def mean_slowdown(
    on: Fabric, jobs: Sequence[Job], policy: Policy, seed: int = 0, epoch_s: float | None = None
) -> float:
    records = simulate(on, jobs, policy, seed, options=Options(sample_s=None, epoch_s=epoch_s))
    shares = [one.ranks * one.weight for one in jobs]
    slowdowns = [(records.outcomes[one.name].end_s - one.start_s) / alone(on, one, seed)[1] for one in jobs]
    return sum(share * slowdown for share, slowdown in zip(shares, slowdowns, strict=True)) / sum(shares)


def chain(compute_s: float, link_s: float, iterations: int, weight: float = 1.0, start_s: float = 0.0) -> Chain:
    return Chain(
        np.full(iterations, compute_s),
        np.full(iterations, compute_s + link_s),
        (1.0,),
        (link_s,),
        weight,
        start_s,
    )


def test_preemption_beats_whole_collectives() -> None:
    # .3 s and .1 s on the link against .5 s and .5 s. If nobody is interrupted, somebody waits in each iteration:
    # 1.125 at best. The short job first at any time never waits, and no schedule is better than that.
    jobs = [
        job(0, compute_s=0.3, bucket_bytes=(100_000,), iterations=100),
        job(1, compute_s=0.5, bucket_bytes=(500_000,), iterations=40),
    ]
    by_priority = mean_slowdown(fabric(), jobs, levels(jobs))
    assert by_priority == pytest.approx(1.08125)
    assert lower_bound(fabric(), jobs).value == pytest.approx(by_priority)


def test_jobs_that_share_no_link_have_no_contention() -> None:
    bound = lower_bound(fabric(spines=2), [job(0), job(1)])
    assert bound.value == pytest.approx(1)
    assert bound.groups == ()


def test_equal_jobs_in_step() -> None:
    # One waits for the other once, and never again: 1 s in 4 iterations of 2 s, for one of two jobs.
    bound = lower_bound(fabric(), [job(0), job(1)])
    assert bound.value == pytest.approx(1 + 1 / 8 / 2)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_no_policy_is_below_the_bound(number: int) -> None:
    draw = random.Random(number)
    on = fabric(spines=draw.choice((1, 1, 2)))
    cv = draw.choice((0.0, 0.1))
    jobs = [
        job(
            index,
            hosts=tuple(f"r{rank % 2}h{index}" for rank in range(draw.choice((2, 3)))),
            iterations=draw.randint(1, 12),
            compute_s=draw.uniform(0.1, 2),
            compute_cv=cv,
            overlap=draw.choice((0.0, 0.5)),
            bucket_bytes=tuple(draw.randrange(100_000, 1_000_000) for _ in range(draw.randint(1, 3))),
            start_s=draw.choice((0.0, draw.uniform(0, 3))),
            weight=draw.choice((1.0, 3.0)),
        )
        for index in range(draw.randint(2, 4))
    ]
    bound = lower_bound(on, jobs, seed=number, time_limit_s=0.5).value
    for name in QUICK:
        assert mean_slowdown(on, jobs, find_policy(name), number, epoch_s=draw.choice((None, 2.0))) >= bound
    for _ in range(4):
        plans = {
            one.name: JobPlan(
                level=draw.randrange(8),
                rate_bps=draw.choice((None, None, 4_000_000)),
                starts_s=tuple(sorted(draw.uniform(0, 20) for _ in range(draw.choice((0, 0, one.iterations))))),
            )
            for one in jobs
        }
        assert mean_slowdown(on, jobs, always(**plans), number) >= bound


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_the_search_is_as_good_as_all_schedules_on_a_grid(number: int) -> None:
    draw = random.Random(number)
    chains = [
        chain(draw.randint(0, 4), draw.randint(1, 3), draw.randint(1, 2), draw.randint(1, 3), draw.randint(0, 2))
        for _ in range(draw.choice((2, 2, 3)))
    ]
    found = bounds(chains)
    best = brute_force(chains)
    assert found.complete
    assert found.most == pytest.approx(best)
    assert found.least == pytest.approx(best)
    assert capacity_bound(chains) <= best + 1e-9


def brute_force(chains: Sequence[Chain]) -> float:
    """Every choice of whom the link serves, second by second; all times are whole seconds."""
    known: dict[tuple[tuple[int, float, float], ...], float] = {}

    def rest(states: tuple[tuple[int, float, float], ...]) -> float:
        """Each chain: iterations left, seconds of compute left (of waiting to start, too), and of link time."""
        if all(left == 0 for left, _, _ in states):
            return 0.0
        if states not in known:
            cost = sum(one.weight for one, (left, _, _) in zip(chains, states, strict=True) if left)
            ready = [number for number, (left, compute, _) in enumerate(states) if left and compute == 0]
            choices = (tuple(step(n, state, served) for n, state in enumerate(states)) for served in ready or [-1])
            known[states] = cost + min(map(rest, choices))
        return known[states]

    def step(number: int, state: tuple[int, float, float], served: int) -> tuple[int, float, float]:
        left, compute, link = state
        if left == 0:
            return state
        if compute:
            return left, compute - 1, link
        if number != served:
            return state
        one = chains[number]
        return (left, compute, link - 1) if link > 1 else (left - 1, float(one.compute_s[0]), one.link_s[0])

    begin = min(one.start_s for one in chains)
    first = tuple((len(one.compute_s), one.start_s - begin + float(one.compute_s[0]), one.link_s[0]) for one in chains)
    return rest(first) - sum(one.weight * (one.start_s - begin) for one in chains)
