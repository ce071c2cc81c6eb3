"""What the supervisor knows of running jobs: learnt from what their ranks report, and told to the policy as JobStates.

An iteration counts once all ranks have finished it: its compute time is the slowest rank's, all else in it is
communication. Figures are medians over the latest iterations, so that one that was disturbed does not count and a job
that changes is known anew after a few. Until there are any, the scenario's figures stand. Of a command there are none:
it neither computes nor sends until an iteration of it has ended, and then it is taken to all-reduce in a ring.

Bytes are those on the wire, headers and all. A job that takes longer to send than its bytes explain, alone as well as
ever (packets wait for wake-ups, rings for their neighbours), is taken to have more: it does hold its links longer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median

from harmonics_emu.schedulers.interface import HostPair, JobState
from harmonics_emu.simulate.routing import Router
from topologies.fabric import Fabric
from topologies.fabric import Path as Links
from topologies.shaping import FRAME_BYTES, SEGMENT_PAYLOAD_BYTES
from workloads.collectives import Transfers, goes_in_phases, job_transfers
from workloads.job import Job
from workloads.job_page import JobPage
from workloads.output_files import spans_path
from workloads.spans import SpanReader

LATEST = 8
"""Iterations that a figure is the median of, at most: a change shows after half as many."""
RECENT = 32
"""Iterations of which the quickest eighth says what a job takes to send when nobody is in its way."""
KEPT = 512
COMMAND_BYTES = 10**6
"""Stand for what a command sends, until its ranks have counted it."""
HEADERS = FRAME_BYTES / SEGMENT_PAYLOAD_BYTES
MOST_EXCESS = 1.12
"""Bound on how much longer than its bytes a job may be taken to hold its links. What is beyond is pauses between small
buckets, in which links are free: taken for bytes, it would make links look too full."""
MOST_PAUSED = 1.3
"""The same with pauses. What is beyond is others in the way."""
SENDING_JITTER = 0.05
"""Of the time to send alone, how much that time varies here, as a standard deviation (measured: 0.023 to 0.05)."""
NORMAL = 1.4826
"""Standard deviation by median absolute deviation, of what is normally distributed."""
MOST_EXCESS_IN_PHASES = 2.0
"""The same where a collective loads some links only after others, which bytes on links do not say."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of all ranks together, in seconds: sending_s is what neither computing nor a gate took."""

    number: int
    start_s: float
    end_s: float
    compute_s: float
    gate_s: float

    @property
    def communication_s(self) -> float:
        return self.end_s - self.start_s - self.compute_s

    @property
    def sending_s(self) -> float:
        return self.communication_s - self.gate_s


@dataclass
class History:
    """The iterations of one job as its ranks report them; those that some ranks have yet to finish wait in `_open`."""

    ranks: int
    warmup: int
    whole: deque[Iteration] = field(default_factory=lambda: deque(maxlen=KEPT))
    _open: dict[int, list[tuple[float, float, float, float]]] = field(default_factory=dict)

    def add(self, number: int, start_s: float, compute_s: float, gate_s: float, end_s: float) -> None:
        """Take one rank's row of iteration `number`."""
        rows = self._open.setdefault(number, [])
        rows.append((start_s, compute_s, gate_s, end_s))
        if len(rows) == self.ranks:
            starts, computes, gates, ends = zip(*self._open.pop(number), strict=True)
            # The rank that computed longest waits at the gate for the shortest time: that is what it cost the job.
            self.whole.append(Iteration(number, max(starts), max(ends), max(computes), min(gates)))

    @property
    def warm(self) -> list[Iteration]:
        """All that are kept, oldest first: none that is warm-up while there are others."""
        return [one for one in self.whole if one.number >= self.warmup] or list(self.whole)

    @property
    def latest(self) -> list[Iteration]:
        """The iterations that most figures are made of, oldest first."""
        return self.warm[-LATEST:]

    def between(self, since_s: float, until_s: float) -> list[Iteration]:
        """The iterations that began and ended in that time."""
        return [one for one in self.whole if since_s <= one.start_s and one.end_s <= until_s]

    def mean_iteration_s(self, since_s: float, until_s: float) -> float | None:
        """Mean of the iterations that began and ended in that time, None if none did."""
        found = self.between(since_s, until_s)
        return fmean(one.end_s - one.start_s for one in found) if found else None


@dataclass
class Sizes:
    """Bytes of gradients that one job sends in an iteration: the scenario's figure until its ranks have counted."""

    bytes: float
    _seen: tuple[int, int] = (0, 0)

    def learn(self, where: Position | None) -> float:
        """What an iteration has sent since the last call that saw one end."""
        if where is not None and where.sent > self._seen[1] and where.first_rank_done > self._seen[0]:
            self.bytes = (where.sent - self._seen[1]) / (where.first_rank_done - self._seen[0])
            self._seen = (where.first_rank_done, where.sent)
        return self.bytes


@dataclass(frozen=True)
class Position:
    """Where a job is: iterations that all its ranks have finished, and that some rank has; and those that have begun
    to send. finished_s, sending_since_s: when the last of either came about, seconds from time zero; None for never.
    sent: bytes of gradients in the `first_rank_done` iterations that rank 0 has finished.
    """

    done: int
    finished: int
    begun: int
    finished_s: float | None
    sending_since_s: float | None
    first_rank_done: int = 0
    sent: int = 0


def position(page: JobPage, zero_ns: int) -> Position:
    """Read it from the job's page."""
    ranks = [page.progress(rank) for rank in range(page.ranks)]
    finished, begun = max(rank.iterations for rank in ranks), max(rank.begun for rank in ranks)
    last = [rank.progress_ns for rank in ranks if rank.iterations == finished and finished > 0]
    began = [rank.begun_ns for rank in ranks if rank.begun == begun and begun > 0]
    return Position(
        done=min(rank.iterations for rank in ranks),
        finished=finished,
        begun=begun,
        finished_s=(max(last) - zero_ns) / 1e9 if last else None,
        sending_since_s=(max(began) - zero_ns) / 1e9 if began else None,
        first_rank_done=ranks[0].iterations,
        sent=ranks[0].bytes,
    )


def next_start_s(now: Position, submitted_s: float, sending_s: float, time_s: float) -> float:
    """When the iteration begins, or began, whose collective is the next that has not begun (as JobState has it).

    While a collective is under way that is when it will be over, if it takes `sending_s` as before.
    """
    if now.begun > now.finished and now.sending_since_s is not None:
        return max(time_s, now.sending_since_s + sending_s)
    return submitted_s if now.finished_s is None else now.finished_s


class Observer:
    """Watches all jobs of a run. `directory` is the one that ranks write their spans to."""

    def __init__(self, fabric: Fabric, jobs: Sequence[Job], directory: Path) -> None:
        self._fabric = fabric
        self.histories = {job.name: History(job.ranks, job.warmup) for job in jobs}
        self._readers = {
            job.name: [SpanReader(spans_path(directory, job.name, rank)) for rank in range(job.ranks)] for job in jobs
        }
        self._stated: dict[str, Transfers] = {job.name: job_transfers(_known(job), fabric.rack_of) for job in jobs}
        self._sizes = {job.name: Sizes(0.0 if job.command else float(job.bytes)) for job in jobs}

    def read(self) -> None:
        """Take what the ranks have reported since the last call."""
        for name, readers in self._readers.items():
            for reader in readers:
                for _, number, start_s, compute_s, gate_s, end_s in reader.new_rows().tolist():
                    self.histories[name].add(number, start_s, compute_s, gate_s, end_s)

    def state(
        self, job: Job, where: Position | None, time_s: float, router: Router, paths: Mapping[HostPair, Links]
    ) -> JobState:
        """A job as the policy is to see it at `time_s`, its buckets as large as they are on the wire.

        where: None before its ranks stand; paths: the planned ones.
        """
        latest = self.histories[job.name].latest
        size = self._sizes[job.name].learn(where)
        job = _known(job)
        share = size / job.bytes if job.bytes else 1.0
        transfers = {pair: share * stated for pair, stated in self._stated[job.name].items()}
        bare_s = sending_alone_s(self._fabric, router, job.name, transfers, paths)
        scale, pause_s = HEADERS, 0.0
        sending_s = bare_s * HEADERS
        if latest:
            sending_s = median(one.sending_s for one in latest)
            if bare_s > 0:
                quick_s = _quick_s(self.histories[job.name].warm[-RECENT:])
                most = MOST_EXCESS_IN_PHASES if goes_in_phases(job) else MOST_EXCESS
                scale = min(max(quick_s / bare_s, HEADERS), most)
                pause_s = max(0.0, min(quick_s, MOST_PAUSED * bare_s) - scale * bare_s)
        return JobState(
            job=replace(job, bucket_bytes=tuple(round(size * share * scale) for size in job.bucket_bytes)),
            transfers={pair: size * scale for pair, size in transfers.items()},
            compute_s=median(one.compute_s for one in latest) if latest else job.compute_s,
            communication_s=median(one.communication_s for one in latest) if latest else None,
            iterations_done=0 if where is None else where.done,
            next_start_s=job.start_s if where is None else next_start_s(where, job.start_s, sending_s, time_s),
            jitter_s=math.hypot(_spread_s(latest) if job.compute_cv == 0 else 0.0, SENDING_JITTER * bare_s * scale),
            pause_s=pause_s,
        )

    def close(self) -> None:
        for readers in self._readers.values():
            for reader in readers:
                reader.close()


def _quick_s(iterations: Sequence[Iteration]) -> float:
    """What sending takes alone, on the average: that is about one SENDING_JITTER above the quickest."""
    quickest = sorted(one.sending_s for one in iterations)
    return quickest[len(quickest) // 8] * (1 + SENDING_JITTER)


def _spread_s(iterations: Sequence[Iteration]) -> float:
    """Standard deviation of compute times, whatever a few of them are."""
    if not iterations:
        return 0.0
    middle_s = median(one.compute_s for one in iterations)
    return NORMAL * median(abs(one.compute_s - middle_s) for one in iterations)


def _known(job: Job) -> Job:
    """The job; a command with some bytes, which stand for those that its ranks count."""
    return replace(job, bucket_bytes=(COMMAND_BYTES,)) if job.command else job


def sending_alone_s(
    fabric: Fabric, router: Router, job: str, transfers: Transfers, paths: Mapping[HostPair, Links]
) -> float:
    """How long a job's transfers fill the link that they load most, on the paths that they take now."""
    seconds: dict[str, float] = {}
    for pair, size in transfers.items():
        for link in router.path(job, *pair, paths.get(pair)) if size > 0 else ():
            if link in fabric.links:
                seconds[link] = seconds.get(link, 0.0) + 8 * size / fabric.links[link].rate_bps
    return max(seconds.values(), default=0.0)
