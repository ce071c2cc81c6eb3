"""From orders of jobs to their levels, and the search for a better order."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
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
"""Moves in vain, by the number of jobs, after which a search begins elsewhere."""
KICK, KICKS = 3, 4
"""How many moves away, and how often."""
RUNNERS_UP = 5
"""Beside the best order: a longer rollout may see them in another order."""
ALL_ORDERS = 4
"""Up to so many jobs that share links, every order is tried."""


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

    late: whether the deadline ended the search. runners_up: the levels of the next best ones.
    """

    order: Order | None
    levels: tuple[int, ...]
    cost: float
    costs: tuple[float, ...]
    late: bool
    runners_up: tuple[tuple[int, ...], ...] = ()


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
    """The best of `orders` and fair sharing; then of all orders, or, for many jobs, of those that moves lead to.

    iterations: of rollouts, as far as the search may go beyond `orders`. deadline: on the monotonic clock, looked at
    between rollouts; the first one, of fair sharing, is always made. guard: whether fair sharing may be what is found.
    few_levels: orders come to so many levels; None for as many as jobs that share links need.
    The result depends on nothing else unless the deadline comes first.
    """
    shared, count = shared_links(view), len(view.jobs)

    def levels_for(order: Order) -> list[int]:
        return levels_in(order, shared) if few_levels is None else levels_of(order, few_levels)

    costs = [judge.fair_cost()]
    search = _Search(judge, levels_for, deadline)
    search.best = costs[0] if guard else math.inf, None, [DEFAULT_LEVEL] * count
    for order in orders:
        if search.late:
            break
        costs.append(search.cost(order))
    costs += [math.inf] * (len(orders) + 1 - len(costs))
    movable = np.flatnonzero(shared.sum(axis=1) > 1).tolist()
    first = search.best[1] or (orders[0] if orders else tuple(range(count)))
    if len(movable) <= ALL_ORDERS:
        others = tuple(place for place in range(count) if place not in movable)
        for start in permutations(movable):
            if search.late or judge.spent >= iterations:
                break
            search.cost((*start, *others))
    else:
        search.move(first, movable, iterations, Random(seed))
    levels = tuple(search.best[2])
    runners_up = tuple(other for other in search.ranked() if other != levels)[:RUNNERS_UP]
    return Found(search.best[1], levels, search.best[0], tuple(costs), search.late, runners_up)


class _Search:
    """The best order so far: its cost, itself (None for fair sharing), its levels."""

    def __init__(self, judge: Judge, levels_for: Callable[[Order], list[int]], deadline: float) -> None:
        self.best: tuple[float, Order | None, list[int]] = math.inf, None, []
        self._judge, self._levels_for, self._deadline = judge, levels_for, deadline
        self._known: dict[tuple[int, ...], float] = {}

    def ranked(self) -> list[tuple[int, ...]]:
        """All levels that were looked at, the best first."""
        return sorted(self._known, key=lambda levels: (self._known[levels], levels))

    @property
    def late(self) -> bool:
        return time.monotonic() > self._deadline

    def cost(self, order: Order) -> float:
        """Of an order, which becomes the best if it is; orders that come to the same levels are run once."""
        levels = self._levels_for(order)
        key = tuple(levels)
        if key not in self._known:
            self._known[key] = self._judge.cost(levels)
        if self._known[key] < self.best[0] * (1 - TIE):
            self.best = self._known[key], order, levels
        return self._known[key]

    def move(self, order: Order, movable: Sequence[int], iterations: int, draw: Random) -> None:
        """Move one job after another as long as that helps, then begin again some moves away from the best."""
        cost, in_vain, kicks = self.cost(order), 0, 0
        while kicks <= KICKS and self._judge.spent < iterations and not self.late:
            moved = _moved(order, draw.choice(movable), draw.randrange(len(order)))
            in_vain += 1
            if (other := self.cost(moved)) < cost * (1 - TIE):
                order, cost, in_vain = moved, other, 0
            elif in_vain == PATIENCE * len(movable):
                order, in_vain, kicks = self.best[1] or order, 0, kicks + 1
                for _ in range(KICK):
                    order = _moved(order, draw.choice(movable), draw.randrange(len(order)))
                cost = self.cost(order)


def _moved(order: Order, job: int, place: int) -> Order:
    others = [other for other in order if other != job]
    others.insert(place, job)
    return tuple(others)
