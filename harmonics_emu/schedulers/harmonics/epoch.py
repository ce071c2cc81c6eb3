"""One epoch: racks report, the Coordinator fixes, racks fit. All in one process; the watch tells what would overlap."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from typing import Protocol

from harmonics_emu.schedulers.crux import select_paths
from harmonics_emu.schedulers.harmonics.global_coordinator import candidates_for_many, choose, order_few
from harmonics_emu.schedulers.harmonics.local_scheduler import LocalScheduler
from harmonics_emu.schedulers.harmonics.memory import Memory, known_of
from harmonics_emu.schedulers.harmonics.messages import EpochReport, Fitted, Fixed, View
from harmonics_emu.schedulers.harmonics.outcome import Outcome, by_number, cost_of, in_order
from harmonics_emu.schedulers.harmonics.rollout import Judge, Starts
from harmonics_emu.schedulers.harmonics.settings import Settings
from harmonics_emu.schedulers.harmonics.spines import Demands, choose_spines, demands_of, routes_of
from harmonics_emu.schedulers.harmonics.starts import groups_on_one_link, harmonised_starts, held_starts
from harmonics_emu.schedulers.harmonics.stopwatch import Stopwatch
from harmonics_emu.schedulers.harmonics.views import Crossings, Problem, Routes
from harmonics_emu.schedulers.harmonics.walk import walk
from harmonics_emu.schedulers.interface import Snapshot
from harmonics_emu.schedulers.order_levels import FIRST_LEVEL, MOST_LEVELS
from workloads.job import DEFAULT_LEVEL

FEW_JOBS = 64
"""Up to so many jobs that contend are judged together."""
ROUTED_JOBS = 12
"""Up to so many, orders are searched on several choices of routes; for more, on balanced ones."""
ROLLOUT_ITERATIONS, ROLLOUT_ITERATIONS_EACH = 150, 8
"""Of all jobs in one rollout, and of each, as far as it has so many: the first few don't show who waits for long."""
SEARCH_ITERATIONS = 3_000
"""Of all rollouts of a search for an order."""
WALKS = 2
"""Searches for paths and levels together, from the best that were found on different paths."""
FINAL_ITERATIONS = 600
"""Of one rollout of those that searches found to be the best."""
LAST_ITERATIONS = 2_000
"""Of the last rollouts, which compare with fair sharing once more: to the jobs' ends, if they suffice."""
DRAWS = 2
"""Of compute times, where they vary: none of them the run's own, which a policy must not know."""
WORTH, WORTH_WITH_JITTER = 1e-3, 1e-2
"""Start times must make a plan better by this part: they help less when a job drifts, and priorities don't."""
SLACKS = (0.0, 0.5, 1.0, 2.0)
"""Where iterations vary: how much longer than a collective its place may be, in standard deviations of an iteration."""
RACK_PART = 0.3
"""Of the time that is left, what a rack may take for its report."""
RACK_ITERATIONS = 40
"""Of all jobs of a rack in one rollout, as far as each keeps one."""


class RackTier(Protocol):
    """Local Schedulers that are elsewhere, asked all at once. A rack that says nothing in time may be left out.

    views: by rack. jobs: the names of those that views number. timeout_s: what racks may take.
    """

    def report(self, views: Mapping[int, View], jobs: Sequence[str], timeout_s: float) -> list[EpochReport]: ...

    def fit(self, views: Mapping[int, View], fixed: Fixed, timeout_s: float) -> list[Fitted]: ...


class Epoch:
    """The work for one snapshot. The deadline is for the critical path: each rack has what is left when it begins.

    racks: the Local Schedulers; None for racks that are planned for here, one after the other. memory: of earlier
    epochs; None to search anew whatever they found.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        racks: RackTier | None = None,
        memory: Memory[Outcome] | None = None,
    ) -> None:
        self.problem = Problem(snapshot)
        self._racks, self._memory = racks, memory or Memory()
        self.watch = Stopwatch()
        self._settings, self._seed = settings, snapshot.seed
        self._all = range(len(self.problem.tasks))
        self._rack_views: dict[int, View] = {}

    def run(self) -> Outcome:
        """The plan. Its cost is S of the tasks from now on if it stays to their ends."""
        known = known_of(self.problem.snapshot, self.problem.tasks)
        found = self._memory.recall(known)
        if found is None:
            found = self._search()
            self._memory.keep(known, found)
        if not self._settings.coordinator or len(self._all) > FEW_JOBS:
            return found
        return self.watch.one("starts", partial(self._finish, found))

    def _search(self) -> Outcome:
        """Levels and routes."""
        snapshot = self.problem.snapshot
        demands = demands_of(self.problem.tasks, snapshot.fabric, snapshot.links_down)
        balanced: Routes = {}
        if self._settings.coordinator and len(demands.rate):
            balanced = routes_of(demands, self.watch.one("spines", partial(choose_spines, demands)))
        if not self._settings.coordinator:
            return self._without_coordinator()
        if len(self._all) > FEW_JOBS:
            return self._many(balanced)
        choices: list[Routes] = [balanced]
        if balanced and len(self._all) <= ROUTED_JOBS:
            choices += [{}, self.watch.one("spines", self._routes_by_intensity)]
        bests = [self._best(self._few(routes)) for routes in choices]
        if not balanced:
            return bests[0]
        bests.sort(key=cost_of)
        return self._best(self.watch.one("routes", lambda: [self._walked(best, demands) for best in bests[:WALKS]]))

    def _best(self, outcomes: Sequence[Outcome]) -> Outcome:
        """On longer rollouts than those of the searches that found them: short ones flatter what was found by them."""
        return self.watch.one("coordinator", lambda: min(self._judged(outcomes), key=cost_of))

    def _judged(self, outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
        for routes, group in groupby(outcomes, key=lambda outcome: outcome.routes):
            views = self._views(self.problem.crossings(routes), self._all, FINAL_ITERATIONS)
            judge = Judge(views)
            for outcome in group:
                yield replace(outcome, cost=judge.cost(in_order(views[0], outcome.levels)))

    def _routes_by_intensity(self) -> Routes:
        """As Crux chooses them: jobs with the most work for each second of link first."""
        chosen = select_paths(self.problem.snapshot)
        return {job.state.job.name: dict(job.routing.paths) for job in chosen}

    def _deadline(self, part: float = 1.0) -> float:
        """On the monotonic clock, for work that begins now and may take this part of what is left."""
        return time.monotonic() + part * (self._settings.deadline_s - self.watch.critical_path_s)

    def _views(self, crossings: Crossings, tasks: Sequence[int], most: int | None = None) -> list[View]:
        """On all links, for each draw of compute times. most: iterations of all tasks, a rollout's unless named."""
        if most is None:
            most = max(ROLLOUT_ITERATIONS, ROLLOUT_ITERATIONS_EACH * len(tasks))
        draws = [self._seed + number for number in range(1, DRAWS + 1)] if self.problem.varies else [None]
        return [self.problem.whole_view(crossings, tasks, most // len(draws), draw) for draw in draws]

    def _reports(self, crossings: Crossings) -> list[EpochReport]:
        views = self._rack_views = self.problem.rack_views(crossings, RACK_ITERATIONS)
        racks = self._racks
        if racks is not None:
            jobs = [task.name for task in self.problem.tasks]
            timeout_s = self._deadline(RACK_PART) - time.monotonic()
            return self.watch.one("racks report", lambda: racks.report(views, jobs, timeout_s))
        return self.watch.side_by_side(
            "racks report",
            (partial(self._propose, rack, view) for rack, view in self._rack_views.items()),
        )

    def _propose(self, rack: int, view: View) -> EpochReport:
        return LocalScheduler(rack, self._seed).propose(0, view, self._deadline(RACK_PART))

    def _few(self, routes: Routes) -> list[Outcome]:
        """All tasks are judged together, on all their links."""
        crossings = self.problem.crossings(routes)
        reports = self._reports(crossings) if self._settings.local else []
        views = self._views(crossings, self._all)
        found = self.watch.one(
            "coordinator",
            partial(order_few, views, reports, SEARCH_ITERATIONS, self._deadline(0.5), self._seed, guard=False),
        )
        return [
            Outcome(routes, by_number(views[0], levels), {}, late=found.late)
            for levels in (found.levels, *found.runners_up)
        ]

    def _walked(self, best: Outcome, demands: Demands) -> Outcome:
        def views_on(routes: Routes) -> list[View]:
            return self._views(self.problem.crossings(routes), self._all)

        return walk(best, self.problem.snapshot, demands, views_on, self._deadline(0.5), self._seed)

    def _finish(self, best: Outcome) -> Outcome:
        """Start times, where they help, and a last look at fair sharing; both on longer rollouts."""
        crossings = self.problem.crossings(best.routes)
        views = self._views(crossings, self._all, LAST_ITERATIONS)
        judge, view = Judge(views), views[0]
        levels = in_order(view, best.levels)
        outcome = replace(best, cost=judge.cost(levels))
        if not self._settings.priorities:
            outcome = replace(outcome, levels={}, cost=judge.fair_cost())
        if self._settings.start_times:
            mean = self.problem.whole_view(crossings, self._all, LAST_ITERATIONS)
            outcome = self._with_starts(outcome, mean, judge, levels)
        if self._settings.guard:
            hashed = self._views(self.problem.crossings({}), self._all, LAST_ITERATIONS)
            fair = Outcome({}, cost=Judge(hashed).fair_cost(), late=outcome.late)
            # Where neither is better, levels keep the order when a job drifts.
            outcome = min(outcome, fair, key=cost_of)
        return outcome

    def _with_starts(self, outcome: Outcome, view: View, judge: Judge, levels: Sequence[int]) -> Outcome:
        deadline = self._deadline()
        to_the_ends = sum(job.iterations for job in view.jobs) == self.problem.iterations
        for group in groups_on_one_link(view):
            tried: list[Starts] = []
            # Held starts are of the iterations that are looked at, and of none after them.
            if self._settings.priorities and to_the_ends and (held := held_starts(view, group, levels, deadline)):
                tried.append(held)
            for starts in chain(tried, self._harmonised(view, group)):
                if time.monotonic() > deadline:
                    return replace(outcome, late=True)
                both = {**outcome.starts, **starts}
                cost = judge.cost(in_order(view, outcome.levels), both)
                if cost < cost_of(outcome) * (1 - (WORTH_WITH_JITTER if self.problem.varies else WORTH)):
                    outcome = replace(outcome, starts=both, cost=cost)
        return outcome

    def _harmonised(self, view: View, group: Sequence[int]) -> Iterator[Starts]:
        """To the jobs' ends."""
        tasks = [self.problem.tasks[job.number] for job in view.jobs]
        iterations = [task.iterations for task in tasks]
        for slack in (SLACKS if self.problem.varies else SLACKS[:1]) if self._settings.harmonisation else ():
            slack_s = [slack * task.jitter_s for task in tasks]
            yield from harmonised_starts(view, group, self._seed, slack_s, iterations)

    def _many(self, routes: Routes) -> Outcome:
        """Those that contend with few others are judged together, the rest by what the racks say."""
        if not self._settings.priorities:
            return Outcome(routes)
        crossings = self.problem.crossings(routes)
        levels: dict[int, int] = {}
        late = False
        entangled: list[int] = []
        for group in self.problem.components(crossings):
            if len(group) > FEW_JOBS:
                entangled += group
                continue
            views = self._views(crossings, group)
            found = self.watch.one(
                "coordinator",
                partial(order_few, views, [], SEARCH_ITERATIONS, self._deadline(), self._seed, self._settings.guard),
            )
            levels |= by_number(views[0], found.levels)
            late = late or found.late
        if entangled:
            more, much = self._entangled(crossings, sorted(entangled))
            levels |= more
            late = late or much
        return Outcome(routes, levels, late=late)

    def _entangled(self, crossings: Crossings, tasks: Sequence[int]) -> tuple[dict[int, int], bool]:
        settings, watch = self._settings, self.watch
        reports = self._reports(crossings) if settings.local else []
        figures = self.problem.figures(crossings, self.problem.crossing(tasks) if settings.local else tasks)
        fixed = watch.one("coordinator", partial(candidates_for_many, 0, figures, reports, settings.guard))
        if not settings.local:
            return dict(zip(fixed.numbers, fixed.levels[int(settings.guard)], strict=True)), False
        racks, views = self._racks, self._rack_views
        if racks is not None:
            timeout_s = self._deadline() - time.monotonic()
            fitted = watch.one("racks fit", lambda: racks.fit(views, fixed, timeout_s))
        else:
            fits = (partial(self._fit, rack, view, fixed) for rack, view in views.items())
            fitted = watch.side_by_side("racks fit", fits)
        best = watch.one("coordinator", partial(choose, fitted))
        levels = dict(zip(fixed.numbers, fixed.levels[best], strict=True))
        for rack in fitted:
            levels |= zip(rack.numbers, rack.levels[best], strict=True)
        return levels, any(report.late for report in reports)

    def _fit(self, rack: int, view: View, fixed: Fixed) -> Fitted:
        return LocalScheduler(rack, self._seed).fit(view, fixed, self._deadline())

    def _without_coordinator(self) -> Outcome:
        """Each job gets the place that the first of its racks wishes for it."""
        if not self._settings.priorities:
            return Outcome({})
        levels: dict[int, int] = {}
        # Nobody judges these levels together: behind background flows that fill a link, jobs would starve.
        last = DEFAULT_LEVEL if self.problem.snapshot.background else MOST_LEVELS
        reports = self._reports(self.problem.crossings({}))
        for report in reports:
            for wish in report.wishes:
                levels.setdefault(wish.number, FIRST_LEVEL + round(wish.place * (last - FIRST_LEVEL)))
        return Outcome({}, levels, late=any(report.late for report in reports))
