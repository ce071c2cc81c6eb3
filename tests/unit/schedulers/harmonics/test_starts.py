"""Start times: jobs on one link that are held, or whose periods are stretched until nobody meets."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.schedulers.harmonics.messages import View
from harmonics_emu.schedulers.harmonics.plan import plan_harmonics
from harmonics_emu.schedulers.harmonics.rollout import Rollout
from harmonics_emu.schedulers.harmonics.starts import (
    MOST_REPEATS,
    MOST_STRETCH,
    Starts,
    groups_on_one_link,
    harmonised_starts,
    held_starts,
)
from harmonics_emu.schedulers.harmonics.views import tasks_of
from tests.unit.schedulers.harmonics.cases import whole_view
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import fabric, job
from workloads.job import DEFAULT_LEVEL, Job


def jobs_of(*figures: tuple[float, int], iterations: int = 8) -> list[Job]:
    """Of (seconds of compute, milliseconds of the uplink)."""
    return [
        job(number, compute_s=compute_s, bucket_bytes=(1000 * send_ms,), iterations=iterations)
        for number, (compute_s, send_ms) in enumerate(figures)
    ]


def harmonised(view: View, slack_s: float = 0.0) -> list[Starts]:
    jobs = view.jobs
    iterations = [job.iterations for job in jobs]
    return list(harmonised_starts(view, range(len(jobs)), 0, [slack_s] * len(jobs), iterations))


def test_groups_are_jobs_whose_slowest_link_is_one() -> None:
    view = whole_view(snapshot_of(fabric(), jobs_of((1, 500), (1, 300))))
    assert groups_on_one_link(view) == [[0, 1]]
    # In the same rack they share a host link, but the first one's slowest link is the uplink.
    elsewhere = [job(0), job(1, hosts=("r0h0", "r0h1"))]
    assert groups_on_one_link(whole_view(snapshot_of(fabric(), elsewhere))) == []
    apart = [job(0, hosts=("r0h0", "r0h1")), job(1, hosts=("r1h0", "r1h1"))]
    assert groups_on_one_link(whole_view(snapshot_of(fabric(), apart))) == []


def test_harmonised_jobs_never_meet() -> None:
    # Periods of 1 s and 2.1 s: the first stretched to 1.05 s has its turn twice while the other has one.
    view = whole_view(snapshot_of(fabric(), jobs_of((0.7, 300), (1.5, 600))))
    rollout = Rollout(view)
    alone_s = np.array([8 * 1.0, 8 * 2.1])
    met = rollout.times_s([DEFAULT_LEVEL] * 2)
    found = [rollout.times_s([DEFAULT_LEVEL] * 2, starts) for starts in harmonised(view)]
    assert found
    best = min(found, key=sum)
    assert (best / alone_s).max() < 1.06 + 1.05 / 8
    assert (best / alone_s).sum() < (met / alone_s).sum()
    for starts in harmonised(view):
        sent = sorted((at, at + send_s) for one, send_s in ((0, 0.3), (1, 0.6)) for at in starts[one] if at < min(best))
        assert all(end <= begin + 1e-9 for (_, end), (begin, _) in pairwise(sent))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0.05, 3), st.integers(10, 700)), min_size=2, max_size=4), st.floats(0, 2))
def test_harmonised_starts_come_regularly_and_let_all_end(figures: list[tuple[float, int]], late_s: float) -> None:
    snapshot = snapshot_of(fabric(), jobs_of(*figures))
    first = replace(snapshot.jobs[0], next_start_s=late_s)
    view = whole_view(replace(snapshot, jobs=(first, *snapshot.jobs[1:])))
    rollout = Rollout(view)
    for starts in harmonised(view):
        for one, (compute_s, send_ms) in zip(view.jobs, figures, strict=True):
            gaps = np.diff(starts[one.number])
            period_s = compute_s + send_ms / 1000
            assert len(gaps) == one.iterations - 1
            assert gaps.tolist() == pytest.approx([gaps[0]] * len(gaps))
            assert period_s * (1 - 1e-5) <= gaps[0] <= period_s * MOST_STRETCH * (1 + 1e-5)
            assert starts[one.number][0] >= one.start_s + compute_s - 1e-9
        assert np.isfinite(rollout.times_s([DEFAULT_LEVEL] * len(figures), starts)).all()


def test_periods_that_are_far_apart_are_left_alone_at_once() -> None:
    view = whole_view(snapshot_of(fabric(), [*jobs_of((100.0, 1)), job(1, compute_s=1e-6, bucket_bytes=(1,))]))
    began = time.monotonic()
    for starts in harmonised(view):
        assert max(len(own) for own in starts.values()) <= MOST_REPEATS * 8
    assert time.monotonic() - began < 1


def test_slack_lies_behind_each_collective() -> None:
    view = whole_view(snapshot_of(fabric(), jobs_of((0.75, 730), (0.75, 730))))
    for slack_s in (0.01, 0.05):
        starts = harmonised(view, slack_s)[0]
        sent = sorted((at, at + 0.73) for own in starts.values() for at in own)
        gaps = [begin - end for (_, end), (begin, _) in pairwise(sent[:10])]
        assert min(gaps) >= slack_s - 1e-9
        assert min(gaps) <= slack_s + 0.01


def test_jobs_that_vary_get_room_on_a_nearly_full_link() -> None:
    """Alone 148 ms, of which the link is busy for 73: strict priority lets the second job miss its gap again and again.

    Both jobs 5 % later every time, and neither meets the other.
    """
    jobs = jobs_of((0.075, 73), (0.075, 73), iterations=200)
    steady = snapshot_of(fabric(), jobs)
    varying = replace(steady, jobs=tuple(replace(state, jitter_s=0.002) for state in steady.jobs))
    plan = plan_harmonics(varying)
    period_s = {float(np.diff(own.starts_s).max()) for own in plan.jobs.values()}
    assert 2 * 0.073 + 2 * 0.002 <= max(period_s) <= 0.148 * 1.1
    by_levels = plan_harmonics(replace(varying, options={"levers": "priorities"}))
    assert plan.facts["objective"] < by_levels.facts["objective"] - 0.03
    assert plan.facts["objective"] < 1.1


def test_a_job_that_pauses_while_it_sends_leaves_its_links_free() -> None:
    """100 ms of each iteration alone go into pauses. The link is busy for 146 of 248 ms: nobody has to be stretched."""
    jobs = jobs_of((0.075, 73), (0.075, 73), iterations=200)
    paused = [replace(state, jitter_s=0.002, pause_s=0.1) for state in snapshot_of(fabric(), jobs).jobs]
    snapshot = replace(snapshot_of(fabric(), jobs), jobs=tuple(paused))
    assert tasks_of(snapshot)[0].alone_iteration_s == pytest.approx(0.248)
    assert plan_harmonics(snapshot).facts["objective"] < 1.01


def test_start_times_leave_room_for_pauses() -> None:
    jobs = jobs_of((0.075, 73), (0.075, 73), iterations=200)
    plain = replace(snapshot_of(fabric(), jobs), options={"levers": "start-times"})
    states = [replace(state, jitter_s=0.002, pause_s=0.004) for state in plain.jobs]
    longer = [replace(state, jitter_s=0.002, compute_s=0.079) for state in plain.jobs]
    paused, same = (plan_harmonics(replace(plain, jobs=tuple(those))) for those in (states, longer))
    for name, own in paused.jobs.items():
        assert len(own.starts_s) == 200
        assert np.array(own.starts_s) == pytest.approx(np.array(same.of(name).starts_s) - 0.004)


def test_held_starts_are_better_than_the_same_levels_alone() -> None:
    # Both are ready at 1 s, job0 again 2 s after its collective's end; see the test of the policy optimal.
    jobs = [
        job(0, compute_s=1.0, bucket_bytes=(500_000,), iterations=20),
        job(1, compute_s=1.6, bucket_bytes=(1_100_000,), iterations=11),
    ]
    view = whole_view(snapshot_of(fabric(), jobs))
    rollout = Rollout(view)
    held = held_starts(view, [0, 1], [1, 2], math.inf)
    assert held is not None
    assert rollout.cost([1, 2], held) < rollout.cost([1, 2]) - 0.002
    assert held_starts(view, [0, 1], [1, 2], time.monotonic() - 1) is None
    # One after the other in any case: nobody needs to be held.
    lazy = whole_view(snapshot_of(fabric(), jobs_of((10.0, 100), (10.5, 100), iterations=2)))
    assert held_starts(lazy, [0, 1], [1, 2], math.inf) is None


def test_times_are_absolute() -> None:
    """The same jobs a hundred seconds later have the same starts a hundred seconds later."""
    snapshot = snapshot_of(fabric(), jobs_of((0.7, 300), (1.5, 600)))
    later = replace(snapshot, time_s=100.0, jobs=tuple(replace(state, next_start_s=100.0) for state in snapshot.jobs))
    one, other = (harmonised(whole_view(seen)) for seen in (snapshot, later))
    assert len(one) == len(other) > 0
    for first, second in zip(one, other, strict=True):
        for number in first:
            assert np.array(second[number]) - 100 == pytest.approx(np.array(first[number]), abs=1e-6)
