"""Has the policy decide whenever it is time, without waiting for it, and keeps the record of what came of it.

A plan is made at time zero, at each `epoch` of the policy's options, when a job or a link comes or goes, when jobs have
been measured or are not as they were, and when a job has drifted off its gates. It is asked for in one tick of the
supervisor and put into force in a later one. Until then, and if the solver dies or stays silent, the plan before goes
on; paths leave links that are down at once, without it. A guard (see `guard`) may have fair sharing take its place for
a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harmonics_emu.emulate.enforcement import Enforcer
from harmonics_emu.emulate.gates import GateKeeper
from harmonics_emu.emulate.guard import Guard
from harmonics_emu.emulate.observer import LATEST, Observer, Position, position
from harmonics_emu.emulate.solving import Answer, Forecast, Heard, Planner, Refused
from harmonics_emu.emulate.wire import WireError
from harmonics_emu.emulate.worker import WorkerLost
from harmonics_emu.errors import RunFailed
from harmonics_emu.records import Decision
from harmonics_emu.results.decisions import known_values
from harmonics_emu.schedulers.interface import JobPlan, JobState, Plan, Snapshot
from harmonics_emu.simulate.decisions import plan_values
from harmonics_emu.simulate.routing import Router
from topologies.fabric import Fabric
from workloads.job import Background, Job
from workloads.job_page import JobPage

FIRST_S = 600.0
"""How long the first plan may take: no job runs before it is there."""
LATER_S = 60.0
"""How long any other may take before the solver is ended and another one asked."""
DRIFT = 0.05
"""Of its iteration: how late after its gate a job may begin to send, and how much its own compute time and the time of
its bytes may change, before a new plan is asked for."""
DRIFT_PAUSE_S = 1.0
DRIFT_PAUSE_SOLVES = 10
"""Between plans that drift asks for: at least so long, and so many times what the last plan took. Planning takes the
CPU's time from the traffic."""
RETRY_S = 0.5
"""From the loss of a solver to the next question: what else died may have to be mended first."""
MOST_LOSSES = 5
"""Solvers lost in a row, after which none is started any more and jobs go on with the plan they have."""
TICK_S = 0.2
LOOK_S = 0.5
"""How often, at most, jobs are looked at for what has changed since the last plan."""
FAIR = "fair"
"""The policy of the plan that a guard puts in another one's place: it says nothing."""
RETRY = "the policy is tried again"


@dataclass(frozen=True)
class Active:
    """A job that is there: submitted, and not ended."""

    job: Job
    page: JobPage


@dataclass
class Decider:
    """One run's decision maker. `tick` is called every few hundredths of a second by the thread that conducts the run.

    faults: what broke and how it was met, for the verdict. fallbacks: decisions that had no plan to come of them.
    """

    fabric: Fabric
    background: Sequence[Background]
    policy: str
    options: Mapping[str, Any]
    seed: int
    epoch_s: float | None
    solver: Planner
    observer: Observer
    enforcer: Enforcer
    gates: GateKeeper
    guard: Guard | None = None

    def __post_init__(self) -> None:
        self.decisions: list[Decision] = []
        self.faults: list[str] = []
        self.fallbacks = 0
        self.controller_lost = False
        self._router = Router(self.fabric, self.seed)
        self._wanted: str | None = None
        self._asked_for = ""
        self._asked_s = 0.0
        self._first: dict[str, int] = {}
        self._next_epoch_s = self.epoch_s
        self._losses = 0
        self._not_before = 0.0
        self._zero_ns = 0
        self._starts: Plan | None = None
        self._next_look_s = 0.0
        self._known: dict[str, JobState] = {}

    def ask_first(self, jobs: Sequence[Job]) -> None:
        """Ask for the plan of these jobs at time zero; `await_first` takes it."""
        states = tuple(self.observer.state(job, None, 0.0, self._router, {}) for job in jobs)
        self._asked_for = "start"
        self.solver.ask(self._snapshot(0.0, states), FIRST_S)

    def await_first(self, keep_alive: Callable[[], bool]) -> None:
        """Wait for the first plan and its forecast, and put it into force; its gates follow with `release`.

        keep_alive is called now and then, and says whether to wait on. RunFailed if there is no plan.
        """
        heard: list[Heard] = []
        deadline = time.monotonic() + FIRST_S
        while len(heard) < 2:
            try:
                reply = self.solver.poll(TICK_S)
            except WorkerLost as error:
                raise RunFailed(f"policy {self.policy} made no first plan: {error}") from None
            if reply is not None:
                if isinstance(reply.reply, Refused):
                    raise RunFailed(f"policy {self.policy}, plan at 0 s: {reply.reply.cause}")
                heard.append(reply)
            elif not keep_alive():
                return
            if time.monotonic() > deadline:
                raise RunFailed(f"policy {self.policy} made no first plan within {FIRST_S:g} s")
        for each in heard:
            self._take(each.snapshot, each.reply, {})

    def release(self, zero_ns: int, active: Sequence[Active]) -> None:
        """Time zero is known: gates can be set."""
        self._zero_ns = zero_ns
        self._set_gates({each.job.name: each.page for each in active})

    def want(self, why: str) -> None:
        """Have a plan made as soon as the solver is free: a job or a link has come or gone."""
        if self.guard is not None:
            self.guard.changed()
        self._wanted = why

    def links_changed(self, down: frozenset[str], why: str) -> None:
        """Bring paths away from (or back to) links at once, and have a plan made."""
        self.enforcer.links_down = self._router.down = down
        self._enforce(Plan(self.policy))
        self.want(why)

    def reinstall(self) -> None:
        """After a switch daemon or the controller was started again."""
        self.controller_lost = False
        self.enforcer.reinstall()

    def tick(self, now: float, active: Sequence[Active]) -> None:
        """Take what the solver has said, ask it if it is time, and keep the gates."""
        self.gates.keep()
        try:
            while (heard := self.solver.poll()) is not None:
                self._losses = 0
                self._take(heard.snapshot, heard.reply, {each.job.name: each.page for each in active}, now)
            self.faults += self.solver.take_faults()
            if now >= self._not_before and self.guard is not None:
                self._be_on_guard(self.guard, now, active)
            if now >= self._not_before:
                self._ask_if_due(now, active)
        except WorkerLost as error:
            self._lose(now, str(error))

    def finish(self, now: float) -> list[Decision]:
        """All decisions, the last one's measurements filled in."""
        self.observer.read()
        self._measure(now)
        return self.decisions

    def _ask_if_due(self, now: float, active: Sequence[Active]) -> None:
        if self._next_epoch_s is not None and self.epoch_s is not None and now >= self._next_epoch_s:
            self._next_epoch_s += self.epoch_s * (1 + (now - self._next_epoch_s) // self.epoch_s)
            self._wanted = self._wanted or "epoch"
        pause_s = max(DRIFT_PAUSE_S, DRIFT_PAUSE_SOLVES * self.decisions[-1].solve_s) if self.decisions else 0.0
        if self._wanted is None and now - self._asked_s > pause_s and (late := self._drifted(active)):
            self._wanted = f"drift of {late}"
        if self._wanted is None and now - self._asked_s > pause_s:
            self._wanted = self._learnt(now, active)
        if self.guard is not None and self.guard.held:
            self._wanted = RETRY if self.guard.may_retry(now) else None
        if self._wanted is None or self.solver.asked or not active or self._losses > MOST_LOSSES:
            return
        places = self._places(active)
        self._first = {name: place.begun for name, place in places.items()}
        self._asked_for, self._wanted, self._asked_s = self._wanted, None, now
        if self.guard is not None:
            self.guard.held = False
        snapshot = self._look(now, active, places)
        self._known = {state.job.name: state for state in snapshot.jobs}
        self.solver.ask(snapshot, LATER_S)

    def _be_on_guard(self, guard: Guard, now: float, active: Sequence[Active]) -> None:
        """Have the guard judge, and get it what it compares with."""
        if self.solver.asked or not active:
            return
        if guard.is_due(now):
            self.observer.read()
            if (why := guard.judge(now)) is not None:
                self._go_back_to_fair(why, now, active)
        elif guard.wants_forecast(now):
            places = self._places(active)
            self.solver.foresee(self._look(now, active, places), self._rest_of_plan(places), LATER_S)

    def _rest_of_plan(self, places: Mapping[str, Position]) -> Plan:
        """What of the plan in force is still to come: start times of collectives that have begun are used up."""
        assert self._starts is not None
        jobs = {
            name: replace(plan, starts_s=plan.starts_s[max(0, places[name].begun - self._first.get(name, 0)) :])
            for name, plan in self._starts.jobs.items()
            if name in places
        }
        return replace(self._starts, jobs=jobs)

    def _go_back_to_fair(self, why: str, now: float, active: Sequence[Active]) -> None:
        self.faults.append(f"policy {self.policy} gave way to fair sharing at {now:.1f} s: {why}")
        self._asked_for = why
        fair = Answer(Plan(FAIR, {each.job.name: JobPlan() for each in active}), 0.0, 0.0, fallback=True)
        snapshot = self._look(now, active, self._places(active))
        self._put_in_force(snapshot, fair, {each.job.name: each.page for each in active}, now)

    def _places(self, active: Sequence[Active]) -> dict[str, Position]:
        self.observer.read()
        return {each.job.name: position(each.page, self._zero_ns) for each in active}

    def _look(self, now: float, active: Sequence[Active], places: Mapping[str, Position]) -> Snapshot:
        return self._snapshot(now, tuple(self._state(each.job, places[each.job.name], now) for each in active))

    def _state(self, job: Job, place: Position, now: float) -> JobState:
        plan = self.enforcer.in_force.get(job.name)
        return self.observer.state(job, place, now, self._router, plan.paths if plan else {})

    def _learnt(self, now: float, active: Sequence[Active]) -> str | None:
        """What has become known of jobs since the last plan that calls for another one; looked at now and then."""
        if now < self._next_look_s:
            return None
        self._next_look_s = now + LOOK_S
        seen = {state.job.name: state for state in self._look(now, active, self._places(active)).jobs}
        if any(name not in self._known or self._known[name].communication_s is None for name in seen):
            measured = all(len(self.observer.histories[name].latest) == LATEST for name in seen)
            return "jobs were measured" if measured else None
        return next(
            (f"{name} is not as it was" for name, state in seen.items() if _differ(self._known[name], state)), None
        )

    def _drifted(self, active: Sequence[Active]) -> str | None:
        """A job whose last collective began far behind its gate."""
        for each in active:
            if (late_s := self.gates.late_s(each.job.name)) > 0:
                latest = self.observer.histories[each.job.name].latest
                iteration_s = latest[-1].end_s - latest[-1].start_s if latest else each.job.compute_s
                if late_s > DRIFT * max(iteration_s, each.job.compute_s):
                    return each.job.name
        return None

    def _snapshot(self, now: float, states: tuple[JobState, ...]) -> Snapshot:
        return Snapshot(
            time_s=now,
            fabric=self.fabric,
            jobs=states,
            seed=self.seed,
            background=tuple(self.background),
            links_down=self.enforcer.links_down,
            options=self.options,
        )

    def _take(
        self, snapshot: Snapshot, reply: Answer | Forecast | Refused, pages: Mapping[str, JobPage], now: float = 0.0
    ) -> None:
        if isinstance(reply, Forecast):
            if self.decisions and self.decisions[-1].time_s == snapshot.time_s:
                last = replace(self.decisions[-1], predicted=reply.iteration_s, predicted_fair=reply.fair_s)
                self.decisions[-1] = last
            if self.guard is not None:
                self.guard.hear(snapshot, reply)
            return
        if isinstance(reply, Refused):
            self.fallbacks += 1
            self.faults.append(f"policy {self.policy} made no plan at {snapshot.time_s:.1f} s: {reply.cause}")
            return
        self._put_in_force(snapshot, reply, pages, now)
        if self.guard is not None:
            self.guard.plan_in_force(snapshot, reply.plan, now)

    def _put_in_force(self, snapshot: Snapshot, reply: Answer, pages: Mapping[str, JobPage], now: float) -> None:
        self.observer.read()
        self._measure(now)
        self._starts = Plan(
            reply.plan.policy, {state.job.name: reply.plan.of(state.job.name) for state in snapshot.jobs}
        )
        took_s = self._enforce(self._starts)
        self._set_gates(pages)
        self.decisions.append(
            Decision(
                time_s=snapshot.time_s,
                policy=reply.plan.policy,
                solve_s=reply.solve_s,
                critical_path_s=reply.critical_path_s,
                plan=plan_values(reply.plan),
                fallback=reply.fallback,
                in_force_s=now + took_s,
                why=self._asked_for,
                known=known_values(snapshot),
            )
        )

    def _enforce(self, plan: Plan) -> float:
        try:
            return self.enforcer.enforce(plan.jobs)
        except WireError:
            # Whether it died is seen, and mended, in the supervisor's next round; the plan is installed then.
            self.controller_lost = True
            return 0.0

    def _set_gates(self, pages: Mapping[str, JobPage]) -> None:
        if self._starts is None:
            return
        for name, plan in self._starts.jobs.items():
            if name in pages:
                self.gates.plan(name, pages[name], self._first.get(name, 0), plan.starts_s, self._zero_ns)

    def _measure(self, now: float) -> None:
        """Fill in what the last decision has led to, now that the next one takes its place."""
        if not self.decisions:
            return
        last = self.decisions[-1]
        since_s = last.time_s if last.in_force_s is None else last.in_force_s
        means = {
            name: self.observer.histories[name].mean_iteration_s(since_s, now) for name in last.known.get("jobs", {})
        }
        measured = {name: mean for name, mean in means.items() if mean is not None}
        self.decisions[-1] = replace(last, measured=measured)

    def _lose(self, now: float, cause: str) -> None:
        self._losses += 1
        self._not_before = now + RETRY_S
        self.fallbacks += 1
        self.faults.append(f"the solver was lost at {now:.1f} s ({cause}); jobs went on with the plan before")
        if self._losses <= MOST_LOSSES:
            self._wanted = self._wanted or "a lost solver"
            self.solver.restart()


def _differ(known: JobState, now: JobState) -> bool:
    """Whether a job's iteration alone has come to be another one by more than DRIFT of it."""
    communication_s = known.communication_s or 0.0
    before, after = sum(known.transfers.values()), sum(now.transfers.values())
    changed_s = abs(now.compute_s - known.compute_s)
    changed_s += communication_s * abs(after - before) / before if before > 0 else 0.0
    return changed_s > DRIFT * (known.compute_s + communication_s)
