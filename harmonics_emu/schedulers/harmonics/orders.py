"""Orders in which jobs are served: those that rules give, their levels, and the search for better ones."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from harmonics_emu.schedulers.harmonics.messages import JobView, View
from harmonics_emu.schedulers.harmonics.rollout import Judge
from harmonics_emu.schedulers.order_levels import FIRST_LEVEL, MOST_LEVELS
from harmonics_emu.simulate.kernel.sharing import Flags, Floats, Ints
from workloads.job import DEFAULT_LEVEL

Order = tuple[int, ...]
"""Positions of jobs in their view, the first to be served first."""
TIE = 1e-6
"""Costs that differ by less, relatively, are equal: what was found first stays."""
PATIENCE = 6
"""Moves in vain, by the number of jobs, after which a search ends."""


@dataclass(frozen=True)
class Figures:
    """What rules look at, all [jobs]. send_s: what a collective takes if the job is alone. weight: of each second."""

    number: Ints
    compute_s: Floats
    send_s: Floats
    weight: Floats
    iterations: Ints
    ranks: Ints


RULES: Mapping[str, Callable[[Figures], Floats]] = {
    "weight-of-wait": lambda of: -of.weight / of.send_s,
    "weight": lambda of: -of.weight,
    "remaining": lambda of: of.iterations * (of.compute_s + of.send_s),
    "short": lambda of: of.send_s,
    "intensity": lambda of: -of.compute_s * of.ranks / of.send_s,
    "duty": lambda of: of.send_s / (of.compute_s + of.send_s),
}
"""What jobs are sorted by: the least is served first. Each is best somewhere.

A collective makes others wait as long as it takes. So 'weight-of-wait' has the least weight wait (Smith's rule for one
machine), 'short' the least time; 'weight' serves those first whose every second counts most; 'remaining' those that
will soon be gone; 'intensity' is the work for each second of link of Crux; 'duty' those that leave links free for long.
"""


def figures_of(view: View) -> Figures:
    """Of the jobs of a view."""
    return Figures(
        number=np.array([job.number for job in view.jobs], np.int64),
        compute_s=np.array([sum(job.compute_s) / len(job.compute_s) for job in view.jobs], np.float64),
        send_s=np.array([alone_s(job, view.capacity) for job in view.jobs], np.float64),
        weight=np.array([job.weight for job in view.jobs], np.float64),
        iterations=np.array([job.iterations for job in view.jobs], np.int64),
        ranks=np.array([job.ranks for job in view.jobs], np.int64),
    )


def alone_s(job: JobView, capacity: Mapping[int, float]) -> float:
    """Seconds that a collective takes if nobody shares the job's links."""
    pace = min((capacity[link] / use for link, use in zip(job.links, job.usage, strict=True)), default=math.inf)
    rate = min(job.cap, pace)
    return sum(job.bucket_bytes) * job.scale / rate if rate > 0 else math.inf


def rule_orders(figures: Figures) -> list[Order]:
    """In the order of RULES. Equal jobs come in the order of their numbers, everywhere."""
    return [tuple(np.lexsort((figures.number, score(figures))).tolist()) for score in RULES.values()]


def shared_links(view: View) -> Flags:
    """[jobs, jobs]: which jobs have a link in common."""
    place = {link: number for number, link in enumerate(view.capacity)}
    uses = np.zeros((len(view.jobs), len(place)), np.float32)
    for number, job in enumerate(view.jobs):
        uses[number, [place[link] for link in job.links]] = 1
    return uses @ uses.T > 0


def levels_in(order: Sequence[int], shared: Flags) -> list[int]:
    """Levels of jobs by position. Jobs that share a link get different ones, as far as there are enough."""
    layer = np.zeros(len(shared), np.int64)
    for place in order:
        layer[place] = 1 + layer[shared[place]].max(initial=0)
    depth = int(layer.max(initial=1))
    if depth > MOST_LEVELS:
        layer = 1 + (layer - 1) * MOST_LEVELS // depth
    levels: list[int] = (FIRST_LEVEL - 1 + layer).tolist()
    return levels


@dataclass(frozen=True)
class Found:
    """The best of the orders that were looked at. order: None for fair sharing. costs: of fair, then of those given.

    late: whether the deadline ended the search.
    """

    order: Order | None
    levels: tuple[int, ...]
    cost: float
    costs: tuple[float, ...]
    late: bool


def best_order(
    view: View,
    judge: Judge,
    orders: Sequence[Order],
    iterations: int,
    deadline: float,
    seed: int,
    guard: bool = True,
) -> Found:
    """The best of `orders` and fair sharing; then single jobs move to other places while that brings something.

    iterations: of rollouts, as far as the search may go beyond `orders`. deadline: on the monotonic clock, looked at
    between rollouts; the first one, of fair sharing, is always made. guard: whether fair sharing may be what is found.
    The result depends on nothing else unless the deadline comes first.
    """
    shared, count = shared_links(view), len(view.jobs)
    costs = [judge.fair_cost()]
    best: tuple[float, Order | None, list[int]] = costs[0] if guard else math.inf, None, [DEFAULT_LEVEL] * count
    for order in orders:
        if time.monotonic() > deadline:
            break
        levels = levels_in(order, shared)
        costs.append(judge.cost(levels))
        if costs[-1] < best[0] * (1 - TIE):
            best = costs[-1], order, levels
    late = len(costs) <= len(orders)
    costs += [math.inf] * (len(orders) + 1 - len(costs))
    movable = np.flatnonzero(shared.sum(axis=1) > 1).tolist()
    order = best[1] or (orders[0] if orders else tuple(range(count)))
    draw, in_vain = Random(seed), 0
    while len(movable) > 1 and judge.spent < iterations and in_vain < PATIENCE * len(movable) and not late:
        moved = _moved(order, draw.choice(movable), draw.randrange(count))
        levels = levels_in(moved, shared)
        in_vain += 1
        if levels != best[2] and (cost := judge.cost(levels)) < best[0] * (1 - TIE):
            best, order, in_vain = (cost, moved, levels), moved, 0
        late = time.monotonic() > deadline
    return Found(best[1], tuple(best[2]), best[0], tuple(costs), late)


def _moved(order: Order, job: int, place: int) -> Order:
    others = [other for other in order if other != job]
    others.insert(place, job)
    return tuple(others)
