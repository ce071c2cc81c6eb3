"""The event loop: jobs compute, wait at their gate, send bucket after bucket, and begin again.

It runs until a time that the caller names, or until the caller is needed: when a job ends, or when a job's drawn
compute times are used up. Policies, link events and samples are the caller's business.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.simulate.kernel.jit import compiled
from harmonics_emu.simulate.kernel.queue import EventQueue, first, move
from harmonics_emu.simulate.kernel.sharing import Flags, Floats, Ints, Sharing, enter, leave, reshare

ABSENT, WAITING, SENDING, CLOSING, DONE = range(5)
"""Phases of a job: not there yet; computing or at its gate; sending; sent, but still computing; all done."""
UNTIL, ENDED, DRAW = range(3)
"""Why `advance` came back: the named time is reached; jobs ended; job `clock.job` needs more compute times."""
SAME_INSTANT = 1e-12
"""Events closer than this, relative to the time, are one instant: the difference is rounding."""


class Progress(NamedTuple):
    """What each entity has sent, in gradient bytes (bytes, for a plain flow). All have the shape [E].

    left: still to send of the current transfer. sent: since time zero, at time `since`.
    scale: rate units per gradient byte a second, so that an entity at rate x moves x / scale gradient bytes a second.
    weight: how fast it rises beside others of its level; usage, cap and scale hold for this weight.
    job: the job it belongs to, -1 for background traffic.
    """

    left: Floats
    sent: Floats
    since: Floats
    scale: Floats
    weight: Floats
    job: Ints


class Jobs(NamedTuple):
    """Jobs, all arrays over [J] unless said. Entities of job j are entity[j]:entity[j+1], its buckets likewise.

    bucket_bytes, bucket_ready: of each bucket, its gradient bytes and the fraction of the compute time after which
    it is ready, and the weight of the job's entities while they send it.
    between: whether each bucket ends a stretch of compute, and the next stretch waits until it is sent.
    stalled: for how long compute has stood still in this iteration.
    gate, float64[gates]: release times of coming collectives, gate_next[j]:gate_end[j] of job j.
    factor float64[J, width]: multiplies the compute time of iteration i at [j, i % width]; drawn: iterations drawn.
    rows, records.ITERATION[sum of iterations]: job j writes its own from row[j] on.
    spent_*: sums over the iterations that ended since the caller cleared them.
    """

    entity: Ints
    bucket: Ints
    bucket_bytes: Floats
    bucket_ready: Floats
    bucket_weight: Floats
    between: Flags
    iterations: Ints
    compute: Floats
    gate: Floats
    gate_next: Ints
    gate_end: Ints
    factor: NDArray[np.float64]
    drawn: Ints
    phase: Ints
    done: Ints
    sending: Ints
    next_bucket: Ints
    began: Floats
    computing: Floats
    held: Floats
    stalled: Floats
    ready: Floats
    ended: Floats
    spent_compute: Floats
    spent_total: Floats
    spent_iterations: Ints
    row: Ints
    rows: NDArray[Any]


class Clock(NamedTuple):
    """now float64[1]. events int64[1]: events handled. job int64[1]: the job that needs the caller.

    ended bool[1]: whether jobs have ended since `advance` last said so.
    """

    now: Floats
    events: Ints
    job: Ints
    ended: Flags


def new_clock() -> Clock:
    return Clock(np.zeros(1), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.bool_))


@compiled
def advance(
    s: Sharing, queue: EventQueue, p: Progress, jobs: Jobs, clock: Clock, until: float, stop_at_ends: bool
) -> int:
    """Handle every event up to `until` (inclusive), or up to the first instant that needs the caller."""
    entities = s.rate.shape[0]
    while True:
        _rebalance(s, queue, p, clock.now[0])
        if clock.ended[0] and stop_at_ends:
            clock.ended[0] = False
            return ENDED
        instant = queue.time[first(queue)]
        if not instant <= until or instant == np.inf:
            if until < np.inf:
                clock.now[0] = until
            return UNTIL
        limit = instant + SAME_INSTANT * instant
        while True:
            item = first(queue)
            at = queue.time[item]
            if at > limit:
                break
            clock.now[0] = at
            if item < entities:
                _sent(s, queue, p, jobs, item, at)
            else:
                job = item - entities
                if jobs.phase[job] == CLOSING:
                    if jobs.done[job] + 1 >= jobs.drawn[job] and jobs.done[job] + 1 < jobs.iterations[job]:
                        clock.job[0] = job
                        return DRAW
                    if _close(s, queue, jobs, job, at):
                        clock.ended[0] = True
                else:
                    _release(s, queue, p, jobs, job, at)
            clock.events[0] += 1


@compiled
def _rebalance(s: Sharing, queue: EventQueue, p: Progress, now: float) -> None:
    """Give those whose rate changes their new rate, and move the time at which they will have sent all."""
    for i in range(reshare(s)):
        entity = s.queue[i]
        rate = s.fresh[entity]
        if rate != s.rate[entity]:
            _settle(s, p, entity, now)
            s.rate[entity] = rate
            due = now + p.left[entity] * p.scale[entity] / rate if rate > 0.0 else np.inf
            move(queue, entity, due)


@compiled
def _settle(s: Sharing, p: Progress, entity: int, now: float) -> None:
    """Book what an entity has sent at its rate up to now."""
    moved = min(s.rate[entity] * (now - p.since[entity]) / p.scale[entity], p.left[entity])
    p.left[entity] -= moved
    p.sent[entity] += moved
    p.since[entity] = now


@compiled
def admit(s: Sharing, queue: EventQueue, jobs: Jobs, arriving: Ints, now: float) -> None:
    """Jobs arrive, and begin their first iteration."""
    for job in arriving:
        _begin(s, queue, jobs, job, now)


@compiled
def regate(s: Sharing, queue: EventQueue, jobs: Jobs, now: float) -> None:
    """Let the jobs that have not begun their collective wait for the first of their new release times instead."""
    for job in range(jobs.phase.shape[0]):
        if jobs.phase[job] == WAITING and jobs.next_bucket[job] == jobs.bucket[job]:
            _await_bucket(s, queue, jobs, job, now)


@compiled
def pause(s: Sharing, p: Progress, now: float) -> None:
    """Book what everyone has sent, before paths, caps or levels change."""
    for entity in range(s.rate.shape[0]):
        if s.active[entity]:
            _settle(s, p, entity, now)


@compiled
def resume(s: Sharing, queue: EventQueue, p: Progress, active: Flags, now: float) -> None:
    """Let the `active` entities go on in a new `s` with what they have left; `advance` finds their rates."""
    for entity in range(s.rate.shape[0]):
        _quicken(s, p, entity, p.weight[entity])
        if active[entity]:
            move(queue, entity, np.inf)
            p.since[entity] = now
            enter(s, entity)


@compiled
def _begin(s: Sharing, queue: EventQueue, jobs: Jobs, job: int, now: float) -> None:
    jobs.began[job] = now
    jobs.computing[job] = jobs.compute[job] * jobs.factor[job, jobs.done[job] % jobs.factor.shape[1]]
    jobs.held[job] = 0.0
    jobs.stalled[job] = 0.0
    jobs.next_bucket[job] = jobs.bucket[job]
    _await_bucket(s, queue, jobs, job, now)


@compiled
def _await_bucket(s: Sharing, queue: EventQueue, jobs: Jobs, job: int, now: float) -> None:
    """Wait until the next bucket is ready, the first one also for the gate; after the last, for compute to end."""
    bucket = jobs.next_bucket[job]
    timer = s.rate.shape[0] + job
    if bucket == jobs.bucket[job + 1]:
        jobs.phase[job] = CLOSING
        move(queue, timer, max(now, jobs.began[job] + jobs.stalled[job] + jobs.computing[job]))
        return
    release = _ready_at(jobs, job, bucket)
    if bucket == jobs.bucket[job]:
        jobs.ready[job] = release
        if jobs.gate_next[job] < jobs.gate_end[job]:
            release = max(release, jobs.gate[jobs.gate_next[job]])
    jobs.phase[job] = WAITING
    move(queue, timer, max(now, release))


@compiled
def _ready_at(jobs: Jobs, job: int, bucket: int) -> float:
    at: float = jobs.began[job] + jobs.stalled[job] + jobs.computing[job] * jobs.bucket_ready[bucket]
    return at


@compiled
def _release(s: Sharing, queue: EventQueue, p: Progress, jobs: Jobs, job: int, now: float) -> None:
    """Send all buckets that are ready: in order at one rate, so those of the same weight go as one transfer."""
    bucket = jobs.next_bucket[job]
    if jobs.between[job]:
        jobs.stalled[job] += max(0.0, now - _ready_at(jobs, job, bucket))
    if bucket == jobs.bucket[job]:
        jobs.held[job] = max(0.0, now - jobs.ready[job])
        if jobs.gate_next[job] < jobs.gate_end[job]:
            jobs.gate_next[job] += 1
    latest = now + SAME_INSTANT * now
    amount = 0.0
    weight = jobs.bucket_weight[bucket]
    while bucket < jobs.bucket[job + 1] and jobs.bucket_weight[bucket] == weight:
        if _ready_at(jobs, job, bucket) > latest:
            break
        amount += jobs.bucket_bytes[bucket]
        bucket += 1
    jobs.next_bucket[job] = bucket
    if amount == 0.0 or jobs.entity[job] == jobs.entity[job + 1]:
        _await_bucket(s, queue, jobs, job, now)
        return
    jobs.phase[job] = SENDING
    move(queue, s.rate.shape[0] + job, np.inf)
    jobs.sending[job] = jobs.entity[job + 1] - jobs.entity[job]
    for entity in range(jobs.entity[job], jobs.entity[job + 1]):
        p.left[entity] = amount
        p.since[entity] = now
        if p.weight[entity] != weight:
            _quicken(s, p, entity, weight / p.weight[entity])
            p.weight[entity] = weight
        enter(s, entity)


@compiled
def _quicken(s: Sharing, p: Progress, entity: int, factor: float) -> None:
    """Give an entity that is not sending `factor` times the share it had: so much more moves at each unit of rate."""
    for crossing in range(s.first[entity], s.first[entity + 1]):
        s.usage[crossing] *= factor
    s.cap[entity] /= factor
    p.scale[entity] /= factor


@compiled
def _sent(s: Sharing, queue: EventQueue, p: Progress, jobs: Jobs, entity: int, now: float) -> None:
    """An entity has sent all it had. The collective is over with the last of its job's entities."""
    p.sent[entity] += p.left[entity]
    p.left[entity] = 0.0
    p.since[entity] = now
    move(queue, entity, np.inf)
    leave(s, entity)
    job = p.job[entity]
    jobs.sending[job] -= 1
    if jobs.sending[job] == 0:
        if jobs.between[job]:
            jobs.stalled[job] += now - _ready_at(jobs, job, jobs.next_bucket[job] - 1)
        _await_bucket(s, queue, jobs, job, now)


@compiled
def _close(s: Sharing, queue: EventQueue, jobs: Jobs, job: int, now: float) -> bool:
    """An iteration is over. Records it and begins the next; True if it was the job's last."""
    iteration = jobs.done[job]
    last = bool(iteration + 1 == jobs.iterations[job])
    row = jobs.rows[jobs.row[job] + iteration]
    row.iteration = iteration
    row.start_s = jobs.began[job]
    row.compute_s = jobs.computing[job]
    row.gate_s = jobs.held[job]
    row.end_s = now
    jobs.spent_compute[job] += jobs.computing[job]
    jobs.spent_total[job] += now - jobs.began[job]
    jobs.spent_iterations[job] += 1
    jobs.done[job] = iteration + 1
    if last:
        jobs.phase[job] = DONE
        jobs.ended[job] = now
        move(queue, s.rate.shape[0] + job, np.inf)
    else:
        _begin(s, queue, jobs, job, now)
    return last
