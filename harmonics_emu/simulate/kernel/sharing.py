"""Max-min fair rates within strict priority levels, found anew only where an event can have changed them.

An entity is a flow, or a collective whose flows move at one pace. At rate x it uses `usage * x` of each link that it
crosses. Rates of a level rise together until a link is full or an entity reaches its cap; a level takes what the
levels before it left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.simulate.kernel.jit import compiled

FULL = 1e-12
"""A link with less than this fraction of its capacity left is full: what remains is rounding."""
SAME = 1e-12
"""Rates that differ by less than this fraction are the same: the difference is rounding."""
NEVER = 2**63 - 1
UNTOUCHED = -1
QUEUED = 0

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Sharing(NamedTuple):
    """Who crosses which link, and the rates. E entities, L links, N crossings in entity order.

    first int64[E+1]: entity e's crossings are first[e]:first[e+1]. link int64[N], usage float64[N]: of each crossing.
    capacity float64[L], bytes/s. cap float64[E]: highest rate, may be infinite for an entity that crosses a link.
    level int64[E]: 0 is served first. rate float64[E]: 0 while not active.
    limit int64[E]: the link that keeps an active entity from a higher rate, -1 where its cap does.
    The active crossings of link l stand in member[base[l]:base[l]+members[l]], their entities in peer; slot says
    where a crossing stands. What follows `active` is scratch space of `reshare`, kept clean between calls.
    """

    first: Ints
    link: Ints
    usage: Floats
    capacity: Floats
    cap: Floats
    level: Ints
    rate: Floats
    limit: Ints
    base: Ints
    members: Ints
    member: Ints
    peer: Ints
    slot: Ints
    active: Flags
    counts: Ints
    queue: Ints
    queued: Flags
    fresh: Floats
    touched: Ints
    changed: Ints
    full_level: Ints
    full_rate: Floats
    free: Floats
    load: Floats
    open: Ints
    water: Floats
    source: Ints


def new_sharing(first: Ints, link: Ints, usage: Floats, capacity: Floats, cap: Floats, level: Ints) -> Sharing:
    """Entities and links with nobody active. Every entity must have a finite cap or cross a link."""
    entities, links, crossings = len(cap), len(capacity), len(link)
    base = np.zeros(links + 1, np.int64)
    np.cumsum(np.bincount(link, minlength=links), out=base[1:])
    return Sharing(
        first=first,
        link=link,
        usage=usage,
        capacity=capacity,
        cap=cap,
        level=level,
        rate=np.zeros(entities),
        limit=np.full(entities, -1, np.int64),
        base=base,
        members=np.zeros(links, np.int64),
        member=np.zeros(crossings, np.int64),
        peer=np.zeros(crossings, np.int64),
        slot=np.zeros(crossings, np.int64),
        active=np.zeros(entities, np.bool_),
        counts=np.zeros(1, np.int64),
        queue=np.zeros(entities, np.int64),
        queued=np.zeros(entities, np.bool_),
        fresh=np.zeros(entities),
        touched=np.zeros(links, np.int64),
        changed=np.full(links, UNTOUCHED, np.int64),
        full_level=np.full(links, NEVER, np.int64),
        full_rate=np.zeros(links),
        free=np.zeros(links),
        load=np.zeros(links),
        open=np.zeros(links, np.int64),
        water=np.zeros(links + entities),
        source=np.zeros(links + entities, np.int64),
    )


def rates_are_due(s: Sharing) -> bool:
    """Whether there are entities whose rates the next `reshare` will find."""
    return bool(s.counts[QUEUED] > 0)


@compiled
def _touch(s: Sharing, entity: int) -> None:
    """Have the next `reshare` find this entity's rate anew."""
    if not s.queued[entity]:
        s.queued[entity] = True
        s.queue[s.counts[QUEUED]] = entity
        s.counts[QUEUED] += 1


@compiled
def enter(s: Sharing, entity: int) -> None:
    """An entity begins to send. Those of its level and later ones that its links hold back may fall."""
    s.active[entity] = True
    for crossing in range(s.first[entity], s.first[entity + 1]):
        link = s.link[crossing]
        _touch_limited(s, link, s.level[entity])
        slot = s.base[link] + s.members[link]
        s.member[slot] = crossing
        s.peer[slot] = entity
        s.slot[crossing] = slot
        s.members[link] += 1
    _touch(s, entity)


@compiled
def leave(s: Sharing, entity: int) -> None:
    """An entity has nothing more to send. Those of its level and later ones that its links hold back may rise."""
    s.active[entity] = False
    s.rate[entity] = 0.0
    for crossing in range(s.first[entity], s.first[entity + 1]):
        link = s.link[crossing]
        s.members[link] -= 1
        last = s.base[link] + s.members[link]
        slot = s.slot[crossing]
        s.member[slot] = s.member[last]
        s.peer[slot] = s.peer[last]
        s.slot[s.member[slot]] = slot
        _touch_limited(s, link, s.level[entity])


@compiled
def _touch_limited(s: Sharing, link: int, level: int) -> None:
    for place in range(s.base[link], s.base[link] + s.members[link]):
        peer = s.peer[place]
        if s.limit[peer] == link and s.level[peer] >= level:
            _touch(s, peer)


@compiled
def reshare(s: Sharing) -> int:
    """Find the rates that events since the last call have changed. Returns how many entities were looked at.

    They stand in s.queue[:n] with their new rates in s.fresh; s.rate is left for the caller to change.

    Begins with the entities that the events touch and takes all others as they are. Where that turns out to be
    wrong for another entity (its limiting link has changed, or it has more than its share of a link that is now
    full), that one joins and the rates are found again. When nobody has to join, every entity meets a full link on
    which nobody of its level has more and later levels have nothing, or its cap: these are the max-min rates.
    """
    reached = _drop_inactive(s)
    while True:
        links = _gather(s, reached)
        level = _next_level(s, reached, -1)
        while level != NEVER:
            _fill(s, reached, level)
            level = _next_level(s, reached, level)
        grown = _join(s, reached, links)
        if grown == reached:
            break
        reached = grown
    for i in range(reached):
        s.queued[s.queue[i]] = False
    s.counts[QUEUED] = 0
    return reached


@compiled
def _drop_inactive(s: Sharing) -> int:
    """Take from the queue those that have left since. Returns how many stay."""
    stay = 0
    for i in range(s.counts[QUEUED]):
        entity = s.queue[i]
        if s.active[entity]:
            s.queue[stay] = entity
            stay += 1
        else:
            s.queued[entity] = False
    return stay


@compiled
def _next_level(s: Sharing, reached: int, level: int) -> int:
    """The first level after `level` that a queued entity has; NEVER if there is none."""
    following = NEVER
    for i in range(reached):
        candidate = s.level[s.queue[i]]
        if level < candidate < following:
            following = candidate
    return following


@compiled
def _gather(s: Sharing, reached: int) -> int:
    """List the links of the queued entities in s.touched, with what others leave free there. Returns their number."""
    links = 0
    for i in range(reached):
        entity = s.queue[i]
        for crossing in range(s.first[entity], s.first[entity + 1]):
            link = s.link[crossing]
            if s.changed[link] != UNTOUCHED:
                continue
            s.changed[link] = NEVER
            s.full_level[link] = NEVER
            s.touched[links] = link
            links += 1
            free = s.capacity[link]
            for place in range(s.base[link], s.base[link] + s.members[link]):
                if not s.queued[s.peer[place]]:
                    free -= s.usage[s.member[place]] * s.rate[s.peer[place]]
            s.free[link] = free
    return links


@compiled
def _join(s: Sharing, reached: int, links: int) -> int:
    """Queue the entities whose rates can't stay as they are beside the fresh ones. Returns how many are queued then."""
    for i in range(reached):
        entity = s.queue[i]
        if abs(s.fresh[entity] - s.rate[entity]) <= SAME * s.rate[entity]:
            s.fresh[entity] = s.rate[entity]
        else:
            for crossing in range(s.first[entity], s.first[entity + 1]):
                link = s.link[crossing]
                s.changed[link] = min(s.changed[link], s.level[entity])
    for i in range(links):
        link = s.touched[i]
        changed, full, rate = s.changed[link], s.full_level[link], s.full_rate[link] * (1 + SAME)
        s.changed[link] = UNTOUCHED
        for place in range(s.base[link], s.base[link] + s.members[link]):
            peer = s.peer[place]
            if s.queued[peer]:
                continue
            level = s.level[peer]
            if (
                (s.limit[peer] == link and level >= changed)
                or (level == full and s.rate[peer] > rate)
                or (level > full and s.rate[peer] > 0.0)
            ):
                s.queued[peer] = True
                s.queue[reached] = peer
                reached += 1
    return reached


@compiled
def _fill(s: Sharing, reached: int, level: int) -> None:
    """Raise the rates of the queued entities of one level together until each meets a full link or its cap.

    A heap holds the rate at which each link fills and each cap is met. When an entity stops, its links fill later,
    never sooner, so a stale entry is found when it comes up and is put back.
    """
    all_links = s.capacity.shape[0]
    size = 0
    waiting = 0
    for i in range(reached):
        entity = s.queue[i]
        if s.level[entity] != level:
            continue
        waiting += 1
        s.fresh[entity] = -1.0
        if s.cap[entity] < np.inf:
            s.water[size] = s.cap[entity]
            s.source[size] = all_links + entity
            size += 1
        for crossing in range(s.first[entity], s.first[entity + 1]):
            link = s.link[crossing]
            if s.open[link] == 0:
                s.load[link] = 0.0
                s.source[size] = link
                size += 1
            s.load[link] += s.usage[crossing]
            s.open[link] += 1
    for i in range(size):
        if s.source[i] < all_links:
            s.water[i] = _fills_at(s, s.source[i])
    for i in range(size // 2 - 1, -1, -1):
        _sink(s, i, size)
    while waiting > 0 and size > 0:
        source = s.source[0]
        if source >= all_links:
            entity = source - all_links
            if s.fresh[entity] < 0.0:
                _stop(s, entity, s.cap[entity], -1)
                waiting -= 1
        elif s.open[source] > 0:
            rate = _fills_at(s, source)
            if rate > s.water[0]:
                s.water[0] = rate
                _sink(s, 0, size)
                continue
            for place in range(s.base[source], s.base[source] + s.members[source]):
                entity = s.peer[place]
                if s.queued[entity] and s.level[entity] == level and s.fresh[entity] < 0.0:
                    _stop(s, entity, rate, source)
                    waiting -= 1
            s.free[source] = 0.0
            if s.full_level[source] == NEVER:
                s.full_level[source] = level
                s.full_rate[source] = rate
        size -= 1
        s.water[0] = s.water[size]
        s.source[0] = s.source[size]
        _sink(s, 0, size)


@compiled
def _fills_at(s: Sharing, link: int) -> float:
    """The rate of those still rising at which the link is full."""
    free = s.free[link]
    return free / s.load[link] if free > FULL * s.capacity[link] else 0.0


@compiled
def _stop(s: Sharing, entity: int, rate: float, limit: int) -> None:
    s.fresh[entity] = rate
    s.limit[entity] = limit
    for crossing in range(s.first[entity], s.first[entity + 1]):
        link = s.link[crossing]
        s.free[link] -= s.usage[crossing] * rate
        s.load[link] -= s.usage[crossing]
        s.open[link] -= 1


@compiled
def _sink(s: Sharing, hole: int, size: int) -> None:
    """Restore the heap order of the first `size` entries below `hole`."""
    water = s.water[hole]
    source = s.source[hole]
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and s.water[child + 1] < s.water[child]:
            child += 1
        if s.water[child] >= water:
            break
        s.water[hole] = s.water[child]
        s.source[hole] = s.source[child]
        hole = child
    s.water[hole] = water
    s.source[hole] = source
