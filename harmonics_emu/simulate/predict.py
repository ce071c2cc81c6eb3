"""What the fluid model says of jobs, in a few figures: alone, and beside others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from numpy.typing import NDArray

from harmonics_emu.errors import RunFailed
from harmonics_emu.schedulers.fair import policy as fair
from harmonics_emu.schedulers.interface import FunctionPolicy, HostPair, JobPlan, Plan, Policy
from harmonics_emu.simulate.engine import Options, simulate
from harmonics_emu.simulate.entities import job_flows
from harmonics_emu.simulate.routing import least_loaded_paths
from topologies.fabric import Fabric
from workloads.job import Background, Job, LinkEvent


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
    """As `isolated`, with the training time of all the job's iterations beside it."""
    # Without jitter all iterations of a job alone are the same, so that one tells all.
    iterations = job.iterations if job.compute_cv > 0 else 1
    only = replace(job, start_s=0.0, iterations=iterations, warmup=min(job.warmup, iterations - 1))
    best = FunctionPolicy("best-path", "least loaded paths", lambda _: Plan("best-path", {job.name: plan}))
    plan = JobPlan(paths=_best_paths(fabric, job))
    records = simulate(fabric, [only], best, seed, options=Options(sample_s=None))
    means = _means(records.iterations[job.name], only.warmup)
    return means, records.outcomes[job.name].end_s * job.iterations / iterations


def predict(
    fabric: Fabric,
    jobs: Sequence[Job],
    policy: Policy = fair,
    seed: int = 0,
    background: Sequence[Background] = (),
    events: Sequence[LinkEvent] = (),
    options: Options | None = None,
) -> Mapping[str, Means]:
    """Means of each job beside the others: the arguments are those of `simulate`. RunFailed if a job stalls."""
    records = simulate(fabric, jobs, policy, seed, background, events, options or Options(sample_s=None))
    for outcome in records.outcomes.values():
        if outcome.error is not None:
            raise RunFailed(f"job {outcome.name} {outcome.error}")
    return {job.name: _means(records.iterations[job.name], job.warmup) for job in jobs}


def _best_paths(fabric: Fabric, job: Job) -> dict[HostPair, tuple[str, ...]]:
    demands: defaultdict[HostPair, float] = defaultdict(float)
    for flow in job_flows(job, fabric):
        demands[flow.src, flow.dst] += flow.share
    return least_loaded_paths(fabric, ((src, dst, share) for (src, dst), share in demands.items()))


def _means(rows: NDArray[Any], warmup: int) -> Means:
    measured = rows[warmup:] if len(rows) > warmup else rows
    iteration = float((measured["end_s"] - measured["start_s"]).mean())
    return Means(iteration, iteration - float(measured["compute_s"].mean()))
