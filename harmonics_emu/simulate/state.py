"""Jobs as arrays for the kernel, after a check that they can be simulated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.errors import UsageError
from harmonics_emu.records import ITERATION
from harmonics_emu.simulate.entities import Entity
from harmonics_emu.simulate.kernel.loop import ABSENT, Jobs
from harmonics_emu.simulate.kernel.sharing import Flags, Floats, Ints
from harmonics_emu.simulate.network import links_of
from topologies.fabric import Fabric
from workloads.job import Background, Event, Job, LinkEvent, RankEvent
from workloads.pacing import ready_fractions

DRAWN = 256
"""Compute times that are drawn ahead for a job with jitter."""
WEIGHT_STEPS = 16
"""Under a policy of changing weights, a job's weight is constant over each so-many-th part of an iteration's bytes."""
MAX_ROWS = 40_000_000
"""Most iterations of all jobs together: each is a row of 40 bytes, so records stay under 1.6 GB."""

Weight = Callable[[float], float]
"""From the fraction of an iteration's bytes that a job has sent to its weight, above zero and finite."""


class _Bucket(NamedTuple):
    """Gradient bytes that are sent at one weight. ready: the fraction of the compute time after which they may be."""

    bytes: float
    ready: float
    weight: float


def check_inputs(
    fabric: Fabric, jobs: Sequence[Job], background: Sequence[Background], events: Sequence[Event]
) -> None:
    """UsageError for the first thing that can't be simulated, naming the job or flow and what is wrong."""
    if not jobs:
        raise UsageError("there are no jobs to simulate; the scenario needs at least one")
    twice = [name for name, count in Counter(job.name for job in jobs).items() if count > 1]
    if twice:
        raise UsageError(f"two jobs are called {twice[0]!r}; names of jobs are unique")
    for job in jobs:
        problem = _problem(job, fabric)
        if problem:
            raise UsageError(f"job {job.name}: {problem}")
    for flow in background:
        if flow.src == flow.dst or flow.src not in fabric.host_index or flow.dst not in fabric.host_index:
            raise UsageError(f"background from {flow.src} to {flow.dst}: it needs two different hosts of the fabric")
        if not 0 < flow.rate_bps < math.inf:
            raise UsageError(f"background from {flow.src} to {flow.dst}: its rate must be above zero")
    ranks = {job.name: job.ranks for job in jobs}
    for event in events:
        if isinstance(event, LinkEvent):
            links_of(event, fabric)
        else:
            _check_rank_event(event, ranks)
    total = sum(job.iterations for job in jobs)
    if total > MAX_ROWS:
        raise UsageError(
            f"the jobs have {total:,} iterations in all, but one simulation records at most {MAX_ROWS:,}; "
            "lower `iterations` (a periodic schedule repeats itself long before)"
        )


def _check_rank_event(event: RankEvent, ranks: Mapping[str, int]) -> None:
    where = f"event {event.action} of job {event.job} at {event.at_s:g} s"
    if event.action != "slow":
        raise UsageError(f"{where}: the simulator has no processes that could get a signal; emulate it")
    if event.job not in ranks or not all(0 <= rank < ranks[event.job] for rank in event.ranks):
        raise UsageError(f"{where}: there are no such ranks")
    if not (0 <= event.at_s < math.inf and 1 <= event.factor < math.inf):
        raise UsageError(f"{where}: its time must be zero or more, its factor 1 or more, and both finite")


def _problem(job: Job, fabric: Fabric) -> str | None:
    unknown = [host for host in job.hosts if host not in fabric.host_index]
    if unknown:
        return f"host {unknown[0]} is not in the fabric"
    if not job.hosts:
        return "it has no ranks"
    if job.iterations < 1:
        return f"it has {job.iterations} iterations but needs at least 1"
    for name, value in (("compute_s", job.compute_s), ("start_s", job.start_s), ("compute_cv", job.compute_cv)):
        if not 0 <= value < math.inf:
            return f"{name} is {value} but must be zero or more, and finite"
    if not 0 <= job.overlap <= 1:
        return f"overlap is {job.overlap} but must lie between 0 and 1"
    for size in job.bucket_bytes:
        if not 0 <= size < math.inf:
            return f"a bucket has {size} bytes but must have zero or more, and a finite number"
    return None


def new_jobs(jobs: Sequence[Job], entities: Sequence[Entity], weight: Weight | None = None) -> Jobs:
    """Jobs that have not arrived yet. A job whose collective crosses no link has no buckets: it only computes.

    Jobs with compute jitter have no factors drawn yet. weight: how it changes while a job sends, None for always 1.
    """
    own = np.bincount(np.array([e.job for e in entities if e.job >= 0], np.int64), minlength=len(jobs))
    buckets = [_buckets(job, weight) if own[index] else [] for index, job in enumerate(jobs)]
    flat = [bucket for own_buckets in buckets for bucket in own_buckets]
    jitter = np.array([job.compute_cv > 0 for job in jobs])
    iterations = np.array([job.iterations for job in jobs], np.int64)
    return job_arrays(
        entities=own,
        buckets=np.array([len(own_buckets) for own_buckets in buckets], np.int64),
        bucket_bytes=np.array([bucket.bytes for bucket in flat], np.float64),
        bucket_ready=np.array([bucket.ready for bucket in flat], np.float64),
        bucket_weight=np.array([bucket.weight for bucket in flat], np.float64),
        iterations=iterations,
        compute=np.array([job.compute_s for job in jobs], np.float64),
        factor=np.ones((len(jobs), DRAWN if jitter.any() else 1)),
        drawn=np.where(jitter, 0, iterations),
        between=np.array([job.between_compute for job in jobs]),
    )


def job_arrays(
    *,
    entities: Ints,
    buckets: Ints,
    bucket_bytes: Floats,
    bucket_ready: Floats,
    bucket_weight: Floats,
    iterations: Ints,
    compute: Floats,
    factor: NDArray[np.float64],
    drawn: Ints,
    between: Flags | None = None,
) -> Jobs:
    """Absent jobs from what `Jobs` says of these fields; entities, buckets [jobs]: how many each job has.

    between: None where no job's compute waits for its buckets.
    """
    count = len(iterations)
    return Jobs(
        entity=_starts(entities),
        bucket=_starts(buckets),
        bucket_bytes=bucket_bytes,
        bucket_ready=bucket_ready,
        bucket_weight=bucket_weight,
        between=np.zeros(count, np.bool_) if between is None else between,
        iterations=iterations,
        compute=compute,
        gate=np.empty(0),
        gate_next=np.zeros(count, np.int64),
        gate_end=np.zeros(count, np.int64),
        factor=factor,
        drawn=drawn,
        phase=np.full(count, ABSENT, np.int64),
        done=np.zeros(count, np.int64),
        sending=np.zeros(count, np.int64),
        next_bucket=np.zeros(count, np.int64),
        began=np.zeros(count),
        computing=np.zeros(count),
        held=np.zeros(count),
        stalled=np.zeros(count),
        ready=np.zeros(count),
        ended=np.zeros(count),
        spent_compute=np.zeros(count),
        spent_total=np.zeros(count),
        spent_iterations=np.zeros(count, np.int64),
        row=_starts(iterations),
        rows=np.zeros(int(iterations.sum()), ITERATION),
    )


def _starts(counts: Ints) -> Ints:
    """Where each job's part begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _buckets(job: Job, weight: Weight | None) -> list[_Bucket]:
    """A job's buckets, cut where its weight changes: at each of WEIGHT_STEPS equal parts of the iteration's bytes.

    UsageError for a weight that can't be.
    """
    ready = ready_fractions(len(job.bucket_bytes), job.overlap, job.between_compute)
    if weight is None:
        return [_Bucket(size, at, 1.0) for size, at in zip(job.bucket_bytes, ready, strict=True)]
    weights = [weight((step + 0.5) / WEIGHT_STEPS) for step in range(WEIGHT_STEPS)]
    if not all(0 < value < math.inf for value in weights):
        raise UsageError(f"job {job.name}: the policy's weights must be above zero, and finite, not {weights}")
    found = []
    sent, step = 0.0, 0
    for size, at in zip(job.bucket_bytes, ready, strict=True):
        end = sent + size
        while sent < end:
            step_end = (step + 1) * job.bytes / WEIGHT_STEPS
            part_end = min(end, step_end) if step < WEIGHT_STEPS - 1 else end
            found.append(_Bucket(part_end - sent, at, weights[step]))
            sent = part_end
            step += part_end == step_end
    return found
