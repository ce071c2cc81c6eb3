"""A search for paths and levels together: which levels are good depends on where the jobs meet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from harmonics_emu.schedulers.harmonics.messages import View
from harmonics_emu.schedulers.harmonics.orders import levels_in, shared_links
from harmonics_emu.schedulers.harmonics.outcome import Outcome, by_number, cost_of, in_order
from harmonics_emu.schedulers.harmonics.rollout import Judge
from harmonics_emu.schedulers.harmonics.spines import Demands
from harmonics_emu.schedulers.harmonics.views import Routes
from harmonics_emu.schedulers.interface import Snapshot
from harmonics_emu.schedulers.order_levels import FIRST_LEVEL, MOST_LEVELS
from harmonics_emu.simulate.kernel.sharing import Flags
from workloads.job import DEFAULT_LEVEL

ITERATIONS = 20_000
"""Of all rollouts of one walk."""
WORK = 640_000
"""The same times jobs, at most: an iteration among more jobs takes longer."""
PATIENCE = 4
"""Steps in vain, by the number of transfers and jobs, that end it."""
MOST_PATHS = 64
"""Of the paths of a transfer, so many are tried."""


def walk(
    best: Outcome,
    snapshot: Snapshot,
    demands: Demands,
    views_on: Callable[[Routes], Sequence[View]],
    deadline: float,
    seed: int,
) -> Outcome:
    """One change after another of an outcome without start times, each kept if it brings something.

    demands: the transfers that have a choice. views_on: of all jobs on some routes, as rollouts are to see them.
    deadline: on the monotonic clock.
    """
    views = views_on(best.routes)
    best = replace(best, cost=Judge(views).cost(in_order(views[0], best.levels)))
    shared, count = shared_links(views[0]), len(views[0].jobs)
    of_job: dict[str, list[int]] = {}
    for transfer, owner in enumerate(demands.owner):
        of_job.setdefault(owner, []).append(transfer)
    jobs, draw, spent, in_vain = list(of_job), Random(seed), 0, 0
    while spent < min(ITERATIONS, WORK // count) and in_vain < PATIENCE * (len(demands.owner) + count):
        if time.monotonic() > deadline:
            return replace(best, late=True)
        in_vain += 1
        routes, levels = best.routes, best.levels
        match draw.randrange(3):
            case 0:
                routes = _rerouted(routes, snapshot, demands, [draw.randrange(len(demands.owner))], draw)
            case 1:
                routes = _rerouted(routes, snapshot, demands, of_job[draw.choice(jobs)], draw)
            case _:
                levels = _moved(levels, views[0], shared, draw)
        if (routes, levels) == (best.routes, best.levels):
            continue
        tried = views if routes is best.routes else views_on(routes)
        judge = Judge(tried)
        cost = judge.cost(in_order(tried[0], levels))
        spent += judge.spent
        if cost < cost_of(best):
            best, in_vain = replace(best, routes=routes, levels=levels, cost=cost), 0
            views, shared = tried, shared_links(tried[0])
    return best


def _rerouted(routes: Routes, snapshot: Snapshot, demands: Demands, transfers: Sequence[int], draw: Random) -> Routes:
    """All of some transfers on the path of one number, counted round, of those that are up."""
    number = draw.randrange(MOST_PATHS)
    found = {name: dict(paths) for name, paths in routes.items()}
    for transfer in transfers:
        src, dst = demands.pair[transfer]
        paths = [path for path in snapshot.fabric.paths(src, dst) if snapshot.links_down.isdisjoint(path)]
        found.setdefault(demands.owner[transfer], {})[src, dst] = paths[number % len(paths)]
    return found


def _moved(levels: Mapping[int, int], view: View, shared: Flags, draw: Random) -> dict[int, int]:
    """One job elsewhere in the order, or only on another level."""
    numbers = [job.number for job in view.jobs]
    order = sorted(range(len(numbers)), key=lambda position: levels.get(numbers[position], DEFAULT_LEVEL))
    position = order.pop(draw.randrange(len(order)))
    if draw.random() < 0.5:
        order.insert(draw.randrange(len(order) + 1), position)
        return by_number(view, levels_in(order, shared))
    return {**levels, numbers[position]: draw.randrange(FIRST_LEVEL, FIRST_LEVEL + MOST_LEVELS)}
