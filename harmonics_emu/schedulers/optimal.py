"""optimal: the best plan that can be found for all jobs to their ends, with a bound on what any plan could reach.

Every plan is judged by the fluid engine over all iterations to come. Judged are the plans of other policies, orders of
the jobs as levels on the paths that these chose and on balanced ones, and, for jobs that meet on one link, start times
that hold a job of an early level back until another has finished, from a search over schedules. The bound holds for
all schedules, also for those that no plan can say (schedulers.exact.bound). docs/schedulers/optimal.md tells more.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from random import Random
from statistics import fmean
from typing import Any

from harmonics_emu.errors import HarmonicsError, UsageError
from harmonics_emu.scenario.quantities import parse_positive_time
from harmonics_emu.schedulers.exact.bound import Bound, bound_of
from harmonics_emu.schedulers.exact.outlook import JobPlans, Outlook, look_ahead
from harmonics_emu.schedulers.exact.quick import QuickOutlook
from harmonics_emu.schedulers.harmonics.rollout import compile_rollouts
from harmonics_emu.schedulers.harmonics.spines import choose_spines, demands_of, routes_of
from harmonics_emu.schedulers.harmonics.views import tasks_of
from harmonics_emu.schedulers.interface import FunctionPolicy, HostPair, JobPlan, Plan, Snapshot
from harmonics_emu.schedulers.options import check_options
from harmonics_emu.schedulers.order_levels import FIRST_LEVEL, MOST_LEVELS, balanced
from harmonics_emu.schedulers.registry import find_policy
from topologies.fabric import Fabric, Path

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
SAME = 1e-9
PATIENCE, LEAST_PATIENCE = 3, 60
"""Random changes in a row that bring nothing, by the number of jobs and choices of paths, after which the search goes
on elsewhere."""
KICK, KICKS = 4, 8
"""How many changes away from the best plan that is, and how often in a row without a better one."""


@dataclass
class Search:
    """The best plan so far. found: seconds from the beginning, objective and source of each better one.

    fair, exact_s: the objective of fair sharing, by the fluid engine, and how long that took. quick: once it is there,
    plans are judged by it, until `settle`; none of them has rates by then.
    """

    outlook: Outlook
    began: float
    deadline: float
    best: JobPlans = field(default_factory=dict)
    objective: float = math.inf
    fair: float = math.inf
    exact_s: float = 0.0
    found: list[dict[str, Any]] = field(default_factory=list)
    evaluations: int = 0
    slowest_s: float = 0.0
    quick: QuickOutlook | None = None

    def is_over(self) -> bool:
        """Whether one more evaluation might end after the deadline."""
        return time.monotonic() + self.slowest_s > self.deadline

    def judge(self, plans: JobPlans, source: str) -> float:
        """The objective of plans, which are kept if they are the best."""
        began = time.monotonic()
        judge = self.outlook.objective if self.quick is None else self.quick.of
        objective = judge(plans)
        now = time.monotonic()
        self.evaluations += 1
        self.slowest_s = max(self.slowest_s, now - began)
        if objective < self.objective * (1 - SAME):
            self.best, self.objective = dict(plans), objective
            self.found.append({"after_s": round(now - self.began, 4), "objective": objective, "source": source})
        return objective

    def settle(self, sure: JobPlans, objective: float) -> None:
        """The exact objective of the best plan, or `sure` with its own, if it turns out to be no worse."""
        exact = self.outlook.objective(self.best)
        self.best, self.objective = min((self.best, exact), (dict(sure), objective), key=lambda each: each[1])


def plan_optimal(snapshot: Snapshot) -> Plan:
    """Levels, paths and start times for the rest of all present jobs.

    Option `time_limit`, default 10s. UsageError for other options. Facts: objective (S of the present jobs as
    predicted, over their whole runs or the horizon), bound, gap, proven, how the bound follows, horizon_s,
    time_limit_s, evaluations, found, and whether the search ran out of time. With compute jitter, objective and bound
    are means over draws that are not the run's own. Where so many jobs leave no time for an evaluation, the plan is
    that of fair, and a fallback.
    """
    limit_s = _time_limit(snapshot.options)
    compile_rollouts()
    began = time.monotonic()
    if len(snapshot.jobs) > JOBS_IN_A_SECOND * math.sqrt(limit_s):
        return Plan(policy="optimal", facts={"fallback": True, "time_limit_s": limit_s, "out_of_time": True})
    outlook = look_ahead(snapshot, limit_s / EVALUATIONS * ITERATIONS_A_SECOND)
    if outlook is None:
        return Plan(policy="optimal", facts={"objective": None, "bound": None, "time_limit_s": limit_s})
    search = Search(outlook, began, began + limit_s)
    paths = _try_seeds(search)
    sure, objective = search.best, search.objective
    # One exact evaluation comes last.
    search.deadline -= search.exact_s
    search.quick = quick = QuickOutlook(outlook, search.fair)
    search.slowest_s = 0.0
    bound = _bound(outlook, min(search.deadline, time.monotonic() + BOUND_PART * limit_s))
    for _ in _improvements(search, quick, paths):
        if search.is_over() or search.objective <= bound.value * (1 + PROVEN):
            break
    out_of_time = search.is_over()
    search.settle(sure, objective)
    return Plan(policy="optimal", jobs=search.best, facts=_facts(search, bound, limit_s, out_of_time))


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
        if name == "fair":
            search.fair, search.exact_s = search.objective, search.slowest_s
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


def _improvements(
    search: Search, quick: QuickOutlook, paths: Sequence[dict[str, dict[HostPair, Path]]]
) -> Iterator[None]:
    """Judges one plan after another; each step is one evaluation."""
    names = [rest.job.name for rest in search.outlook.rests]
    orders = list(permutations(names)) if len(names) <= ALL_ORDERS else [tuple(_order(search.best, names))]
    for way, count, order in product(paths, _level_counts(names), orders):
        search.judge(_levels(order, way, count=count), "order")
        yield
    for way in paths:
        for order in orders[: math.factorial(ALL_ORDERS)]:
            if (starts := quick.held_starts(order, way, search.deadline)) is not None:
                search.judge(_levels(order, way, starts), "held starts")
            yield
    yield from _random_changes(search, names)


def _random_changes(search: Search, names: Sequence[str]) -> Iterator[None]:
    """Small changes as long as they bring something; then again, from a few changes away from the best plan."""
    draw = Random(search.outlook.snapshot.seed)
    of_job = _pairs_with_a_choice(search.outlook.snapshot, names)
    patience = max(LEAST_PATIENCE, PATIENCE * (len(names) + sum(map(len, of_job.values()))))
    here = _of_all(search.best, names)
    cost, in_vain, kicks = search.judge(here, "random change"), 0, 0
    while kicks <= KICKS:
        yield
        changed = _changed(here, of_job, search.outlook.snapshot.fabric, draw)
        best, other = search.objective, search.judge(changed, "random change")
        if other < cost * (1 - SAME):
            here, cost, in_vain = changed, other, 0
            kicks = 0 if search.objective < best else kicks
        elif (in_vain := in_vain + 1) > patience:
            here, in_vain, kicks = _of_all(search.best, names), 0, kicks + 1
            for _ in range(KICK):
                here = _changed(here, of_job, search.outlook.snapshot.fabric, draw)
            cost = search.judge(here, "random change")


def _of_all(plans: JobPlans, names: Sequence[str]) -> JobPlans:
    """With the default for jobs that a policy does not name, and without the rates that it says."""
    return {name: replace(plans.get(name, JobPlan()), rate_bps=None) for name in names}


def _pairs_with_a_choice(snapshot: Snapshot, names: Sequence[str]) -> dict[str, list[HostPair]]:
    found: defaultdict[str, list[HostPair]] = defaultdict(list)
    for state in snapshot.jobs:
        for pair in state.transfers:
            if state.job.name in names and len(snapshot.fabric.paths(*pair)) > 1:
                found[state.job.name].append(pair)
    return dict(found)


def _changed(plans: JobPlans, of_job: Mapping[str, Sequence[HostPair]], fabric: Fabric, draw: Random) -> JobPlans:
    """Another path for one transfer or all of a job, another level of a job, or its place in the order."""
    if of_job and draw.random() < 0.6:
        name = draw.choice(list(of_job))
        pairs = of_job[name] if draw.random() < 0.5 else [draw.choice(of_job[name])]
        number = draw.randrange(len(fabric.paths(*pairs[0])))
        others = {pair: (ways := fabric.paths(*pair))[number % len(ways)] for pair in pairs}
        return {**plans, name: replace(plans[name], paths={**plans[name].paths, **others})}
    names = list(plans)
    if draw.random() < 0.5:
        name = draw.choice(names)
        level = draw.randrange(FIRST_LEVEL, FIRST_LEVEL + MOST_LEVELS)
        return {**plans, name: replace(plans[name], level=level, starts_s=())}
    order = _order(plans, names)
    moved = order.pop(draw.randrange(len(order)))
    order.insert(draw.randrange(len(order) + 1), moved)
    return _levels(order, {name: plan.paths for name, plan in plans.items()}, count=draw.choice(_level_counts(names)))


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


def _facts(search: Search, bound: Bound, limit_s: float, out_of_time: bool) -> dict[str, Any]:
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
        "out_of_time": out_of_time,
        "evaluations": search.evaluations,
        "found": search.found,
        "draws": len(search.outlook.draws),
    }


policy = FunctionPolicy("optimal", "the best plan to be found for all jobs to their ends, with a bound", plan_optimal)
