"""The upper tier: one order, or few levels, that all racks agree on for the jobs that cross them.

Where few jobs contend, directly or through others, the Coordinator judges orders by rollouts of them all, beginning
with what the racks wish. Where many do, rollouts would take too long: then the racks' costs, added up, choose between
a handful of candidates that follow from the jobs' figures, in time near-linear in jobs and reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harmonics_emu.schedulers.harmonics.figures import RULES, Figures, Order, figures_of, rule_order, rule_orders
from harmonics_emu.schedulers.harmonics.messages import EpochReport, Fitted, Fixed, View, Wishes
from harmonics_emu.schedulers.harmonics.orders import Found, best_order, levels_of
from harmonics_emu.schedulers.harmonics.rollout import Judge
from harmonics_emu.simulate.kernel.sharing import Floats
from workloads.job import DEFAULT_LEVEL

FEW_LEVELS = 3
"""Among many entangled jobs a strict order makes the last ones wait for whole chains of others. Fewer levels don't."""
MIDDLE = 0.5
STRICT_JOBS = 12
"""Up to so many, a strict order is all that is tried."""
LEAST_STAKE = 1e-9
MOST_STAKE = 1e6
"""What a place costs at most: infinity, where others would starve a job, would leave nothing of other wishes."""


def order_few(
    views: Sequence[View], reports: Sequence[EpochReport], iterations: int, deadline: float, seed: int, guard: bool
) -> Found:
    """The order of jobs that contend with each other on any of their links.

    views: of all of them on all their links, one for each draw of compute times. iterations: of rollouts.
    guard: whether fair sharing is what stays if no order is better.
    """
    figures = figures_of(views[0])
    orders = rule_orders(figures)
    if reports:
        orders.insert(0, _order(figures, merged_places(figures, reports)))
    judge = Judge(views)
    entangled = len(figures.number) > STRICT_JOBS
    most = iterations // 2 if entangled else iterations
    found = best_order(views[0], judge, orders, most, deadline, seed, guard)
    if entangled:
        other = best_order(views[0], judge, orders, iterations, deadline, seed, guard, FEW_LEVELS)
        first, second = sorted((found, other), key=lambda one: one.cost)
        found = replace(first, runners_up=(*first.runners_up, second.levels, *second.runners_up))
    return found


def candidates_for_many(epoch: int, figures: Figures, reports: Sequence[EpochReport], guard: bool) -> Fixed:
    """What racks are asked to choose from: fair sharing; the rule that costs all racks the least; what they wish.

    A rack, which sees its own links alone, finds a strict order better than it is: none is among them.
    """
    levels = [(DEFAULT_LEVEL,) * len(figures.number)] if guard else []
    order = rule_order(figures, _best_rule(reports))
    levels += [tuple(levels_of(order, 2)), tuple(levels_of(order, FEW_LEVELS))]
    wished = _order(figures, merged_places(figures, reports))
    levels.append(tuple(levels_of(wished, FEW_LEVELS)))
    return Fixed(epoch, tuple(figures.number.tolist()), tuple(levels))


def choose(fitted: Sequence[Fitted]) -> int:
    """The candidate that costs all racks together the least; the first of equal ones."""
    return int(np.array([rack.costs for rack in fitted]).sum(axis=0).argmin())


def _best_rule(reports: Sequence[EpochReport]) -> str:
    """By name. Racks that the deadline kept from trying a rule have no say in it."""
    names = list(RULES)
    if not reports:
        return names[0]
    costs = np.array([report.rule_costs for report in reports])
    extra = np.where(np.isfinite(costs[:, 1:]), costs[:, 1:] - costs[:, :1], 0.0)
    return names[int(extra.sum(axis=0).argmin())] if extra.size else names[0]


def merged_places(figures: Figures, reports: Sequence[EpochReport]) -> Floats:
    """The place of each job, the mean of what racks wish, each as heavy as anything else would cost it."""
    number, place, first_cost, last_cost = Wishes.joined([report.wishes for report in reports]).columns()
    stake = np.minimum(np.abs(first_cost) + np.abs(last_cost), MOST_STAKE) + LEAST_STAKE
    jobs = int(max(figures.number.max(initial=0), number.max(initial=0))) + 1
    # Jobs that no rack reports of stay in the middle.
    total = np.bincount(number, stake, minlength=jobs) + LEAST_STAKE
    places: Floats = (np.bincount(number, stake * place, minlength=jobs) + LEAST_STAKE * MIDDLE) / total
    return places[figures.number]


def _order(figures: Figures, places: Floats) -> Order:
    return tuple(np.lexsort((figures.number, places)).tolist())
