"""From orders of jobs to their levels, and the search for a better order."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from harmonics_emu.schedulers.harmonics.figures import Order
from harmonics_emu.schedulers.harmonics.messages import View
from harmonics_emu.schedulers.harmonics.rollout import Judge
from harmonics_emu.schedulers.order_levels import FIRST_LEVEL, MOST_LEVELS
from harmonics_emu.simulate.kernel.sharing import Flags
from workloads.job import DEFAULT_LEVEL

TIE = 1e-6
"""Costs that differ by less, relatively, are equal: what was found first stays."""
PATIENCE = 6
"""Moves in vain, by the number of jobs, after which a search ends."""


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


def levels_of(order: Sequence[int], levels: int) -> list[int]:
    """Levels of jobs by position: equal parts of the order, whoever shares links."""
    rank = np.empty(len(order), np.int64)
    rank[list(order)] = np.arange(len(order))
    found: list[int] = (FIRST_LEVEL + rank * levels // max(1, len(order))).tolist()
    return found


def best_order(
    view: View,
    judge: Judge,
    orders: Sequence[Order],
    iterations: int,
    deadline: float,
    seed: int,
    guard: bool = True,
    few_levels: int | None = None,
) -> Found:
    """The best of `orders` and fair sharing; then single jobs move to other places while that brings something.

    iterations: of rollouts, as far as the search may go beyond `orders`. deadline: on the monotonic clock, looked at
    between rollouts; the first one, of fair sharing, is always made. guard: whether fair sharing may be what is found.
    few_levels: orders come to so many levels; None for as many as jobs that share links need.
    The result depends on nothing else unless the deadline comes first.
    """
    shared, count = shared_links(view), len(view.jobs)

    def levels_for(order: Sequence[int]) -> list[int]:
        return levels_in(order, shared) if few_levels is None else levels_of(order, few_levels)

    costs = [judge.fair_cost()]
    best: tuple[float, Order | None, list[int]] = costs[0] if guard else math.inf, None, [DEFAULT_LEVEL] * count
    for order in orders:
        if time.monotonic() > deadline:
            break
        levels = levels_for(order)
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
        levels = levels_for(moved)
        in_vain += 1
        if levels != best[2] and (cost := judge.cost(levels)) < best[0] * (1 - TIE):
            best, order, in_vain = (cost, moved, levels), moved, 0
        late = time.monotonic() > deadline
    return Found(best[1], tuple(best[2]), best[0], tuple(costs), late)


def _moved(order: Order, job: int, place: int) -> Order:
    others = [other for other in order if other != job]
    others.insert(place, job)
    return tuple(others)
