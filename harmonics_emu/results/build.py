"""Records of one run to its Result.

Cluster figures, all since time zero:

- makespan_s: end of the last job's last iteration. training_s: mean of the jobs' training times. S: mean of the jobs'
  slowdowns, each weighted by its ranks times its tenant's weight. max_slowdown: of the worst job. These exist only if
  every job is done (slowdowns: and its isolated time known), since a mean over the jobs that survived would flatter
  whatever broke the others.
- communication_s: mean over the jobs of each one's mean per iteration. Jobs that report no iterations (a user's own
  program) are left out; None, too, unless every job is done.
- gpu_utilization: GPU-seconds of compute over GPU-seconds held. A job holds one GPU a rank from its first iteration's
  start to its last one's end. Warm-up and failed jobs count, for they held GPUs; jobs that report no compute don't.
- network_utilization: mean over the directed links that carried anything of their bytes over configured rate times the
  time from zero to the last job's end. Bytes of background traffic and acknowledgements are carried bytes too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import cast

import numpy as np

from harmonics_emu.errors import RunFailed
from harmonics_emu.records import ITERATION, JobOutcome, Records
from harmonics_emu.results.schema import (
    Cluster,
    Durations,
    Engine,
    Fidelity,
    Isolated,
    JobResult,
    Result,
    Scheduling,
    Status,
)
from harmonics_emu.results.statistics import IterationTimes, ended, iteration_times, steady, summarize
from topologies.fabric import Fabric
from workloads.job import Job


def build_result(
    records: Records,
    jobs: tuple[Job, ...],
    fabric: Fabric,
    scenario_name: str,
    isolated: Mapping[str, Isolated],
    fidelity: Fidelity,
) -> Result:
    """Statistics of a run. A job without an entry in `isolated` gets no slowdown.

    RunFailed if the records contradict themselves (no outcome for a job, an iteration twice): an engine's fault.
    """
    results = tuple(_job_result(records, job, isolated.get(job.name)) for job in jobs)
    return Result(
        scenario=scenario_name,
        engine=cast(Engine, records.engine),
        policy=records.policy,
        seed=records.seed,
        jobs=results,
        cluster=Cluster(
            makespan_s=_makespan(results),
            training_s=_mean_or_none(job.training_s for job in results),
            communication_s=_mean_communication(results),
            S=mean_slowdown(results),
            max_slowdown=_max_slowdown(results),
            gpu_utilization=_gpu_utilization(records, jobs),
            network_utilization=_network_utilization(records, results, fabric),
        ),
        scheduling=Scheduling(
            decisions=len(records.decisions),
            solve_s=_durations([decision.solve_s for decision in records.decisions]),
            critical_path_s=_durations([decision.critical_path_s for decision in records.decisions]),
            fallbacks=records.fallbacks + sum(decision.fallback for decision in records.decisions),
            gates_failed_open=records.gates_failed_open,
        ),
        fidelity=fidelity,
    )


def isolated_from(result: Result, job: Job) -> Isolated:
    """What a run of `job` alone says of it; that run may have had fewer iterations than the job has.

    Its training time then grows by the mean iteration for each one that was not run. RunFailed if it did not finish.
    """
    alone = result.job(job.name)
    if alone.status != "done" or alone.training_s is None:
        raise RunFailed(f"the isolated run of job '{job.name}' did not finish: {alone.error or alone.status}")
    missing = job.iterations - alone.iterations
    iteration_s = alone.iteration_s.mean if alone.iteration_s else None
    training_s: float | None = alone.training_s
    if missing:
        training_s = alone.training_s + missing * iteration_s if iteration_s is not None else None
    return Isolated(
        iteration_s=iteration_s,
        communication_s=alone.communication_s.mean if alone.communication_s else None,
        training_s=training_s,
        source="measured" if result.engine == "emulate" else "predicted",
    )


def mean_slowdown(jobs: Iterable[JobResult]) -> float | None:
    """S: mean slowdown weighted by ranks and tenant weight; None unless every job has a slowdown."""
    total = weight = 0.0
    for job in jobs:
        if job.slowdown is None:
            return None
        total += job.ranks * job.weight * job.slowdown
        weight += job.ranks * job.weight
    return total / weight if weight else None


def _job_result(records: Records, job: Job, isolated: Isolated | None) -> JobResult:
    outcome = records.outcomes.get(job.name)
    if outcome is None:
        raise RunFailed(f"the run left no outcome for job '{job.name}'")
    times = _times(records, job)
    measured = times.after(job.warmup)
    training_s = _training(records, job, outcome)
    alone_s = isolated.training_s if isolated else None
    return JobResult(
        name=job.name,
        model=job.model,
        program=job.program,
        ranks=job.ranks,
        iterations=job.iterations,
        iterations_done=times.number.size,
        weight=job.weight,
        status=cast(Status, outcome.status),
        start_s=job.start_s,
        end_s=outcome.end_s,
        training_s=training_s,
        slowdown=training_s / alone_s if training_s is not None and alone_s else None,
        iteration_s=summarize(measured.iteration_s),
        communication_s=summarize(measured.communication_s),
        compute_s=summarize(measured.compute_s),
        gate_s=summarize(measured.gate_s),
        straggler_s=summarize(measured.straggler_s),
        steady_iteration_s=steady(measured.iteration_s),
        isolated_iteration_s=isolated.iteration_s if isolated else None,
        isolated_communication_s=isolated.communication_s if isolated else None,
        isolated_training_s=alone_s,
        isolated_source=isolated.source if isolated else None,
        error=outcome.error,
    )


def _times(records: Records, job: Job) -> IterationTimes:
    rows = records.iterations.get(job.name)
    if rows is None:
        rows = np.empty(0, ITERATION)
    try:
        return iteration_times(rows)
    except ValueError as error:
        raise RunFailed(f"the records of job '{job.name}' are broken: {error}") from None


def _training(records: Records, job: Job, outcome: JobOutcome) -> float | None:
    """To the last iteration's end; to the job's own end where its program reports no iterations."""
    if outcome.status != "done":
        return None
    rows = ended(records.iterations.get(job.name, np.empty(0, ITERATION)))
    return (float(rows["end_s"].max()) if rows.size else outcome.end_s) - job.start_s


def _makespan(jobs: tuple[JobResult, ...]) -> float | None:
    ends = [job.start_s + job.training_s for job in jobs if job.training_s is not None]
    return max(ends) if ends and len(ends) == len(jobs) else None


def _mean_communication(jobs: tuple[JobResult, ...]) -> float | None:
    if any(job.status != "done" for job in jobs):
        return None
    return _mean_or_none(job.communication_s.mean for job in jobs if job.communication_s)


def _max_slowdown(jobs: tuple[JobResult, ...]) -> float | None:
    slowdowns = [job.slowdown for job in jobs if job.slowdown is not None]
    return max(slowdowns) if slowdowns and len(slowdowns) == len(jobs) else None


def _gpu_utilization(records: Records, jobs: tuple[Job, ...]) -> float | None:
    computed = held = 0.0
    for job in jobs:
        rows = ended(records.iterations.get(job.name, np.empty(0, ITERATION)))
        if rows.size == 0 or not np.isfinite(rows["compute_s"]).all():
            continue
        # The simulator records rank 0 for all, so the ranks' mean is scaled up to the job's ranks.
        computed += job.ranks * float(rows["compute_s"].sum()) / np.unique(rows["rank"]).size
        held += job.ranks * float(rows["end_s"].max() - rows["start_s"].min())
    return computed / held if held else None


def _network_utilization(records: Records, jobs: tuple[JobResult, ...], fabric: Fabric) -> float | None:
    span_s = max((job.end_s for job in jobs), default=0.0)
    if span_s <= 0:
        return None
    carried = {name: int(rows["bytes"].max()) for name, rows in records.links.items() if rows.size}
    return _mean_or_none(
        8 * count / (fabric.links[name].rate_bps * span_s) for name, count in sorted(carried.items()) if count
    )


def _mean_or_none(values: Iterable[float | None]) -> float | None:
    """Mean, or None where there is no value or one is missing."""
    found = list(values)
    known = [value for value in found if value is not None]
    return fmean(known) if known and len(known) == len(found) else None


def _durations(values: list[float]) -> Durations:
    return Durations(
        mean=fmean(values) if values else None, max=max(values) if values else None, total=float(sum(values))
    )
