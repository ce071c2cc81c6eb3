"""Start times for jobs that have their slowest link in common: two ways to find some, for rollouts to judge.

Held starts keep a job back although its level is an early one, where it costs less to let another one finish first.
Harmonised starts stretch the jobs' periods a little until they are whole parts of one round, in which all collectives
have a place of their own: then nobody waits any more, whatever the levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harmonics_emu.schedulers.exact.serial import Chain, good_schedule
from harmonics_emu.schedulers.harmonics.figures import alone_s
from harmonics_emu.schedulers.harmonics.messages import JobView, View
from harmonics_emu.schedulers.harmonics.orders import shared_links
from harmonics_emu.schedulers.unified_circle import ANGLES, Arc, best_rotations, sample
from harmonics_emu.simulate.kernel.sharing import Flags

STATES = 100
"""Of the search for held starts: schedules that are followed up at a time."""
SLACK = 1e-6
"""Link times are taken to be longer by this part: who is waited for is done by then, whatever doubles round."""
SAME = 1e-6
MOST_STRETCH = 1.25
"""A period that is stretched by more costs more than what priorities leave of contention."""
MOST_ROUNDS = 4
"""A round has at most so many of the longest period."""
MOST_REPEATS = 20
"""Nor has any job more periods in it: who is so much shorter than others finds room between them anyway."""
ROUNDS_TRIED = 6

Starts = dict[int, tuple[float, ...]]


def groups_on_one_link(view: View) -> list[list[int]]:
    """Positions of jobs that share links with each other and nobody else, and whose slowest link is the same one."""
    shared = shared_links(view)
    return [
        group
        for group in _components(shared)
        if len(group) > 1 and _common_bottleneck([view.jobs[position] for position in group], view) is not None
    ]


def held_starts(view: View, group: Sequence[int], levels: Sequence[int], deadline: float) -> Starts | None:
    """Release times of each job's collectives, absolute, if levels are those of the view's jobs by position.

    None if nobody needs to be held, or the deadline came first.
    """
    jobs = [view.jobs[position] for position in group]
    origin_s = min(job.start_s for job in jobs)
    chains = [_chain(job, view, origin_s) for job in jobs]
    schedule = good_schedule(chains, [levels[position] for position in group], deadline, STATES)
    if schedule is None or not any(any(own) for own in schedule.releases):
        return None
    return {
        job.number: tuple(origin_s + max(at, 0.0) for at in own)
        for job, own in zip(jobs, schedule.releases, strict=True)
        if any(own)
    }


def harmonised_starts(view: View, group: Sequence[int], seed: int) -> Iterator[Starts]:
    """Release times that repeat with one round, of the rounds with the least stretch in which all have a place."""
    jobs = [view.jobs[position] for position in group]
    sending_s = np.array([alone_s(job, view.capacity) for job in jobs])
    compute_s = np.array([max(job.compute_s) for job in jobs])
    first_s = np.array([job.bucket_ready[0] for job in jobs]) * compute_s
    period_s = np.maximum(first_s + sending_s, compute_s)
    weight = np.array([job.weight * job.iterations for job in jobs]) * period_s
    for round_s, repeats in _rounds(period_s, weight)[:ROUNDS_TRIED]:
        own_s = round_s / np.array(repeats)
        angles = ANGLES * max(repeats)
        # A place is as long as the collective and one sample, so that rounding to samples lets nobody touch another.
        demand = np.array(
            [
                sample([Arc(0.0, send + round_s / angles, 1.0)], count, round_s, angles)
                for send, count in zip(sending_s.tolist(), repeats, strict=True)
            ]
        )
        found = best_rotations(demand, repeats, 1.0, seed)
        if found.score < 1 - SAME:
            continue
        shift = np.array(found.steps) * (round_s / angles)
        ready = np.array([job.start_s for job in jobs]) + first_s
        wait = ((ready - shift)[:, None] + shift - ready) % own_s
        wait[wait > own_s * (1 - SAME)] = 0.0
        begin = ready + wait[wait.sum(axis=1).argmin()]
        yield {
            job.number: tuple((at + own * np.arange(job.iterations)).tolist())
            for job, at, own in zip(jobs, begin.tolist(), own_s.tolist(), strict=True)
        }


def _rounds(period_s: np.ndarray, weight: np.ndarray) -> list[tuple[float, list[int]]]:
    """Rounds with how often each job has its turn in them, by what stretching the periods to that costs."""
    found = []
    for base in np.unique(period_s):
        for laps in range(1, int(min(MOST_ROUNDS * period_s.max() / base, MOST_REPEATS)) + 1):
            round_s = float(base * laps)
            repeats = np.floor(round_s / period_s * (1 + SAME)).astype(np.int64)
            if repeats.min() < 1 or repeats.max() > MOST_REPEATS:
                continue
            stretch = round_s / repeats / period_s
            if stretch.max() <= MOST_STRETCH:
                found.append((float(weight @ stretch), round_s, repeats.tolist()))
    return [(round_s, repeats) for _, round_s, repeats in sorted(found)]


def _components(shared: Flags) -> list[list[int]]:
    left, found = set(range(len(shared))), []
    while left:
        queue = [min(left)]
        group = set(queue)
        while queue:
            near = set(np.flatnonzero(shared[queue.pop()]).tolist()) - group
            group |= near
            queue.extend(near)
        left -= group
        found.append(sorted(group))
    return found


def _common_bottleneck(jobs: Sequence[JobView], view: View) -> int | None:
    """A link that is the slowest of all these jobs."""
    common = set(jobs[0].links).intersection(*(job.links for job in jobs[1:]))
    for link in sorted(common):
        if all(_busy_s(job, link, view) >= alone_s(job, view.capacity) * (1 - SAME) for job in jobs):
            return link
    return None


def _busy_s(job: JobView, link: int, view: View) -> float:
    return sum(job.bucket_bytes) * job.scale * job.usage[job.links.index(link)] / view.capacity[link]


def _chain(job: JobView, view: View, origin_s: float) -> Chain:
    link_s = alone_s(job, view.capacity) * (1 + SLACK)
    total = sum(job.bucket_bytes)
    compute_s = np.resize(np.array(job.compute_s), job.iterations)
    end = np.zeros(job.iterations)
    for size, fraction in zip(job.bucket_bytes, job.bucket_ready, strict=True):
        end = np.maximum(end, compute_s * fraction) + link_s * size / total
    return Chain(
        compute_s=compute_s,
        length_s=np.maximum(end, compute_s),
        ready=job.bucket_ready,
        link_s=tuple(size / total * link_s for size in job.bucket_bytes),
        weight=job.weight,
        start_s=job.start_s - origin_s,
    )
