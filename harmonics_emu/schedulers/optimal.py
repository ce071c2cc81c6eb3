"""optimal: the best plan that can be found for all jobs to their ends, with a bound on what any plan could reach.

Every plan is judged by the fluid engine over all iterations to come. Judged are the plans of other policies, orders of
the jobs as levels on the paths that these chose and on balanced ones, and, for jobs that meet on one link, start times
that hold a job of an early level back until another has finished, from a search over schedules. The bound holds for
all schedules, also for those that no plan can say (schedulers.exact.bound). docs/schedulers/optimal.md tells more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from random import Random
from statistics import fmean
from typing import Any

from harmonics_emu.errors import HarmonicsError, UsageError
from harmonics_emu.scenario.quantities import parse_positive_time
from harmonics_emu.schedulers.exact.bound import Bound, bound_of
from harmonics_emu.schedulers.exact.held_starts import held_starts
from harmonics_emu.schedulers.exact.outlook import JobPlans, Outlook, look_ahead
from harmonics_emu.schedulers.exact.serial import compile_search
from harmonics_emu.schedulers.harmonics.spines import choose_spines, demands_of, routes_of
from harmonics_emu.schedulers.harmonics.views import tasks_of
from harmonics_emu.schedulers.interface import FunctionPolicy, HostPair, JobPlan, Plan, Snapshot
from harmonics_emu.schedulers.options import check_options
from harmonics_emu.schedulers.order_levels import MOST_LEVELS, balanced
from harmonics_emu.schedulers.registry import find_policy
from topologies.fabric import Path

SEEDS = ("fair", "crux", "srpt", "sincronia", "varys", "priority", "cassini")
"""Policies whose plans are tried first."""
SLOW_SEEDS = ("cassini",)
MANY_JOBS = 64
"""Jobs beyond which slow policies are not tried: one of them could take more than all the time."""
EVALUATIONS = 15
"""So many evaluations should be possible at least. Where runs to the jobs' ends would take longer, they end earlier."""
ITERATIONS_A_SECOND = 40_000
"""About what an evaluation manages."""
JOBS_IN_A_SECOND = 140
"""Jobs, about, of which an evaluation takes a third of a second however short it is. It grows with their square."""
TIME_LIMIT = "time_limit"
TIME_LIMIT_S = 10.0
BOUND_PART = 0.3
"""Of the time, at most so much goes into the bound."""
PROVEN = 1e-3
"""A plan within this of the bound, relative, counts as proven to be the best."""
ALL_ORDERS = 4
"""Jobs up to which every order is tried."""
FEW_LEVELS = (2, 3)
"""Where jobs are more than ALL_ORDERS, orders come to so many levels too: last ones then wait for fewer others."""
PATIENCE = 60
"""Random changes in a row that bring nothing, after which the search ends."""


@dataclass
class Search:
    """The best plan so far. found: seconds from the beginning, objective and source of each better one."""

    outlook: Outlook
    began: float
    deadline: float
    best: JobPlans = field(default_factory=dict)
    objective: float = math.inf
    found: list[dict[str, Any]] = field(default_factory=list)
    evaluations: int = 0
    slowest_s: float = 0.0

    def is_over(self) -> bool:
        """Whether one more evaluation might end after the deadline."""
        return time.monotonic() + self.slowest_s > self.deadline

    def judge(self, plans: JobPlans, source: str) -> bool:
        """Evaluate plans, and keep them if they are the best; True then."""
        began = time.monotonic()
        objective = self.outlook.objective(plans)
        now = time.monotonic()
        self.evaluations += 1
        self.slowest_s = max(self.slowest_s, now - began)
        if not objective < self.objective * (1 - 1e-9):
            return False
        self.best, self.objective = dict(plans), objective
        self.found.append({"after_s": round(now - self.began, 4), "objective": objective, "source": source})
        return True


def plan_optimal(snapshot: Snapshot) -> Plan:
    """Levels, paths and start times for the rest of all present jobs.

    Option `time_limit`, default 10s. UsageError for other options. Facts: objective (S of the present jobs as
    predicted, over their whole runs or the horizon), bound, gap, proven, how the bound follows, horizon_s,
    time_limit_s, evaluations, found, and whether the search ran out of time. With compute jitter, objective and bound
    are means over draws that are not the run's own. Where so many jobs leave no time for an evaluation, the plan is
    that of fair, and a fallback.
    """
    limit_s = _time_limit(snapshot.options)
    compile_search()
    began = time.monotonic()
    if len(snapshot.jobs) > JOBS_IN_A_SECOND * math.sqrt(limit_s):
        return Plan(policy="optimal", facts={"fallback": True, "time_limit_s": limit_s, "out_of_time": True})
    outlook = look_ahead(snapshot, limit_s / EVALUATIONS * ITERATIONS_A_SECOND)
    if outlook is None:
        return Plan(policy="optimal", facts={"objective": None, "bound": None, "time_limit_s": limit_s})
    search = Search(outlook, began, began + limit_s)
    paths = _try_seeds(search)
    bound = _bound(outlook, min(search.deadline, time.monotonic() + BOUND_PART * limit_s))
    for _ in _improvements(search, paths):
        if search.is_over() or search.objective <= bound.value * (1 + PROVEN):
            break
    return Plan(policy="optimal", jobs=search.best, facts=_facts(search, bound, limit_s))


def _time_limit(options: Mapping[str, Any]) -> float:
    check_options("optimal", options, TIME_LIMIT)
    if TIME_LIMIT not in options:
        return TIME_LIMIT_S
    try:
        return parse_positive_time(options[TIME_LIMIT])
    except ValueError as error:
        raise UsageError(f"policy.{TIME_LIMIT}: {error}") from None


def _bound(outlook: Outlook, deadline: float) -> Bound:
    """Of the objective; where it is a mean over draws, the bound is the mean of theirs."""
    bounds = []
    for number, draw in enumerate(outlook.draws):
        left_s = deadline - time.monotonic()
        bounds.append(bound_of(outlook.demands(draw), deadline - left_s * (1 - 1 / (len(outlook.draws) - number))))
    now = outlook.snapshot.time_s - outlook.origin_s
    # The bound counts from where each job goes on at the earliest, the objective from its submission.
    before = sum(rest.weight * (rest.spent_s + min(0.0, max(0.0, now) - rest.job.start_s)) for rest in outlook.rests)
    return replace(bounds[0], value=fmean(bound.value for bound in bounds) + before)


def _try_seeds(search: Search) -> list[dict[str, dict[HostPair, Path]]]:
    """Judge other policies' plans; returns the different choices of paths among them, hashed ones first."""
    snapshot = search.outlook.snapshot
    chosen: list[dict[str, dict[HostPair, Path]]] = [{}]
    for name in SEEDS:
        if search.evaluations and search.is_over():
            break
        if name in SLOW_SEEDS and len(snapshot.jobs) > MANY_JOBS:
            continue
        began = time.monotonic()
        try:
            plan = find_policy(name).plan(replace(snapshot, options={}))
        except HarmonicsError:
            continue
        search.judge(plan.jobs, name)
        search.slowest_s = max(search.slowest_s, time.monotonic() - began)
        paths = {job: dict(own.paths) for job, own in plan.jobs.items() if own.paths}
        if paths not in chosen:
            chosen.append(paths)
    return [*chosen, paths] if (paths := _balanced_paths(snapshot)) and paths not in chosen else chosen


def _balanced_paths(snapshot: Snapshot) -> dict[str, dict[HostPair, Path]]:
    """On the average over time; the search goes on from there."""
    demands = demands_of(tasks_of(snapshot), snapshot.fabric, snapshot.links_down)
    if not len(demands.rate):
        return {}
    return {job: dict(paths) for job, paths in routes_of(demands, choose_spines(demands)).items()}


def _improvements(search: Search, paths: Sequence[dict[str, dict[HostPair, Path]]]) -> Iterator[None]:
    """Judges one plan after another; each step is one evaluation."""
    names = [rest.job.name for rest in search.outlook.rests]
    orders = list(permutations(names)) if len(names) <= ALL_ORDERS else [tuple(_order(search.best, names))]
    for way, count, order in product(paths, _level_counts(names), orders):
        search.judge(_levels(order, way, count=count), "order")
        yield
    for way in paths:
        for order in orders[: math.factorial(ALL_ORDERS)]:
            if (starts := held_starts(search.outlook, order, way, search.deadline)) is not None:
                search.judge(_levels(order, way, starts), "held starts")
            yield
    yield from _random_changes(search, names)


def _random_changes(search: Search, names: Sequence[str]) -> Iterator[None]:
    """Small changes of the best plan: another order, a level shared, another path."""
    draw = Random(search.outlook.snapshot.seed)
    fabric = search.outlook.snapshot.fabric
    pairs = [
        (state.job.name, pair)
        for state in search.outlook.snapshot.jobs
        for pair in state.transfers
        if len(fabric.paths(*pair)) > 1
    ]
    in_vain = 0
    while in_vain < PATIENCE:
        plans = {name: search.best.get(name, JobPlan()) for name in names}
        if pairs and draw.random() < 0.5:
            name, pair = draw.choice(pairs)
            if name in plans:
                path = draw.choice(fabric.paths(*pair))
                plans[name] = replace(plans[name], paths={**plans[name].paths, pair: path})
        else:
            order = _order(plans, names)
            moved = order.pop(draw.randrange(len(order)))
            order.insert(draw.randrange(len(order) + 1), moved)
            ways = {name: dict(plan.paths) for name, plan in plans.items()}
            plans = dict(_levels(order, ways, count=draw.choice(_level_counts(names))))
        in_vain = 0 if search.judge(plans, "random change") else in_vain + 1
        yield


def _level_counts(names: Sequence[str]) -> tuple[int, ...]:
    return (MOST_LEVELS,) if len(names) <= ALL_ORDERS else (MOST_LEVELS, *FEW_LEVELS)


def _order(plans: JobPlans, names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: plans.get(name, JobPlan()).level)


def _levels(
    order: Sequence[str],
    paths: Mapping[str, Mapping[HostPair, Path]],
    starts: Mapping[str, tuple[float, ...]] | None = None,
    count: int = MOST_LEVELS,
) -> dict[str, JobPlan]:
    return {
        name: JobPlan(level=level, paths=paths.get(name, {}), starts_s=(starts or {}).get(name, ()))
        for name, level in zip(order, balanced(len(order), count), strict=True)
    }


def _facts(search: Search, bound: Bound, limit_s: float) -> dict[str, Any]:
    gap = search.objective / bound.value - 1 if bound.value > 0 else None
    return {
        "objective": search.objective,
        "bound": bound.value,
        "gap": gap,
        "proven": gap is not None and gap <= PROVEN,
        "bound_follows_from": bound.how,
        "horizon_s": search.outlook.horizon_s,
        "whole_runs": search.outlook.part == 1,
        "time_limit_s": limit_s,
        "out_of_time": search.is_over(),
        "evaluations": search.evaluations,
        "found": search.found,
        "draws": len(search.outlook.draws),
    }


policy = FunctionPolicy("optimal", "the best plan to be found for all jobs to their ends, with a bound", plan_optimal)
