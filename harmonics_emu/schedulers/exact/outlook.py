"""What is left to do at a snapshot, and what a plan would make of it: the fluid engine run on from there.

A collective under way ends when the snapshot expects it to; the run begins with the iteration after it. Where compute
times vary, nobody knows the draws to come: the engine runs with several others, the same ones for every plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from harmonics_emu.schedulers.exact.demands import Bottlenecks, Demand
from harmonics_emu.schedulers.interface import FunctionPolicy, HostPair, JobPlan, JobState, Plan, Policy, Snapshot
from harmonics_emu.schedulers.job_rhythm import iteration_compute_s
from harmonics_emu.simulate.engine import Options, simulate
from harmonics_emu.simulate.predict import alone
from harmonics_emu.simulate.routing import Router, capacities
from topologies.fabric import Path
from workloads.job import Job, LinkEvent

JobPlans = Mapping[str, JobPlan]
DRAWS = 3
"""Other draws than the run's own, which a policy must not know."""


@dataclass(frozen=True)
class Rest:
    """What a job has left: `job` has the iterations to come, and starts, after `Outlook.origin_s`, with the first.

    compute_s: of an iteration, on the average. weight: of the job's end in the objective. spent_s: from its submission
    to the first iteration to come. paths: those that its transfers take if a plan names none.
    """

    job: Job
    compute_s: float
    weight: float
    spent_s: float
    paths: Mapping[HostPair, Path]


@dataclass(frozen=True)
class Outlook:
    """All jobs that have iterations to come. origin_s: the absolute time at which the first of them begins.

    draws: seeds of the compute times that plans are judged by; one where no job's compute time varies. part: of the
    iterations that each job has left, what it does here; below 1 the objective is about so much of the runs.
    horizon_s: seconds from `origin_s` until all could be done if nobody waited for anybody.
    """

    snapshot: Snapshot
    origin_s: float
    rests: tuple[Rest, ...]
    draws: tuple[int, ...]
    part: float
    horizon_s: float

    @property
    def spent(self) -> float:
        """What the time so far adds to the objective."""
        return sum(rest.weight * rest.spent_s for rest in self.rests)

    def demands(self, draw: int) -> list[Demand]:
        """What no plan spares the jobs under one of the draws; a collective under way is taken to be over now."""
        fabric, now = self.snapshot.fabric, self.snapshot.time_s - self.origin_s
        bottlenecks = Bottlenecks(fabric, capacities(fabric))
        jobs = [replace(rest.job, start_s=max(0.0, min(rest.job.start_s, now))) for rest in self.rests]
        return [bottlenecks.demand(job, draw, rest.weight) for job, rest in zip(jobs, self.rests, strict=True)]

    def objective(self, plans: JobPlans) -> float:
        """S of these jobs over their whole runs if plans stay as they are: the mean over the draws.

        Infinity if a job would stall.
        """
        relative = {}
        for rest in self.rests:
            plan = plans.get(rest.job.name, JobPlan())
            starts_s = tuple(start - self.origin_s for start in plan.starts_s)
            relative[rest.job.name] = replace(plan, starts_s=starts_s, paths={**rest.paths, **plan.paths})
        policy = FunctionPolicy("outlook", "the same plans to the end", lambda later: _plan_on(later, relative))
        return fmean(self._run(policy, draw) for draw in self.draws)

    def _run(self, policy: Policy, draw: int) -> float:
        down = [LinkEvent(0.0, link, "down") for link in sorted(self.snapshot.links_down)]
        records = simulate(
            self.snapshot.fabric,
            [rest.job for rest in self.rests],
            policy,
            draw,
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


def look_ahead(snapshot: Snapshot, most_iterations: float = math.inf) -> Outlook | None:
    """None if no job has an iteration to come that has not begun to send.

    most_iterations: of all jobs together, in all draws; each job keeps one at least.
    """
    shares = [state.job.ranks * state.job.weight for state in snapshot.jobs]
    lefts = [state.job.iterations - begun(state, snapshot.time_s) for state in snapshot.jobs]
    starts = [state.next_start_s for state, left in zip(snapshot.jobs, lefts, strict=True) if left > 0]
    if not starts:
        return None
    origin_s = min(starts)
    varies = any(state.job.compute_cv > 0 for state in snapshot.jobs)
    draws = tuple(snapshot.seed + number for number in range(1, DRAWS + 1)) if varies else (snapshot.seed,)
    part = min(1.0, most_iterations / len(draws) / sum(lefts))
    router = Router(snapshot.fabric, snapshot.seed)
    router.down = snapshot.links_down
    rests, horizon_s = [], 0.0
    for state, share, left in zip(snapshot.jobs, shares, lefts, strict=True):
        if left <= 0:
            continue
        compute_s = iteration_compute_s(state)
        training_s = alone(snapshot.fabric, replace(state.job, compute_s=compute_s, compute_cv=0.0))[1]
        iterations = math.ceil(left * part)
        start_s = state.next_start_s - origin_s
        horizon_s = max(horizon_s, start_s + training_s * iterations / state.job.iterations)
        rests.append(
            Rest(
                job=replace(state.job, iterations=iterations, warmup=0, start_s=start_s),
                compute_s=compute_s,
                weight=share / sum(shares) / training_s * left / iterations if training_s > 0 else 0.0,
                spent_s=(state.next_start_s - state.job.start_s) * iterations / left,
                paths={pair: router.path(state.job.name, *pair) for pair in state.transfers},
            )
        )
    return Outlook(snapshot, origin_s, tuple(rests), draws, part, horizon_s)


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
