"""Jobs that need one link for themselves: the best schedule, and a proven bound on what any schedule costs.

The model: each iteration of a chain computes, its buckets become ready on the way, and each bucket then needs the link
for a fixed time; the next iteration begins when all is sent and computed. The link serves one at a time, may pass from
one to another at any moment and back again, and the cost is the weighted sum of the chains' ends.

Only few schedules have to be looked at. Ends never become worse if something happens earlier (whoever is ahead can
wait), and a pass of the link costs nothing. So the link is never idle while there is work: that would only make later
what can be now. Nor does it pass between chains while nothing becomes ready. Of two chains that are both served in
such a span, one completes its work first; serving that one first moves no completion back. Sharing a link at some
rates between them is serving them in turns. So it is enough to decide, whenever work is done or becomes ready, who is
served until the next such moment. Searched are the states after each iteration that ends, layer by layer.

Two states that differ little are made one: their times' componentwise minimum at the lower of both costs, which is no
worse than either. So a search that unites states gives a lower bound, however coarse; and so does one that stops
early, by the least that any state of the last layer leads to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from harmonics_emu.schedulers.exact.kernel import expand, least_rests
from harmonics_emu.schedulers.exact.states import Chains, Finished, Layer, empty_layer, no_end
from harmonics_emu.simulate.kernel.sharing import Floats, Ints

FINEST_BOX = 1 / 2000
"""Of the shortest link time of an iteration: the least difference of two states that is told apart."""
GREEDY_BOX_S = 1e-9
STATES = 4000
GREEDY_STATES = 100
ANY_SCHEDULE = np.empty(0, np.int64)
ROOM = 16
"""States that a layer has room for, by those that are kept of it."""


@dataclass(frozen=True)
class Chain:
    """One job as a link sees it.

    compute_s, length_s: float64[iterations], its compute and the least that it can last. ready: of each bucket, the
    fraction of compute after which it is ready. link_s: seconds that each bucket needs the link. weight: of its end in
    the cost. start_s: when its first iteration begins.
    """

    compute_s: Floats
    length_s: Floats
    ready: tuple[float, ...]
    link_s: tuple[float, ...]
    weight: float
    start_s: float


@dataclass(frozen=True)
class Range:
    """Weighted sum of the chains' times from start to end: of the best schedule it lies between the two.

    complete: the search for `least` saw all iterations.
    """

    least: float
    most: float
    complete: bool


@dataclass(frozen=True)
class Schedule:
    """cost: as in Range. releases: of each chain's iterations in order, when they are let at the link; 0 where nothing
    holds them. Iterations that are not listed are not held either.
    """

    cost: float
    releases: tuple[tuple[float, ...], ...]


@cache
def compile_search() -> None:
    """Have the search compiled, or loaded, before a clock starts: on a new machine that takes some seconds."""
    once = Chain(np.ones(1), np.full(1, 2.0), (1.0,), (1.0,), 1.0, 0.0)
    bounds([once, once])


def bounds(chains: Sequence[Chain], deadline: float = math.inf, states: int = STATES) -> Range:
    """What the best schedule of two or more chains costs. ValueError for fewer.

    deadline: on the monotonic clock; a search that it cuts short says less. states: most that are kept of a layer.
    """
    if len(chains) < 2:
        raise ValueError("one chain alone has nobody to wait for")
    free, most = _before_start(chains), reachable(chains, deadline)
    least, complete = _relaxed(chain_arrays(chains), first_layer(chains), states, most + free, deadline)
    return Range(least - free, most, complete)


def reachable(chains: Sequence[Chain], deadline: float = math.inf) -> float:
    """What a good schedule costs, in the terms of Range; infinity if the deadline came first."""
    found = _greedy(chain_arrays(chains), ANY_SCHEDULE, first_layer(chains), GREEDY_STATES, deadline)
    return math.inf if found is None else found.cost - _before_start(chains)


def good_schedule(
    chains: Sequence[Chain], levels: Sequence[int], deadline: float = math.inf, states: int = GREEDY_STATES
) -> Schedule | None:
    """A good schedule among those that fixed levels and held starts lead to; None if the deadline came first.

    levels: of each chain, 0 served first. ValueError for fewer than two chains.
    """
    if len(chains) < 2:
        raise ValueError("one chain alone has nobody to wait for")
    found = _greedy(chain_arrays(chains), np.array(levels, np.int64), first_layer(chains), states, deadline)
    if found is None:
        return None
    begin = min(chain.start_s for chain in chains)
    releases = tuple(tuple(begin + at if at > 0 else 0.0 for at in own) for own in found.releases)
    return Schedule(found.cost - _before_start(chains), releases)


def _before_start(chains: Sequence[Chain]) -> float:
    """What the cost counts of the time before each chain starts."""
    begin = min(chain.start_s for chain in chains)
    return sum(chain.weight * (chain.start_s - begin) for chain in chains)


def _greedy(c: Chains, level: Ints, layer: Layer, states: int, deadline: float) -> Schedule | None:
    """A good schedule: the cheapest states of each layer are followed up. None if the deadline came first."""
    best: tuple[int, Finished] | None = None
    layers = [layer]
    after = empty_layer(layer.done.shape[1], states * ROOM)
    while layers[-1].held[0]:
        if time.monotonic() > deadline:
            return None
        finished = no_end()
        limit = math.inf if best is None else float(best[1].cost[0])
        if not expand(c, level, layers[-1], after, finished, GREEDY_BOX_S, False, limit):
            layers[-1] = _cheapest(c, layers[-1], max(1, int(layers[-1].held[0]) // 2))
            continue
        if finished.cost[0] < limit:
            best = len(layers) - 1, finished
        layers.append(_cheapest(c, after, states))
    return None if best is None else Schedule(float(best[1].cost[0]), _releases(layers, *best))


def _releases(layers: Sequence[Layer], number: int, end: Finished) -> tuple[tuple[float, ...], ...]:
    """Follows a finished schedule back to its beginning."""
    found: list[list[float]] = [[] for _ in layers[0].done[0]]
    if end.last[0] >= 0:
        found[end.last[0]].append(float(end.rest[0]))
    found[end.over[0]].append(float(end.opened[0]))
    row = int(end.parent[0])
    for layer in reversed(layers[1 : number + 1]):
        found[layer.over[row]].append(float(layer.opened[row]))
        row = int(layer.parent[row])
    return tuple(tuple(reversed(own)) for own in found)


def _relaxed(c: Chains, layer: Layer, states: int, limit: float, deadline: float) -> tuple[float, bool]:
    """A cost that no schedule is below, and whether all iterations were looked at."""
    finest = box = float(c.work.min()) * FINEST_BOX
    least = limit
    after, spare = (empty_layer(layer.done.shape[1], states) for _ in range(2))
    while layer.held[0]:
        if time.monotonic() > deadline:
            rests = least_rests(c, layer)
            return min(least, float((layer.cost[: len(rests)] + rests).min())), False
        finished = no_end()
        if not expand(c, ANY_SCHEDULE, layer, after, finished, box, True, limit):
            box *= 2
            continue
        least = min(least, float(finished.cost[0]))
        layer, after, spare = after, spare, after
        if layer.held[0] < states // 4:
            box = max(finest, box / 2)
    return least, True


def _cheapest(c: Chains, layer: Layer, states: int) -> Layer:
    held = int(layer.held[0])
    chosen = np.arange(held)
    if held > states:
        chosen = np.argpartition(layer.cost[:held] + least_rests(c, layer), states)[:states]
    rows = {name: getattr(layer, name)[chosen] for name in Layer._fields if name not in ("held", "table")}
    return Layer(held=np.array([len(chosen)], np.int64), table=layer.table, **rows)


def first_layer(chains: Sequence[Chain]) -> Layer:
    begin = min(chain.start_s for chain in chains)
    layer = empty_layer(len(chains), 1)
    layer.held[0] = 1
    layer.wait[0] = [chain.start_s - begin + chain.length_s[0] for chain in chains]
    layer.work[0] = [sum(chain.link_s) for chain in chains]
    return layer


def chain_arrays(chains: Sequence[Chain]) -> Chains:
    counts = [len(chain.compute_s) for chain in chains]
    buckets = [len(chain.ready) for chain in chains]
    return Chains(
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        compute=np.concatenate([chain.compute_s for chain in chains]),
        length=np.concatenate([chain.length_s for chain in chains]),
        later=np.concatenate([chain.length_s[::-1].cumsum()[::-1] - chain.length_s for chain in chains]),
        bucket=np.concatenate([[0], np.cumsum(buckets)]).astype(np.int64),
        ready=np.concatenate([chain.ready for chain in chains]),
        until=np.concatenate([np.cumsum(chain.link_s) for chain in chains]),
        work=np.array([sum(chain.link_s) for chain in chains]),
        weight=np.array([chain.weight for chain in chains]),
        endless=False,
        price=0.0,
    )
