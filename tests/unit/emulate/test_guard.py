"""The guard on what is measured: what counts as worse than fair sharing, when it acts, and when the policy is back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.emulate.guard import BAD_EPOCHS, ITERATIONS, MARGIN, MOST_OVERHEAD, RETRY_EPOCHS, Guard, is_guarded
from harmonics_emu.emulate.observer import History
from harmonics_emu.emulate.solving import Forecast
from harmonics_emu.schedulers.interface import JobPlan, JobState, Plan, Snapshot
from topologies.rack_spine import rack_spine
from workloads.job import Job

FABRIC = rack_spine(2, 2, 1, 10**8, 10**8)
COMPUTE_S, ALONE_S, FAIR_S = 0.1, 0.15, 0.2
EPOCH_S = 2.0
PLAN = Plan("harmonics", {"one": JobPlan(level=1), "two": JobPlan(level=2)})
EXPECTED = Forecast({"one": ALONE_S, "two": ALONE_S}, {"one": FAIR_S, "two": FAIR_S}, {"one": ALONE_S, "two": ALONE_S})


def snapshot(time_s: float, names: tuple[str, ...] = ("one", "two"), learnt: bool = True) -> Snapshot:
    jobs = [Job(name, index, "ddp", ("r0h0", "r1h0"), 99, COMPUTE_S) for index, name in enumerate(names)]
    states = (JobState(job, {}, COMPUTE_S, 0.1 if learnt else None) for job in jobs)
    return Snapshot(time_s, FABRIC, tuple(states), seed=0)


class Run:
    """Two jobs whose plan is in force from time zero, and a clock that goes on in tenths of a second."""

    def __init__(self, epoch_s: float | None = EPOCH_S, expected: Forecast = EXPECTED) -> None:
        self.expected = expected
        self.histories = {name: History(ranks=1, warmup=0) for name in ("one", "two")}
        self.guard = Guard(epoch_s, self.histories)
        self.now = 0.0
        self._ends = dict.fromkeys(self.histories, 0.0)
        self.guard.plan_in_force(snapshot(0.0), PLAN, 0.0)

    def go_on(self, seconds: float, one_s: float, two_s: float, compute_s: float = COMPUTE_S) -> str | None:
        """Let the jobs iterate, and forecasts come when they are wanted; the first thing that the guard says."""
        until_s = self.now + seconds
        while self.now < until_s:
            self.now += 0.1
            for name, iteration_s in (("one", one_s), ("two", two_s)):
                while self._ends[name] + iteration_s <= self.now:
                    history, start_s = self.histories[name], self._ends[name]
                    history.add(len(history.whole), start_s, compute_s, 0.0, start_s + iteration_s)
                    self._ends[name] += iteration_s
            if self.guard.wants_forecast(self.now):
                self.guard.hear(snapshot(self.now), self.expected)
            if self.guard.is_due(self.now) and (said := self.guard.judge(self.now)) is not None:
                return said
        return None


def test_two_bad_epochs_in_a_row_bring_fair_sharing_and_say_by_how_much_and_for_how_long() -> None:
    run = Run()
    why = run.go_on(60, 0.3, 0.3)
    assert why is not None
    assert "mean slowdown 2.00 (fair 1.53, plan 1.15) and 2.00 (fair 1.53, plan 1.15)" in why
    assert f"tried again {EPOCH_S * RETRY_EPOCHS:g} s later" in why
    assert run.guard.held
    # A second for the first forecast, then two epochs.
    assert run.now == pytest.approx(1 + BAD_EPOCHS * EPOCH_S, abs=0.5)


def test_one_bad_epoch_is_forgiven() -> None:
    run = Run()
    for _ in range(5):
        assert run.go_on(EPOCH_S, 0.3, 0.3) is None
        assert run.go_on(3 * EPOCH_S, 0.16, 0.16) is None


@given(st.floats(0.155, 0.4), st.floats(0.155, 0.4))
def test_it_is_the_mean_slowdown_that_counts_less_what_the_emulator_may_add(one_s: float, two_s: float) -> None:
    overheads = [min(iteration_s / ALONE_S, 1 + MOST_OVERHEAD) for iteration_s in (one_s, two_s)]
    limit_s = (1 + MARGIN) * FAIR_S * sum(overheads)
    if abs((one_s + two_s) / limit_s - 1) > 0.01:
        assert (Run().go_on(20, one_s, two_s) is not None) == (one_s + two_s > limit_s)


def test_jobs_that_the_machine_slows_down_all_the_time_are_no_fault_of_the_plan() -> None:
    """Both have gone out of each other's way, so fair sharing is expected to leave them there."""
    apart = Forecast(EXPECTED.alone_s, EXPECTED.alone_s, EXPECTED.alone_s)
    assert Run(expected=apart).go_on(30, 1.2 * ALONE_S, 1.2 * ALONE_S) is None
    assert Run(expected=apart).go_on(30, 1.4 * ALONE_S, 1.4 * ALONE_S) is not None


def test_what_a_job_computes_longer_is_no_fault_of_the_plan() -> None:
    assert Run().go_on(30, 0.4, 0.4, compute_s=COMPUTE_S + 0.2) is None


def test_a_plan_that_means_to_be_worse_for_a_while_must_be_worse_than_that() -> None:
    first_one = Forecast({"one": 0.15, "two": 0.45}, EXPECTED.fair_s, EXPECTED.alone_s)
    assert Run(expected=first_one).go_on(30, 0.16, 0.47) is None
    assert Run(expected=first_one).go_on(30, 0.35, 0.47) is not None


def test_a_job_that_hardly_moves_is_judged_by_that() -> None:
    run = Run()
    why = run.go_on(60, 0.15, 25.0)
    assert why is not None
    assert run.now < 25, "before its first iteration has ended"


def test_epochs_last_until_each_job_has_some_iterations() -> None:
    run = Run(epoch_s=0.3)
    assert run.go_on(1 + 2 * ITERATIONS * 0.3 - 0.2, 0.3, 0.3) is None
    assert run.go_on(1.5, 0.3, 0.3) is not None


def test_without_an_epoch_of_the_policys_an_epoch_is_ten_seconds() -> None:
    run = Run(epoch_s=None)
    assert run.go_on(20, 0.3, 0.3) is None
    assert run.go_on(3, 0.3, 0.3) is not None


def test_forecasts_from_the_scenarios_figures_or_of_other_jobs_are_not_compared_with() -> None:
    run = Run()
    run.guard.hear(snapshot(0.0, learnt=False), EXPECTED)
    run.guard.hear(snapshot(0.0, names=("one",)), EXPECTED)
    assert not run.guard.is_due(100.0)
    assert run.guard.wants_forecast(1.5)
    assert not run.guard.wants_forecast(1.6), "once a second at most"


def held() -> Iterator[Run]:
    run = Run()
    assert run.go_on(60, 0.3, 0.3) is not None
    yield run


@pytest.fixture
def held_run() -> Run:
    return next(held())


def test_the_policy_is_tried_again_after_ten_epochs_then_twenty(held_run: Run) -> None:
    guard = held_run.guard
    for epochs in (RETRY_EPOCHS, 2 * RETRY_EPOCHS):
        since_s = held_run.now
        assert not guard.may_retry(since_s + epochs * EPOCH_S - 0.1)
        assert guard.may_retry(since_s + epochs * EPOCH_S + 0.1)
        held_run.now = since_s + epochs * EPOCH_S + 0.1
        guard.plan_in_force(snapshot(held_run.now), PLAN, held_run.now)
        assert not guard.held
        assert held_run.go_on(60, 0.3, 0.3) is not None


def test_another_mix_of_jobs_brings_the_policy_back_at_once(held_run: Run) -> None:
    held_run.guard.changed()
    assert not held_run.guard.held


def test_a_plan_that_says_nothing_is_fair_sharing_and_is_not_judged() -> None:
    run = Run()
    run.guard.changed()
    run.guard.plan_in_force(snapshot(0.0), Plan("harmonics", {"one": JobPlan(), "two": JobPlan()}), 0.0)
    assert run.go_on(30, 0.5, 0.5) is None


def test_harmonics_is_guarded_unless_it_is_told_not_to_be_and_nobody_else_is() -> None:
    assert is_guarded("harmonics", {"epoch": "2s"})
    assert not is_guarded("harmonics", {"guard": "false"})
    assert not is_guarded("crux", {})
