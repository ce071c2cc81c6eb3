"""What is left to do at a snapshot, and what a plan would make of it: the fluid engine run on from there.

Jobs have mean compute times, since draws to come are nobody's to know. A collective under way ends when the snapshot
expects it to; the run begins with the iteration after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harmonics_emu.schedulers.exact.demands import Bottlenecks, Demand
from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, JobState, Plan, Snapshot
from harmonics_emu.schedulers.job_rhythm import iteration_compute_s
from harmonics_emu.simulate.engine import Options, simulate
from harmonics_emu.simulate.predict import alone
from harmonics_emu.simulate.routing import capacities
from workloads.job import Job, LinkEvent

JobPlans = Mapping[str, JobPlan]


@dataclass(frozen=True)
class Rest:
    """What a job has left: `job` has the iterations to come, and starts, after `Outlook.origin_s`, with the first.

    weight: of the job's end in the objective. spent_s: from its submission to the first iteration to come.
    """

    job: Job
    weight: float
    spent_s: float


@dataclass(frozen=True)
class Outlook:
    """All jobs that have iterations to come. origin_s: the absolute time at which the first of them begins."""

    snapshot: Snapshot
    origin_s: float
    rests: tuple[Rest, ...]

    @property
    def spent(self) -> float:
        """What the time so far adds to the objective."""
        return sum(rest.weight * rest.spent_s for rest in self.rests)

    def demands(self) -> list[Demand]:
        """What no plan spares the jobs; a collective under way is taken to be over now."""
        fabric, now = self.snapshot.fabric, self.snapshot.time_s - self.origin_s
        bottlenecks = Bottlenecks(fabric, capacities(fabric))
        jobs = [replace(rest.job, start_s=max(0.0, min(rest.job.start_s, now))) for rest in self.rests]
        return [
            bottlenecks.demand(job, self.snapshot.seed, rest.weight) for job, rest in zip(jobs, self.rests, strict=True)
        ]

    def objective(self, plans: JobPlans) -> float:
        """S of these jobs over their whole runs if plans stay as they are; infinity if a job would stall."""
        relative = {
            name: replace(plan, starts_s=tuple(start - self.origin_s for start in plan.starts_s))
            for name, plan in plans.items()
        }
        down = [LinkEvent(0.0, link, "down") for link in sorted(self.snapshot.links_down)]
        records = simulate(
            self.snapshot.fabric,
            [rest.job for rest in self.rests],
            FunctionPolicy("outlook", "the same plans to the end", lambda later: _plan_on(later, relative)),
            self.snapshot.seed,
            self.snapshot.background,
            down,
            Options(sample_s=None),
        )
        total = 0.0
        for rest in self.rests:
            outcome = records.outcomes[rest.job.name]
            if outcome.status != "done":
                return math.inf
            total += rest.weight * (rest.spent_s + outcome.end_s - rest.job.start_s)
        return total


def look_ahead(snapshot: Snapshot) -> Outlook | None:
    """None if no job has an iteration to come that has not begun to send."""
    shares = [state.job.ranks * state.job.weight for state in snapshot.jobs]
    lefts = [state.job.iterations - begun(state, snapshot.time_s) for state in snapshot.jobs]
    starts = [state.next_start_s for state, left in zip(snapshot.jobs, lefts, strict=True) if left > 0]
    if not starts:
        return None
    origin_s = min(starts)
    rests = []
    for state, share, left in zip(snapshot.jobs, shares, lefts, strict=True):
        if left <= 0:
            continue
        whole = replace(state.job, compute_s=iteration_compute_s(state), compute_cv=0.0)
        training_s = alone(snapshot.fabric, whole, snapshot.seed)[1]
        rests.append(
            Rest(
                job=replace(whole, iterations=left, warmup=0, start_s=state.next_start_s - origin_s),
                weight=share / sum(shares) / training_s if training_s > 0 else 0.0,
                spent_s=state.next_start_s - state.job.start_s,
            )
        )
    return Outlook(snapshot, origin_s, tuple(rests))


def begun(state: JobState, now: float) -> int:
    """Iterations whose collective has begun."""
    under_way = state.next_start_s > now and state.next_start_s > state.job.start_s
    return state.iterations_done + (1 if under_way else 0)


def _plan_on(snapshot: Snapshot, plans: JobPlans) -> Plan:
    """The same plans at a later decision: start times of collectives that have begun are used up."""
    return Plan(
        "outlook",
        {
            state.job.name: replace(own, starts_s=own.starts_s[begun(state, snapshot.time_s) :])
            for state in snapshot.jobs
            if (own := plans.get(state.job.name)) is not None
        },
    )
