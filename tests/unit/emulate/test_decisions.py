"""When a policy is asked, what is put into force of its plans, and what goes on record: with fakes for the fabric."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harmonics_emu.emulate.decisions import LATER_S, MOST_LOSSES, Active, Decider
from harmonics_emu.emulate.enforcement import Enforcer
from harmonics_emu.emulate.gates import NEVER_NS, GateKeeper
from harmonics_emu.emulate.guard import Guard
from harmonics_emu.emulate.job_queues import Lane
from harmonics_emu.emulate.observer import Observer
from harmonics_emu.emulate.solving import Answer, Forecast, Heard, Refused
from harmonics_emu.emulate.wire import WireError
from harmonics_emu.emulate.worker import WorkerLost
from harmonics_emu.errors import RunFailed
from harmonics_emu.schedulers.interface import JobPlan, Plan, Snapshot
from topologies.rack_spine import rack_spine
from workloads.job import DEFAULT_LEVEL, Job
from workloads.job_page import JobPage
from workloads.output_files import spans_path
from workloads.spans import SpanWriter
from workloads.timer import Timer

FABRIC = rack_spine(2, 2, 2, 10**8, 10**8)
ONE = Job("one", 0, "ddp", ("r0h0", "r1h0"), 50, compute_s=0.1, bucket_bytes=(1000,))
TWO = Job("two", 1, "ddp", ("r0h0", "r1h1"), 50, compute_s=0.1, bucket_bytes=(1000,))
LEVELS = {"one": JobPlan(level=1), "two": JobPlan(level=2)}


class Controller:
    """Remembers what it was asked to install; `gone` makes it unreachable."""

    def __init__(self) -> None:
        self.states: list[Any] = []
        self.gone = False

    def install(self, state, timeout_s):
        if self.gone:
            raise WireError("controller: it closed the connection")
        self.states.append(state)
        return []


class Queues:
    def __init__(self) -> None:
        self.set_to: list[dict[str, dict[int, Lane]]] = []

    def set(self, wanted) -> None:
        self.set_to.append({host: dict(lanes) for host, lanes in wanted.items()})


@dataclass
class FakeSolver:
    """Says what is put into `says`, about what it was asked last; an exception there is raised instead."""

    says: list[Any] = field(default_factory=list)
    questions: list[tuple[Snapshot, float]] = field(default_factory=list)
    foreseen: list[tuple[Snapshot, Plan]] = field(default_factory=list)
    asked: bool = False
    restarts: int = 0

    def ask(self, snapshot: Snapshot, timeout_s: float) -> None:
        self.questions.append((snapshot, timeout_s))
        self.asked = True

    def foresee(self, snapshot: Snapshot, plan: Plan, timeout_s: float) -> None:
        self.foreseen.append((snapshot, plan))

    def poll(self, timeout_s: float = 0.0) -> Heard | None:
        if not self.says:
            return None
        said = self.says.pop(0)
        if isinstance(said, Exception):
            raise said
        if not isinstance(said, Forecast):
            self.asked = False
        elif self.foreseen:
            return Heard(self.foreseen[-1][0], said)
        return Heard(self.questions[-1][0], said)

    def stop(self) -> None: ...

    def take_faults(self) -> list[str]:
        return []

    def cpu_seconds(self) -> dict[str, float]:
        return {}

    def restart(self) -> None:
        self.restarts += 1
        self.asked = False


@dataclass
class Bench:
    decider: Decider
    solver: FakeSolver
    controller: Controller
    queues: Queues
    active: list[Active]

    def start(self, jobs: dict[str, JobPlan] | None = None) -> None:
        self.decider.ask_first([ONE, TWO])
        self.solver.says = [answer(LEVELS if jobs is None else jobs), Forecast({"one": 0.2})]
        self.decider.await_first(lambda: True)
        self.decider.release(0, self.active)


def answer(jobs: dict[str, JobPlan]) -> Answer:
    return Answer(Plan("mine", jobs, {"score": 1}), 0.01, 0.005, False)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    solver, controller, queues = FakeSolver(), Controller(), Queues()
    decider = Decider(
        fabric=FABRIC,
        background=(),
        policy="mine",
        options={"epoch": "2s"},
        seed=0,
        epoch_s=2.0,
        solver=solver,
        observer=Observer(FABRIC, [ONE, TWO], tmp_path),
        enforcer=Enforcer(FABRIC, (ONE, TWO), (), 0, controller, queues),
        gates=GateKeeper(2.0),
    )
    active = [Active(job, JobPage.create(tmp_path / job.name, 2)) for job in (ONE, TWO)]
    return Bench(decider, solver, controller, queues, active)


def test_the_first_plan_is_in_force_before_anything_runs(bench: Bench) -> None:
    bench.start()
    (state,) = bench.controller.states
    assert [(job.name, job.level) for job in state.jobs] == [("one", 1), ("two", 2)]
    assert bench.queues.set_to == [{"r0h0": {0: Lane(1), 1: Lane(2)}, "r1h0": {0: Lane(1)}, "r1h1": {1: Lane(2)}}]
    (decision,) = bench.decider.decisions
    assert (decision.why, decision.predicted, decision.plan["facts"]) == ("start", {"one": 0.2}, {"score": 1})
    assert decision.known["jobs"]["two"]["compute_s"] == 0.1


@pytest.mark.parametrize("said", [Refused("it makes none"), WorkerLost("solver was killed; it makes none")])
def test_without_a_first_plan_there_is_no_run(bench: Bench, said: Any) -> None:
    bench.decider.ask_first([ONE, TWO])
    bench.solver.says = [said]
    with pytest.raises(RunFailed, match=r"policy mine.*it makes none"):
        bench.decider.await_first(lambda: True)


def test_it_asks_at_each_epoch_and_when_something_came_or_went_and_one_question_at_a_time(bench: Bench) -> None:
    bench.start()
    for now in (0.5, 1.9, 2.0, 2.1, 4.1):
        bench.decider.tick(now, bench.active)
    assert [snapshot.time_s for snapshot, _ in bench.solver.questions] == [0.0, 2.0]
    bench.solver.says = [answer(LEVELS)]
    bench.decider.tick(4.2, bench.active)
    assert bench.solver.questions[-1][0].time_s == 4.2
    bench.solver.says = [answer(LEVELS)]
    bench.decider.want("a job has ended")
    bench.decider.tick(4.5, bench.active[:1])
    assert [state.job.name for state in bench.solver.questions[-1][0].jobs] == ["one"]
    assert bench.solver.questions[-1][1] == LATER_S
    bench.solver.says = [answer(LEVELS)]
    bench.decider.tick(4.6, bench.active[:1])
    assert [decision.why for decision in bench.decider.decisions] == ["start", "epoch", "epoch", "a job has ended"]


def test_the_same_plan_again_changes_nothing_and_a_rate_only_the_hosts(bench: Bench) -> None:
    bench.start()
    for now, jobs in ((2.0, LEVELS), (4.0, {**LEVELS, "two": JobPlan(level=2, rate_bps=10**6)})):
        bench.decider.tick(now, bench.active)
        bench.solver.says = [answer(jobs)]
        bench.decider.tick(now + 0.1, bench.active)
    assert len(bench.controller.states) == 1
    assert bench.queues.set_to[-2] == bench.queues.set_to[0]
    assert bench.queues.set_to[-1]["r1h1"] == {1: Lane(2, 10**6)}


def test_a_job_that_ended_keeps_its_rules_and_one_to_come_has_the_default_level(bench: Bench) -> None:
    bench.start({"one": JobPlan(level=1)})
    assert [job.level for job in bench.controller.states[-1].jobs] == [1, DEFAULT_LEVEL]
    bench.decider.want("a job has ended")
    bench.decider.tick(1.0, bench.active[1:])
    bench.solver.says = [answer({"two": JobPlan(level=2)})]
    bench.decider.tick(1.1, bench.active[1:])
    assert [job.level for job in bench.controller.states[-1].jobs] == [1, 2]


def test_paths_leave_a_link_at_once_and_a_plan_follows(bench: Bench) -> None:
    bench.start()
    bench.decider.links_changed(frozenset({"leaf0>spine0"}), "leaf0-spine0 down")
    assert bench.controller.states[-1].links_down == {"leaf0>spine0"}
    bench.decider.tick(1.0, bench.active)
    assert bench.solver.questions[-1][0].links_down == {"leaf0>spine0"}


def test_start_times_gate_the_iterations_that_had_not_begun_at_the_snapshot(bench: Bench) -> None:
    bench.start()
    page, timer = bench.active[0].page, Timer()
    for iteration in range(3):
        page.wait_at_gate(timer, 0, iteration)
    bench.decider.tick(2.0, bench.active)
    page.wait_at_gate(timer, 0, 3)
    # The plan's times are for iterations 3 and 4, of which 3 has begun meanwhile; all are long past but the last.
    bench.solver.says = [answer({"one": JobPlan(starts_s=(2.2, 1e12))})]
    bench.decider.tick(2.3, bench.active)
    assert page.wait_at_gate(timer, 1, 3) < 5_000_000
    assert bench.decider.gates.held_until_ns("one") == NEVER_NS
    assert bench.decider.gates.held_until_ns("two") == 0


def test_a_job_that_drifted_off_its_gates_is_planned_for_anew(bench: Bench) -> None:
    bench.start({"one": JobPlan(level=1)})
    zero_ns = time.monotonic_ns()
    page = bench.active[0].page
    bench.decider.gates.plan("one", page, 0, (0.01,), zero_ns)
    time.sleep(0.05)
    page.wait_at_gate(Timer(), 0, 0)
    # 40 ms late, where an iteration computes for 100 ms.
    bench.decider.tick(1.5, bench.active)
    assert bench.solver.questions[-1][0].time_s == 1.5
    bench.solver.says = [answer(LEVELS)]
    bench.decider.tick(1.6, bench.active)
    assert bench.decider.decisions[-1].why == "drift of one"


def test_jobs_that_were_measured_are_planned_for_anew_once(bench: Bench, tmp_path: Path) -> None:
    decider = bench.decider
    decider.epoch_s = decider._next_epoch_s = None
    bench.start()
    writers = {name: [SpanWriter(spans_path(tmp_path, name, rank), rank) for rank in (0, 1)] for name in ("one", "two")}

    def iterate(name: str, numbers: range) -> None:
        for number in numbers:
            for writer in writers[name]:
                writer.add(number, 0.1 * number, 0.05, 0.0, 0.1 * (number + 1))

    iterate("one", range(20))
    iterate("two", range(4))
    decider.tick(2.1, bench.active)
    assert not decider.solver.asked, "job two has too few iterations"
    iterate("two", range(4, 20))
    decider.tick(2.2, bench.active)
    assert not decider.solver.asked, "nobody looks so often"
    decider.tick(2.7, bench.active)
    bench.solver.says = [answer(LEVELS)]
    decider.tick(2.8, bench.active)
    assert decider.decisions[-1].why == "jobs were measured"
    decider.tick(9.0, bench.active)
    assert not decider.solver.asked
    for number in range(20, 30):
        for writer in writers["two"]:
            writer.add(number, 0.1 * number, 0.07, 0.0, 0.1 * (number + 1))
    decider.tick(9.6, bench.active)
    bench.solver.says = [answer(LEVELS)]
    decider.tick(9.7, bench.active)
    assert decider.decisions[-1].why == "two is not as it was"


def test_a_lost_solver_is_counted_and_replaced_but_not_for_ever(bench: Bench) -> None:
    bench.start()
    for turn in range(MOST_LOSSES + 3):
        bench.decider.want("a job has come")
        bench.solver.says = [WorkerLost("solver did not answer in time")] if turn <= MOST_LOSSES else []
        bench.decider.tick(1.0 + turn, bench.active)
    assert bench.solver.restarts == MOST_LOSSES
    assert bench.decider.fallbacks == MOST_LOSSES + 1
    assert "lost at 1.0 s (solver did not answer in time)" in bench.decider.faults[0]
    assert bench.decider.enforcer.in_force["one"].level == 1


def test_a_policy_that_refuses_later_leaves_the_plan_before(bench: Bench) -> None:
    bench.start()
    bench.decider.tick(2.0, bench.active)
    bench.solver.says = [Refused("no way")]
    bench.decider.tick(2.1, bench.active)
    assert bench.decider.fallbacks == 1
    assert bench.decider.faults == ["policy mine made no plan at 2.0 s: no way"]
    assert bench.decider.enforcer.in_force["one"].level == 1


def test_a_plan_that_met_no_controller_is_installed_when_there_is_one(bench: Bench) -> None:
    bench.start()
    bench.decider.tick(2.0, bench.active)
    bench.controller.gone = True
    bench.solver.says = [answer({"one": JobPlan(level=6)})]
    bench.decider.tick(2.1, bench.active)
    assert bench.decider.controller_lost
    bench.controller.gone = False
    bench.decider.reinstall()
    assert not bench.decider.controller_lost
    assert bench.controller.states[-1].jobs[0].level == 6
    bench.decider.reinstall()
    assert bench.controller.states[-1] == bench.controller.states[-2]


def test_what_was_measured_under_a_plan_is_filled_in_when_the_next_one_comes(bench: Bench, tmp_path: Path) -> None:
    bench.start()
    writers = [SpanWriter(spans_path(tmp_path, "one", rank), rank) for rank in (0, 1)]
    for iteration in range(8):
        for writer in writers:
            writer.add(iteration, 0.25 * iteration + 0.01, 0.1, 0.0, 0.25 * (iteration + 1) + 0.01)
    bench.decider.tick(2.1, bench.active)
    bench.solver.says = [answer(LEVELS)]
    bench.decider.tick(2.2, bench.active)
    assert bench.decider.decisions[0].measured == pytest.approx({"one": 0.25})
    assert bench.decider.decisions[1].known["jobs"]["one"]["communication_s"] == pytest.approx(0.15)
    assert bench.decider.finish(9.0)[1].measured == {}


def test_a_guarded_policy_gives_way_to_fair_sharing_and_is_tried_again(bench: Bench, tmp_path: Path) -> None:
    decider = bench.decider
    decider.guard = Guard(2.0, decider.observer.histories)
    bench.start({"one": JobPlan(level=1, starts_s=(1e6,)), "two": JobPlan(level=2)})
    writers = {name: [SpanWriter(spans_path(tmp_path, name, rank), rank) for rank in (0, 1)] for name in ("one", "two")}

    def turn(number: int) -> None:
        """A quarter of a second, in which each job has one iteration of as much."""
        for rank in (writer for own in writers.values() for writer in own):
            rank.add(number, 0.25 * number, 0.1, 0.0, 0.25 * (number + 1))
        if decider.solver.asked:
            bench.solver.says = [answer(LEVELS)]
        elif len(bench.solver.foreseen) > heard[0]:
            heard[0] += 1
            bench.solver.says = [Forecast({}, {"one": 0.15, "two": 0.15}, {"one": 0.1, "two": 0.1})]
        decider.tick(0.25 * (number + 1), bench.active)

    heard = [0]
    for number in range(26):
        turn(number)
    assert bench.solver.foreseen[0][1].of("two") == JobPlan(level=2)
    fair = decider.decisions[-1]
    assert (fair.policy, fair.fallback) == ("fair", True)
    assert "2 epochs in a row were worse than expected of fair sharing" in fair.why
    assert [job.level for job in bench.controller.states[-1].jobs] == [DEFAULT_LEVEL] * 2
    assert decider.gates.held_until_ns("one") == 0
    assert f"policy mine gave way to fair sharing at {fair.time_s:.1f} s" in decider.faults[0]
    questions = len(bench.solver.questions)
    for number in range(26, 60):
        turn(number)
    assert len(bench.solver.questions) == questions, "no epoch asks for a plan while fair sharing is in force"
    decider.want("a job has come")
    for number in range(60, 63):
        turn(number)
    assert (decider.decisions[-1].policy, decider.decisions[-1].why) == ("mine", "a job has come")


def test_what_is_expected_of_fair_sharing_goes_on_record(bench: Bench) -> None:
    bench.decider.ask_first([ONE, TWO])
    bench.solver.says = [answer(LEVELS), Forecast({"one": 0.2}, {"one": 0.3}, {"one": 0.1})]
    bench.decider.await_first(lambda: True)
    assert bench.decider.decisions[0].predicted_fair == {"one": 0.3}
