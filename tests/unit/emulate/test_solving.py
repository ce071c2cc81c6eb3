"""The solver's process: plans come back as the policy makes them, and its death or silence is told, not waited for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.solving import Answer, Begin, Forecast, Heard, Refused, Solver
from harmonics_emu.emulate.worker import WorkerLost
from harmonics_emu.schedulers.cassini import policy as cassini
from harmonics_emu.schedulers.interface import JobState, Plan, Snapshot
from topologies.rack_spine import rack_spine
from workloads.collectives import job_transfers
from workloads.job import Job

FABRIC = rack_spine(2, 2, 1, 4 * 10**8, 2 * 10**8)
TWINS = tuple(
    Job(name, index, "ddp", (f"r0h{index}", f"r1h{index}"), 60, compute_s=0.075, bucket_bytes=(1_100_000,))
    for index, name in enumerate(("one", "two"))
)


def snapshot(**options: object) -> Snapshot:
    states = tuple(JobState(job, job_transfers(job, FABRIC.rack_of), job.compute_s, next_start_s=1.0) for job in TWINS)
    return Snapshot(1.0, FABRIC, states, seed=3, options=options)


@pytest.fixture
def solvers(tmp_path: Path) -> Iterator:
    """Starts solvers, and ends them after the test."""
    started: list[Solver] = []

    def start(policy: str, **options: object) -> Solver:
        started.append(Solver(Begin(policy, options, FABRIC, 3, (), 2.0), Logs(tmp_path)))
        return started[-1]

    yield start
    for solver in started:
        solver.stop()


def hear(solver: Solver, timeout_s: float = 60.0) -> Heard:
    deadline = time.monotonic() + timeout_s
    while (heard := solver.poll(0.05)) is None:
        assert time.monotonic() < deadline, "the solver says nothing"
    return heard


def ask_and_hear(solver: Solver, timeout_s: float) -> Heard:
    solver.ask(snapshot(), timeout_s)
    return hear(solver)


def test_a_plan_is_that_of_the_policy_and_a_forecast_follows(solvers) -> None:
    solver, asked = solvers("cassini", epoch="2s"), snapshot(epoch="2s")
    assert not solver.asked
    solver.ask(asked, 60.0)
    assert solver.asked
    heard = hear(solver)
    assert isinstance(heard.reply, Answer)
    assert heard.snapshot == asked
    assert heard.reply.plan == cassini.plan(asked)
    assert heard.reply.plan.of("two").starts_s
    assert 0 < heard.reply.solve_s < 60
    assert not solver.asked
    heard = hear(solver)
    assert isinstance(heard.reply, Forecast)
    # Apart, each has the uplink to itself: 75 ms of compute and 1.1 MB at 200 Mbit/s.
    assert heard.reply.iteration_s == pytest.approx({"one": 0.119, "two": 0.119}, rel=0.03)


def test_forecasts_alone_and_one_that_another_has_followed_is_dropped(solvers) -> None:
    solver, asked = solvers("fair"), snapshot()
    solver.ask(asked, 60.0)
    plan = hear(solver).reply.plan
    assert isinstance(hear(solver).reply, Forecast)
    for _ in range(3):
        solver.foresee(asked, plan, 60.0)
    assert not solver.asked
    assert isinstance(hear(solver).reply, Forecast)
    assert solver.poll(0.5) is None


def test_a_guarded_run_also_hears_of_fair_sharing_and_of_jobs_alone(tmp_path: Path) -> None:
    solver = Solver(Begin("cassini", {}, FABRIC, 3, (), 2.0, guarded=True), Logs(tmp_path))
    try:
        solver.ask(snapshot(), 60.0)
        assert isinstance(hear(solver).reply, Answer)
        apart = hear(solver).reply
        solver.foresee(snapshot(), Plan("fair"), 60.0)
        together = hear(solver).reply
    finally:
        solver.stop()
    # In step, both send for twice as long as alone: 75 ms of compute, and 44 ms of sending.
    assert apart.fair_s == pytest.approx({"one": 0.163, "two": 0.163}, rel=0.03)
    assert apart.alone_s == pytest.approx({"one": 0.119, "two": 0.119}, rel=0.03)
    assert together.iteration_s == together.fair_s == apart.fair_s


def test_a_policy_that_refuses_is_told_and_asked_again(solvers) -> None:
    solver = solvers("crux", levels=9)
    for _ in range(2):
        solver.ask(snapshot(levels=9), 60.0)
        heard = hear(solver)
        assert isinstance(heard.reply, Refused)
        assert "levels" in heard.reply.cause


def test_an_unknown_policy_ends_the_solver_with_its_cause(solvers) -> None:
    with pytest.raises(WorkerLost, match="no policy is called 'unfair'"):
        hear(solvers("unfair"))


@pytest.mark.parametrize(
    ("number", "told"), [(signal.SIGKILL, "was killed by signal 9"), (signal.SIGSTOP, "did not answer in time")]
)
def test_a_solver_that_dies_or_stops_is_told_soon_and_another_goes_on(solvers, number: int, told: str) -> None:
    solver = solvers("fair")
    solver.ask(snapshot(), 60.0)
    assert isinstance(hear(solver).reply, Answer)
    assert isinstance(hear(solver).reply, Forecast)
    first = solver.pid
    os.kill(first, number)
    began = time.monotonic()
    with pytest.raises(WorkerLost, match=told):
        ask_and_hear(solver, 0.3)
    assert time.monotonic() - began < 2
    solver.restart()
    assert solver.pid != first
    solver.ask(snapshot(), 60.0)
    assert isinstance(hear(solver).reply, Answer)
