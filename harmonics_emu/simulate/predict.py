"""What the fluid model says of jobs, in a few figures: alone, and beside others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from numpy.typing import NDArray

from harmonics_emu.errors import RunFailed
from harmonics_emu.scenario.estimate import best_paths, estimate_alone
from harmonics_emu.schedulers.fair import policy as fair
from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan, Policy
from harmonics_emu.simulate.engine import Options, simulate
from harmonics_emu.simulate.state import check_inputs
from topologies.fabric import Fabric
from workloads.job import Background, Event, Job


class Means(NamedTuple):
    """Of one job over its iterations without warm-up: seconds of an iteration, and of it without its compute."""

    iteration_s: float
    communication_s: float


def isolated(fabric: Fabric, job: Job, seed: int = 0) -> Means:
    """A job alone on the fabric: best path, no events, the compute jitter of `seed`.

    UsageError if the job can't be simulated.
    """
    return alone(fabric, job, seed)[0]


def alone(fabric: Fabric, job: Job, seed: int = 0) -> tuple[Means, float]:
    """As `isolated`, with the training time of all the job's iterations beside it.

    Without jitter all iterations of a job alone are the same, and known in closed form.
    """
    check_inputs(fabric, [job], (), ())
    if job.compute_cv == 0:
        iteration_s = estimate_alone(fabric, job).iteration_s
        return Means(iteration_s, iteration_s - job.compute_s), iteration_s * job.iterations
    return simulate_alone(fabric, job, seed)


def simulate_alone(fabric: Fabric, job: Job, seed: int = 0) -> tuple[Means, float]:
    """As `alone`, by a run of the engine over all iterations."""
    only = replace(job, start_s=0.0)
    plan = JobPlan(paths=best_paths(fabric, job))
    best = FunctionPolicy("best-path", "least loaded paths", lambda _: Plan("best-path", {job.name: plan}))
    records = simulate(fabric, [only], best, seed, options=Options(sample_s=None))
    return _means(records.iterations[job.name], only.warmup), records.outcomes[job.name].end_s


def predict(
    fabric: Fabric,
    jobs: Sequence[Job],
    policy: Policy = fair,
    seed: int = 0,
    background: Sequence[Background] = (),
    events: Sequence[Event] = (),
    options: Options | None = None,
) -> Mapping[str, Means]:
    """Means of each job beside the others: the arguments are those of `simulate`. RunFailed if a job stalls."""
    records = simulate(fabric, jobs, policy, seed, background, events, options or Options(sample_s=None))
    for outcome in records.outcomes.values():
        if outcome.error is not None:
            raise RunFailed(f"job {outcome.name} {outcome.error}")
    return {job.name: _means(records.iterations[job.name], job.warmup) for job in jobs}


def _means(rows: NDArray[Any], warmup: int) -> Means:
    measured = rows[warmup:] if len(rows) > warmup else rows
    iteration = float((measured["end_s"] - measured["start_s"]).mean())
    return Means(iteration, iteration - float(measured["compute_s"].mean()))
