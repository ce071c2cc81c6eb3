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

import numpy as np

from harmonics_emu.schedulers.exact.kernel import Chains, Layer, empty_layer, expand, least_rests
from harmonics_emu.simulate.kernel.sharing import Floats

FINEST_BOX = 1 / 2000
"""Of the shortest link time of an iteration: the least difference of two states that is told apart."""
GREEDY_BOX_S = 1e-9
STATES = 4000
GREEDY_STATES = 100
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


def bounds(chains: Sequence[Chain], deadline: float = math.inf, states: int = STATES) -> Range:
    """What the best schedule of two or more chains costs. ValueError for fewer.

    deadline: on the monotonic clock; a search that it cuts short says less. states: most that are kept of a layer.
    """
    if len(chains) < 2:
        raise ValueError("one chain alone has nobody to wait for")
    arrays, first = _arrays(chains), _first_layer(chains)
    free = sum(chain.weight * (chain.start_s - min(c.start_s for c in chains)) for chain in chains)
    most = _greedy(arrays, first, GREEDY_STATES, deadline)
    least, complete = _relaxed(arrays, first, states, most, deadline)
    return Range(least - free, most - free, complete)


def _greedy(c: Chains, layer: Layer, states: int, deadline: float) -> float:
    """The cost of a good schedule: the cheapest states of each layer are followed up."""
    finished = np.inf
    after = empty_layer(layer.done.shape[1], states * ROOM)
    while layer.held[0] and time.monotonic() < deadline:
        end = expand(c, layer, after, GREEDY_BOX_S, False, finished)
        if end < 0:
            layer = _cheapest(c, layer, max(1, int(layer.held[0]) // 2))
            continue
        finished = min(finished, end)
        layer = _cheapest(c, after, states)
    return finished if not layer.held[0] else np.inf


def _relaxed(c: Chains, layer: Layer, states: int, limit: float, deadline: float) -> tuple[float, bool]:
    """A cost that no schedule is below, and whether all iterations were looked at."""
    finest = box = float(c.work.min()) * FINEST_BOX
    finished = limit
    after, spare = (empty_layer(layer.done.shape[1], states) for _ in range(2))
    while layer.held[0]:
        if time.monotonic() > deadline:
            rests = least_rests(c, layer)
            return min(finished, float((layer.cost[: len(rests)] + rests).min())), False
        end = expand(c, layer, after, box, True, limit)
        if end < 0:
            box *= 2
            continue
        finished = min(finished, end)
        layer, after, spare = after, spare, after
        if layer.held[0] < states // 4:
            box = max(finest, box / 2)
    return finished, True


def _cheapest(c: Chains, layer: Layer, states: int) -> Layer:
    count = int(layer.held[0])
    chosen = np.arange(count)
    if count > states:
        chosen = np.argpartition(layer.cost[:count] + least_rests(c, layer), states)[:states]
    return Layer(
        np.array([len(chosen)], np.int64),
        layer.done[chosen],
        layer.wait[chosen],
        layer.work[chosen],
        layer.cost[chosen],
        layer.table,
    )


def _first_layer(chains: Sequence[Chain]) -> Layer:
    begin = min(chain.start_s for chain in chains)
    layer = empty_layer(len(chains), 1)
    layer.held[0] = 1
    layer.wait[0] = [chain.start_s - begin + chain.length_s[0] for chain in chains]
    layer.work[0] = [sum(chain.link_s) for chain in chains]
    return layer


def _arrays(chains: Sequence[Chain]) -> Chains:
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
    )
