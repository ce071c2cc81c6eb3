"""What a plan makes of the jobs of a view: the fluid engine's own loop, run to their ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean

import numpy as np

from harmonics_emu.schedulers.exact.serial import compile_search
from harmonics_emu.schedulers.harmonics.kernel import balance, join_by_links
from harmonics_emu.schedulers.harmonics.messages import JobView, View
from harmonics_emu.simulate.kernel.loop import DONE, Progress, new_clock
from harmonics_emu.simulate.kernel.queue import empty_queue
from harmonics_emu.simulate.kernel.rollout import run_to_the_end
from harmonics_emu.simulate.kernel.sharing import Floats, Ints, new_sharing
from harmonics_emu.simulate.state import job_arrays
from workloads.job import DEFAULT_LEVEL

Starts = Mapping[int, Sequence[float]]
"""By job number, absolute release times of its next collectives."""


@cache
def compile_rollouts() -> None:
    """Have all compiled, or loaded, before a clock starts: on a new machine that takes some seconds."""
    job = JobView(0, 0.0, 1, 1.0, (1.0,), (1.0,), (1.0,), (0,), (1.0,), 1.0, 1.0, 1, False)
    Rollout(View(0.0, {0: 1.0}, (job,))).cost([DEFAULT_LEVEL])
    compile_search()
    one = np.zeros(1, np.int64)
    join_by_links(np.array([0, 1]), one, 1)
    balance(one, np.ones(1), one, np.array([0, 1]), np.array([0, 1]), one, np.ones(1), np.zeros(1), 1)


class Rollout:
    """Runs a view's jobs under one plan after another. `iterations`: those of one run, of all jobs together."""

    def __init__(self, view: View) -> None:
        jobs, entities = view.jobs, (*view.jobs, *view.steady)
        position = {link: place for place, link in enumerate(view.capacity)}
        self._capacity = np.array(list(view.capacity.values()), np.float64)
        self._first = _bounds([len(entity.links) for entity in entities])
        self._link = np.array([position[link] for entity in entities for link in entity.links], np.int64)
        self._usage = np.array([usage for entity in entities for usage in entity.usage], np.float64)
        self._cap = np.array([entity.cap for entity in entities], np.float64)
        self._scale = np.array([entity.scale for entity in entities], np.float64)
        self._numbers = [job.number for job in jobs]
        self._weight = np.array([job.weight for job in jobs], np.float64)
        self._now_s = view.time_s
        self._origin_s = min((job.start_s for job in jobs), default=view.time_s)
        self._begin = np.array([job.start_s for job in jobs], np.float64) - self._origin_s
        self._order = np.argsort(self._begin, kind="stable")
        # Whose collective could have begun before now waits for something that is over now: nothing begins in the past.
        ready_s = [job.start_s + job.compute_s[0] * (job.bucket_ready or (math.inf,))[0] for job in jobs]
        self._waiting = {job.number: (view.time_s,) for job, at in zip(jobs, ready_s, strict=True) if at < view.time_s}
        self._iterations = np.array([job.iterations for job in jobs], np.int64)
        self._buckets = np.array([len(job.bucket_bytes) for job in jobs], np.int64)
        self._bucket_bytes = np.array([size for job in jobs for size in job.bucket_bytes], np.float64)
        self._bucket_ready = np.array([at for job in jobs for at in job.bucket_ready], np.float64)
        width = max((len(job.compute_s) for job in jobs), default=1)
        self._compute_s = np.array([np.resize(job.compute_s, width) for job in jobs], np.float64)
        self.iterations = int(self._iterations.sum())

    def cost(self, levels: Sequence[int], starts: Starts | None = None) -> float:
        """The jobs' weighted times from their starts to their ends. Infinity if one stalls.

        levels: of each job in the view's order, 0 served first.
        """
        return float(self._weight @ self.times_s(levels, starts))

    def times_s(self, levels: Sequence[int], starts: Starts | None = None) -> Floats:
        """Seconds of each job from its start to its end, infinite for one that stalls."""
        count, entities = len(self._weight), len(self._cap)
        if not count:
            return np.empty(0)
        jobs = job_arrays(
            entities=np.ones(count, np.int64),
            buckets=self._buckets,
            bucket_bytes=self._bucket_bytes,
            bucket_ready=self._bucket_ready,
            bucket_weight=np.ones(len(self._bucket_bytes)),
            iterations=self._iterations,
            compute=np.ones(count),
            factor=self._compute_s,
            drawn=self._iterations,
        )
        if starts or self._waiting:
            starts = {**self._waiting, **(starts or {})}
            gates = [np.maximum(starts.get(number, ()), self._now_s) - self._origin_s for number in self._numbers]
            ends = np.cumsum([len(own) for own in gates])
            jobs = jobs._replace(gate=np.concatenate(gates))
            jobs.gate_end[:] = ends
            jobs.gate_next[:] = ends - [len(own) for own in gates]
        level = np.full(entities, DEFAULT_LEVEL, np.int64)
        level[:count] = levels
        progress = Progress(
            left=np.where(np.arange(entities) < count, 0.0, math.inf),
            sent=np.zeros(entities),
            since=np.zeros(entities),
            scale=self._scale,
            weight=np.ones(entities),
            job=np.where(np.arange(entities) < count, np.arange(entities), -1),
        )
        sharing = new_sharing(self._first, self._link, self._usage, self._capacity, self._cap, level)
        queue = empty_queue(entities + count)
        run_to_the_end(sharing, queue, progress, jobs, new_clock(), self._order, self._begin)
        return np.where(jobs.phase == DONE, jobs.ended - self._begin, math.inf)


class Judge:
    """Costs of plans for one view: the mean over draws of compute times. `spent`: iterations run so far."""

    def __init__(self, views: Sequence[View]) -> None:
        self.jobs = views[0].jobs
        self._rollouts = [Rollout(view) for view in views]
        self.spent = 0

    def cost(self, levels: Sequence[int], starts: Starts | None = None) -> float:
        """As Rollout.cost."""
        self.spent += sum(rollout.iterations for rollout in self._rollouts)
        return fmean(rollout.cost(levels, starts) for rollout in self._rollouts)

    def fair_cost(self) -> float:
        """What it is if all jobs are of one level."""
        return self.cost([DEFAULT_LEVEL] * len(self.jobs))


def _bounds(counts: Sequence[int]) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
