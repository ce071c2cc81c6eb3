"""A bound for jobs that need one link for themselves and are there for long: what delays they cause a second, for ever.

Until the first of them can be at its end, all jobs go on; and jobs without jitter do the same again and again. So how
many iterations each has done can be forgotten, and states be told apart finely by where each job is in its iteration.

Let D be the weighted delays so far, and charge a price for each second: if D - price x t is never below some number,
whatever the schedule, then D at any time is at least that number plus the price of the time. States are followed, as
in schedulers.exact.serial, over as many ends of iterations as there can be; the least D - price x t of all of them is
such a number.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from harmonics_emu.schedulers.exact.kernel import expand, least_rests
from harmonics_emu.schedulers.exact.serial import ANY_SCHEDULE, Chain, chain_arrays, first_layer, reachable
from harmonics_emu.schedulers.exact.states import Chains, Layer, empty_layer, no_end

STATES = 4000
FINEST_BOX = 1 / 200
"""Of the shortest iteration: the least difference of two states that is told apart."""
PRICES = (0.94, 0.89)
"""Tried, as parts of the delays a second of a good schedule."""


def endless_bound(chains: Sequence[Chain], deadline: float = math.inf, states: int = STATES) -> float:
    """No schedule's weighted sum of times from start to end is below it. ValueError for chains with jitter."""
    if any(np.ptp(chain.compute_s) > 0 for chain in chains):
        raise ValueError("a chain whose iterations differ does not go on for ever")
    alone = sum(chain.weight * float(chain.length_s.sum()) for chain in chains)
    most_delay = reachable(chains, deadline) - alone
    until = min(chain.start_s + float(chain.length_s.sum()) for chain in chains)
    until -= min(chain.start_s for chain in chains)
    best = 0.0
    if most_delay < math.inf:
        for part in PRICES:
            best = max(best, _delays(chains, part * most_delay / until, most_delay, until, states, deadline))
    return alone + best


def _delays(
    chains: Sequence[Chain], price: float, most_delay: float, until: float, states: int, deadline: float
) -> float:
    """The weighted delays that any schedule has caused at time `until`, at the least.

    Schedules that have caused more than `most_delay` need no look. In the others so many iterations have ended that
    earlier states need none either.
    """
    c = chain_arrays(
        [Chain(one.compute_s[:1], one.length_s[:1], one.ready, one.link_s, one.weight, one.start_s) for one in chains]
    )._replace(endless=True, price=price)
    layer = first_layer(chains)
    starts = np.array([chain.start_s for chain in chains]) - min(chain.start_s for chain in chains)
    ahead = float((c.weight * (c.length + starts)).sum())
    # By then some iteration has ended: the longest, with the link's work for all others in between.
    last_end = until - float(c.length.max() + c.work.sum())
    ends = (last_end - starts) / c.length
    fewest = ends.sum() - len(chains) - most_delay / float((c.weight * c.length).min())
    box = float(c.length.min()) * FINEST_BOX
    after, spare = (empty_layer(len(chains), states) for _ in range(2))
    least = most_delay
    for number in range(1, int(((until - starts) / c.length + 1).sum()) + 1):
        while not expand(c, ANY_SCHEDULE, layer, after, no_end(), box, True, np.inf):
            box *= 1.5
        if time.monotonic() > deadline:
            return 0.0
        if number >= fewest:
            so_far = float((after.cost[: after.held[0]] + least_rests(c, after)).min()) - ahead
            least = min(least, so_far + price * last_end)
        layer, after, spare = _worth_following(c, after), spare, after
    return max(0.0, least) if fewest >= 1 else 0.0


def _worth_following(c: Chains, layer: Layer) -> Layer:
    """Leaves out states that the cheapest one is better than, even if it waits until it is as far as they are."""
    held = int(layer.held[0])
    cost = layer.cost[:held]
    first = int(cost.argmin())
    wait = (layer.wait[first] - layer.wait[:held]).max(axis=1).clip(min=0)
    work = (layer.work[first] - layer.work[:held]).clip(min=0).sum(axis=1)
    rate = float(c.weight.sum()) - c.price
    kept = np.flatnonzero(cost < cost[first] + rate * (wait + work))
    kept = np.append(kept, first)
    rows = {name: getattr(layer, name)[kept] for name in Layer._fields if name not in ("held", "table")}
    return Layer(held=np.array([len(kept)], np.int64), table=layer.table, **rows)
