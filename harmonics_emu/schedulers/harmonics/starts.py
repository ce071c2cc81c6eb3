"""Start times for jobs that have their slowest link in common: two ways to find some, for rollouts to judge.

Held starts keep a job back although its level is an early one, where it costs less to let another one finish first.
Harmonised starts stretch the jobs' periods a little until they are whole parts of one round, in which all collectives
have a place of their own: then nobody waits any more, whatever the levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from harmonics_emu.schedulers.exact.serial import Chain, good_schedule
from harmonics_emu.schedulers.harmonics.figures import alone_s
from harmonics_emu.schedulers.harmonics.messages import JobView, View
from harmonics_emu.schedulers.harmonics.orders import shared_links
from harmonics_emu.schedulers.unified_circle import ANGLES, Arc, best_rotations, sample
from harmonics_emu.simulate.kernel.sharing import Flags, Floats

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
    schedule = good_schedule(chains, [levels[position] for position in group], deadline)
    if schedule is None or not any(any(own) for own in schedule.releases):
        return None
    return {
        job.number: tuple(origin_s + max(at, 0.0) for at in own[: 1 + max(np.flatnonzero(own))])
        for job, own in zip(jobs, schedule.releases, strict=True)
        if any(own)
    }


def harmonised_starts(
    view: View, group: Sequence[int], seed: int, slack_s: Sequence[float], iterations: Sequence[int]
) -> Iterator[Starts]:
    """Release times that repeat with one round, of the rounds with the least stretch in which all have a place.

    slack_s, iterations: by position in the view, how much longer than its collective a job's place is, so that a late
    one is over in time all the same; and how many release times it gets.
    """
    jobs = [view.jobs[position] for position in group]
    place_s = np.array([alone_s(view.jobs[at], view.capacity) + slack_s[at] for at in group])
    compute_s = np.array([max(job.compute_s) for job in jobs])
    first_s = np.array([job.bucket_ready[0] for job in jobs]) * compute_s
    period_s = np.maximum(first_s + place_s, compute_s)
    weight = np.array([job.weight * job.iterations for job in jobs]) * period_s
    ready = np.array([job.start_s for job in jobs]) + first_s
    for round_s, repeats in _rounds(period_s, place_s, weight)[:ROUNDS_TRIED]:
        own_s = round_s / np.array(repeats)
        if max(repeats) == 1:
            shift = _one_after_the_other(place_s, ready, round_s)
        elif (found := _rotated(place_s, repeats, round_s, seed)) is not None:
            shift = found
        else:
            continue
        wait = ((ready - shift)[:, None] + shift - ready) % own_s
        wait[wait > own_s * (1 - SAME)] = 0.0
        begin = ready + wait[wait.sum(axis=1).argmin()]
        yield {
            view.jobs[position].number: tuple((at + own * np.arange(iterations[position])).tolist())
            for position, at, own in zip(group, begin.tolist(), own_s.tolist(), strict=True)
        }


def _one_after_the_other(place_s: Floats, ready: Floats, round_s: float) -> Floats:
    """When each job's place in the round begins, the first one to be ready first; what is left over lies between."""
    order = np.argsort(ready, kind="stable")
    room_s = (round_s - place_s.sum()) / len(order)
    shift = np.empty(len(order))
    shift[order] = np.concatenate([[0.0], np.cumsum(place_s[order] + room_s)[:-1]])
    return shift


def _rotated(place_s: Floats, repeats: Sequence[int], round_s: float, seed: int) -> Floats | None:
    """The same where jobs have several places in a round, evenly apart; None if they are not found room."""
    angles = ANGLES * max(repeats)
    # A place is one sample longer, so that rounding to samples lets nobody touch another.
    demand = np.array(
        [
            sample([Arc(0.0, place + round_s / angles, 1.0)], count, round_s, angles)
            for place, count in zip(place_s.tolist(), repeats, strict=True)
        ]
    )
    found = best_rotations(demand, repeats, 1.0, seed)
    return None if found.score < 1 - SAME else np.array(found.steps) * (round_s / angles)


def _rounds(period_s: Floats, place_s: Floats, weight: Floats) -> list[tuple[float, list[int]]]:
    """Rounds with how often each job has its turn in them, by what stretching the periods to that costs.

    A round is some periods of one job, or longer, if all places together are.
    """
    found = set()
    for base in np.unique(period_s):
        for laps in range(1, int(min(MOST_ROUNDS * period_s.max() / base, MOST_REPEATS)) + 1):
            repeats = np.floor(base * laps / period_s * (1 + SAME)).astype(np.int64)
            if repeats.min() < 1 or repeats.max() > MOST_REPEATS or np.gcd.reduce(repeats) > 1:
                continue
            rounding = repeats.sum() / (ANGLES * repeats.max()) if repeats.max() > 1 else 0.0
            round_s = max(float(base * laps), float(repeats @ place_s) / (1 - rounding)) if rounding < 1 else math.inf
            stretch = round_s / repeats / period_s
            if stretch.max() <= MOST_STRETCH:
                found.add((float(weight @ stretch), round_s, tuple(repeats.tolist())))
    return [(round_s, list(repeats)) for _, round_s, repeats in sorted(found)]


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
