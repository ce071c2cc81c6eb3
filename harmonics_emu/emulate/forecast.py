"""What the fluid model expects of a plan: the running jobs played on from a snapshot, for as long as the plan may hold.

Set beside what is measured later, it says how far the model, and with it every policy that plans by it, can be trusted.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.scenario.estimate import estimate_alone
from harmonics_emu.schedulers.exact.outlook import begun
from harmonics_emu.schedulers.interface import FunctionPolicy, HostPair, JobPlan, JobState, Plan, Snapshot
from harmonics_emu.simulate.engine import Options, simulate
from harmonics_emu.simulate.routing import Router
from topologies.fabric import Path
from workloads.job import Job, LinkEvent

HORIZON_S = 10.0
"""How far a plan is looked ahead that holds until a job or a link comes or goes."""
MOST_ITERATIONS = 4_000
"""Of all jobs together: a tenth of a second on one core. With many jobs the look ahead is shorter."""


def forecast(snapshot: Snapshot, plan: Plan, epoch_s: float | None) -> dict[str, float]:
    """Mean seconds of an iteration of each job in the next `epoch_s`, by job name.

    Jobs that the model knows nothing of (commands), and those that stall under the plan, are left out.
    """
    known = [state for state in snapshot.jobs if state.transfers or state.compute_s > 0]
    if not known:
        return {}
    horizon_s = HORIZON_S if epoch_s is None else epoch_s
    origin_s = min(state.next_start_s for state in known)
    share = MOST_ITERATIONS // len(known)
    jobs = [_rest(state, origin_s, horizon_s, share) for state in known]
    router = Router(snapshot.fabric, snapshot.seed)
    router.down = snapshot.links_down
    plans = {state.job.name: _from(plan.of(state.job.name), state, origin_s, router) for state in known}
    lasting = FunctionPolicy("forecast", "one plan throughout", lambda later: _at(later, plans))
    down = [LinkEvent(0.0, link, "down") for link in sorted(snapshot.links_down)]
    records = simulate(snapshot.fabric, jobs, lasting, snapshot.seed, snapshot.background, down, Options(sample_s=None))
    found = {}
    for job in jobs:
        mean_s = _mean_iteration_s(records.iterations[job.name], horizon_s)
        if mean_s is not None:
            found[job.name] = mean_s
    return found


def alone_s(snapshot: Snapshot) -> dict[str, float]:
    """Seconds of an iteration of each job with the fabric to itself, by job name; commands are left out."""
    return {
        state.job.name: estimate_alone(snapshot.fabric, _with_pauses(state)).iteration_s
        for state in snapshot.jobs
        if not state.job.command
    }


def _with_pauses(state: JobState) -> Job:
    """The job as measured; what its links are free for while it sends counts as compute."""
    return replace(state.job, compute_s=state.compute_s + state.pause_s)


def _rest(state: JobState, origin_s: float, horizon_s: float, share: int) -> Job:
    """The job as it goes on: the iterations of the horizon, with what was measured of it."""
    shortest_s = max(state.compute_s, 1e-3)
    iterations = min(max(1, math.ceil(horizon_s / shortest_s)), share)
    return replace(
        _with_pauses(state),
        iterations=iterations,
        warmup=0,
        start_s=state.next_start_s - origin_s,
    )


def _from(plan: JobPlan, state: JobState, origin_s: float, router: Router) -> JobPlan:
    """The plan with times from `origin_s` on, and the hashed paths of the whole job named."""
    hashed: dict[HostPair, Path] = {pair: router.path(state.job.name, *pair) for pair in state.transfers}
    return replace(
        plan,
        starts_s=tuple(start - origin_s for start in plan.starts_s),
        paths={**hashed, **plan.paths},
    )


def _at(later: Snapshot, plans: dict[str, JobPlan]) -> Plan:
    """The same plan at a later decision of the engine: start times of iterations that have begun are used up."""
    return Plan(
        "forecast",
        {
            state.job.name: replace(own, starts_s=own.starts_s[begun(state, later.time_s) :])
            for state in later.jobs
            if (own := plans.get(state.job.name)) is not None
        },
    )


def _mean_iteration_s(rows: NDArray[Any], horizon_s: float) -> float | None:
    within = rows[rows["start_s"] < horizon_s]
    if not len(within):
        return None
    mean = float(np.mean(within["end_s"] - within["start_s"]))
    return mean if math.isfinite(mean) else None
