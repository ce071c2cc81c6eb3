"""Takes plans back that do worse than fair sharing would: the guard of policy harmonics, on what is measured.

The policy's own guard compares predictions. This one compares what jobs do under its plans with what the fluid model
expects of fair sharing, and of the plan, from the same known state: two epochs in a row that are worse than both, and
fair sharing is in force. A plan may be meant to be worse for a while (it lets one job finish first, and the others have
the links to themselves then), so it must also fail what it promised. The policy is tried again when a job or a link
comes or goes, since the jobs that it failed are no longer the same, and else after ten epochs, then twenty, then forty.

An epoch here is the policy's own, ten seconds where it has none, and longer until each job has some iterations in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from harmonics_emu.emulate.forecast import HORIZON_S
from harmonics_emu.emulate.observer import History, Iteration
from harmonics_emu.emulate.solving import Forecast
from harmonics_emu.schedulers.interface import JobPlan, Plan, Snapshot

MARGIN = 0.10
"""How much worse than expected, in mean slowdown, an epoch must be to count against the plan: predictions of jobs that
contend are held to a tenth."""
MOST_OVERHEAD = 0.15
"""What the emulator may add to a job, which no plan can help: by how much its quickest iteration of an epoch is longer
than the model says of it alone, but no more than would make a run count as degraded (see `fidelity`)."""
BAD_EPOCHS = 2
SHORTEST_EPOCH_S = 1.0
ITERATIONS = 5
"""Of each job that an epoch has at least: a single one that was disturbed says little."""
PATIENCE = 2.0
"""A job that has fewer after so many times what they are expected to take is judged by how far it has come."""
RETRY_EPOCHS = 10
LOOK_S = 0.25
"""How often it is looked whether an epoch is complete that should be."""
FORECAST_S = 1.0
"""How often a forecast is asked for that has not come."""
GUARDED = "harmonics"


def is_guarded(policy: str, options: Mapping[str, Any]) -> bool:
    """Whether a run's policy asks for the guard: harmonics does, unless its option `guard` is false.

    All others run as they are, or a comparison would show fair sharing under their names.
    """
    if policy != GUARDED:
        return False
    from harmonics_emu.schedulers.harmonics.settings import settings_of

    return settings_of(options).guard


@dataclass(frozen=True, slots=True)
class Expected:
    """Of one job, seconds of an iteration under fair sharing, under the plan and alone, and of compute in it.

    weight: in the mean over jobs.
    """

    fair_s: float
    planned_s: float
    alone_s: float
    compute_s: float
    weight: float


@dataclass(frozen=True, slots=True)
class Slowdowns:
    """Mean slowdown in one epoch: as measured, and as expected of fair sharing and of the plan."""

    measured: float
    fair: float
    planned: float


Expectation = Mapping[str, Expected]
"""By job."""
Mix = tuple[frozenset[str], frozenset[str]]
"""Jobs that are there, and links that are down."""


class Guard:
    """Judges one run's plans, epoch by epoch. All times are seconds from time zero.

    held: whether fair sharing is in force in the policy's place.
    """

    def __init__(self, epoch_s: float | None, histories: Mapping[str, History]) -> None:
        self._epoch_s = max(epoch_s or HORIZON_S, SHORTEST_EPOCH_S)
        self._histories = histories
        self.held = False
        self._retry_s = 0.0
        self._retries = 0
        self._mix: Mix | None = None
        # Of the epoch under way: since when, None if there is none; what it is compared with, None until that is known.
        self._since_s: float | None = None
        self._expectation: Expectation | None = None
        self._next: Expectation | None = None
        self._bad: list[Slowdowns] = []
        self._look_s = self._ask_s = 0.0

    def changed(self) -> None:
        """A job or a link has come or gone: nothing that was found before holds any more."""
        self.held = False
        self._retries = 0
        self._stop()

    def plan_in_force(self, snapshot: Snapshot, plan: Plan, now: float) -> None:
        """The policy's plan for a snapshot is in force. One that says nothing can't be worse than fair sharing."""
        self.held = False
        if all(own == JobPlan() for own in plan.jobs.values()):
            self._stop()
        elif self._since_s is None or self._mix != _mix(snapshot):
            self._stop()
            self._mix = _mix(snapshot)
            self._begin(now, None)
            self._ask_s = now + FORECAST_S

    def hear(self, snapshot: Snapshot, forecast: Forecast) -> None:
        """Take a forecast. It counts once all jobs have been measured: before, it rests on the scenario's figures."""
        states = [state for state in snapshot.jobs if not state.job.command]
        if self._since_s is None or self._mix != _mix(snapshot) or any(one.communication_s is None for one in states):
            return
        expected = {
            state.job.name: Expected(
                forecast.fair_s[state.job.name],
                forecast.iteration_s.get(state.job.name, forecast.fair_s[state.job.name]),
                forecast.alone_s[state.job.name],
                state.compute_s,
                state.job.weight * state.job.ranks,
            )
            for state in states
            if state.job.name in forecast.fair_s and forecast.alone_s.get(state.job.name)
        }
        if not expected:
            return
        if self._expectation is None:
            self._begin(max(self._since_s, snapshot.time_s), expected)
        else:
            self._next = expected

    def wants_forecast(self, now: float) -> bool:
        """Whether an epoch waits for what to compare it with; True once a second at most."""
        if self._since_s is None or self._expectation is not None or now < self._ask_s:
            return False
        self._ask_s = now + FORECAST_S
        return True

    def is_due(self, now: float) -> bool:
        """Whether an epoch may be complete."""
        return self._expectation is not None and now >= self._look_s

    def judge(self, now: float) -> str | None:
        """Judge the epoch that is under way, if it is complete; why to go back to fair sharing, or None."""
        if self._since_s is None or self._expectation is None:
            return None
        self._look_s = now + LOOK_S
        slowdowns = self._slowdowns(self._expectation, self._since_s, now)
        if slowdowns is None:
            return None
        worse = slowdowns.measured > (1 + MARGIN) * max(slowdowns.fair, slowdowns.planned)
        self._bad = [*self._bad, slowdowns] if worse else []
        if len(self._bad) < BAD_EPOCHS:
            self._begin(now, self._next)
            return None
        said = " and ".join(f"{one.measured:.2f} (fair {one.fair:.2f}, plan {one.planned:.2f})" for one in self._bad)
        wait_s = self._epoch_s * RETRY_EPOCHS * 2**self._retries
        self._retries += 1
        self._retry_s = now + wait_s
        self._stop()
        self.held = True
        return (
            f"{BAD_EPOCHS} epochs in a row were worse than expected of fair sharing and of the plan, mean slowdown "
            f"{said}; the policy is tried again {wait_s:g} s later, or when a job or a link comes or goes"
        )

    def may_retry(self, now: float) -> bool:
        """Whether the policy, if fair sharing is in its place, has waited for long enough."""
        return now >= self._retry_s

    def _begin(self, since_s: float, expectation: Expectation | None) -> None:
        self._since_s, self._expectation, self._next = since_s, expectation, None
        self._look_s = since_s + self._epoch_s
        self._ask_s = since_s

    def _stop(self) -> None:
        """No epoch is under way, and none before counts."""
        self._since_s = self._expectation = self._next = self._mix = None
        self._bad = []

    def _slowdowns(self, expectation: Expectation, since_s: float, now: float) -> Slowdowns | None:
        """None while the epoch lacks iterations."""
        total = measured = fair = planned = 0.0
        for name, job in expectation.items():
            found = self._histories[name].between(since_s, now)
            fair_s, planned_s = _with_overhead(job, found)
            if len(found) >= ITERATIONS:
                measured_s = fmean(one.end_s - one.start_s for one in found)
            elif now - since_s > PATIENCE * ITERATIONS * max(fair_s, planned_s):
                measured_s = (now - since_s) / (len(found) + 1)
            else:
                return None
            total += job.weight
            measured += job.weight * measured_s / job.alone_s
            fair += job.weight * fair_s / job.alone_s
            planned += job.weight * planned_s / job.alone_s
        return Slowdowns(measured / total, fair / total, planned / total)


def _mix(snapshot: Snapshot) -> Mix:
    return frozenset(state.job.name for state in snapshot.jobs), snapshot.links_down


def _with_overhead(job: Expected, found: Sequence[Iteration]) -> tuple[float, float]:
    """What is expected of fair sharing and of the plan, given what neither of them can help."""
    if not found:
        return job.fair_s, job.planned_s
    # Who computes for longer than it did then would do so under fair sharing too.
    longer_s = max(0.0, fmean(one.compute_s for one in found) - job.compute_s)
    quickest_s = min(one.end_s - one.start_s for one in found)
    overhead = min(max(quickest_s / (job.alone_s + longer_s), 1.0), 1 + MOST_OVERHEAD)
    return overhead * (job.fair_s + longer_s), overhead * (job.planned_s + longer_s)
