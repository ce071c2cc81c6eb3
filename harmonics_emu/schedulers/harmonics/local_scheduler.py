"""The lower tier: what one rack wants for its links, and how it fits its own jobs to what was fixed for all.

A rack sees its own links alone. Jobs that leave it are taken to find the rest of the fabric free; what that misses, the
Global Coordinator makes up for, which hears all racks.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass

from harmonics_emu.schedulers.harmonics.figures import figures_of, rule_orders
from harmonics_emu.schedulers.harmonics.messages import EpochReport, Fitted, Fixed, View, Wish, Wishes
from harmonics_emu.schedulers.harmonics.orders import Found, best_order
from harmonics_emu.schedulers.harmonics.rollout import Judge
from harmonics_emu.schedulers.order_levels import FIRST_LEVEL, MOST_LEVELS
from workloads.job import DEFAULT_LEVEL

SEARCH_ITERATIONS = 300
"""Of all rollouts of a rack's search for an order."""
CURVE_ITERATIONS = 300
"""Of all rollouts for cost curves: two for each job that crosses racks would be quadratic in jobs."""
MIDDLE = 0.5


@dataclass(frozen=True)
class LocalScheduler:
    """One rack's. A value: all it knows comes with each call, so that it can die and come back at any time."""

    rack: int
    seed: int = 0

    def propose(self, epoch: int, view: View, deadline: float) -> EpochReport:
        """Search the rack's order of its jobs, and report what place it gives each job.

        deadline: on the monotonic clock. When it comes, the best that was found so far is wished for: at worst fair
        sharing, and no cost curves.
        """
        judge = Judge([view])
        orders = rule_orders(figures_of(view))
        found = best_order(view, judge, orders, SEARCH_ITERATIONS, deadline, self.seed + self.rack)
        curves, late = self._curves(view, judge, found, deadline)
        wishes = [
            Wish(job.number, place, *curves.get(position, (0.0, 0.0)))
            for position, (job, place) in enumerate(zip(view.jobs, _places(found, len(view.jobs)), strict=True))
        ]
        return EpochReport(self.rack, epoch, found.costs, Wishes.of(wishes), found.late or late)

    def _curves(
        self, view: View, judge: Judge, found: Found, deadline: float
    ) -> tuple[dict[int, tuple[float, float]], bool]:
        """By position, what it costs more to serve a job first, and last; and whether the deadline came before the end.

        Of jobs that cross racks: those first on whose time the most depends, as far as CURVE_ITERATIONS last.
        """
        crossing = [position for position, job in enumerate(view.jobs) if job.crosses]
        crossing.sort(key=lambda position: -view.jobs[position].weight * view.jobs[position].iterations)
        most = judge.spent + CURVE_ITERATIONS
        curves: dict[int, tuple[float, float]] = {}
        for position in crossing:
            if judge.spent >= most:
                break
            if time.monotonic() > deadline:
                return curves, True
            first, last = list(found.levels), list(found.levels)
            first[position], last[position] = FIRST_LEVEL - 1, MOST_LEVELS
            curves[position] = judge.cost(first) - found.cost, judge.cost(last) - found.cost
        return curves, False

    def fit(self, view: View, fixed: Fixed, deadline: float) -> Fitted:
        """The levels of the jobs that were not fixed, for each candidate: each in turn where it costs the least.

        When the deadline comes, they stay in the middle of those that were fixed.
        """
        place = _places_in(fixed.numbers, view)
        free = [position for position, job in enumerate(view.jobs) if job.number not in place]
        judge = Judge([view])
        costs, chosen = [], []
        for candidate in fixed.levels:
            given = [candidate[place[job.number]] for job in view.jobs if job.number in place]
            middle = sorted(given)[len(given) // 2] if given else DEFAULT_LEVEL
            levels = [candidate[place[job.number]] if job.number in place else middle for job in view.jobs]
            cost = judge.cost(levels)
            for position in free if len(set(given)) > 1 else ():
                for level in sorted({min(given), max(given)} - {middle}):
                    if time.monotonic() > deadline:
                        break
                    tried = [*levels[:position], level, *levels[position + 1 :]]
                    if (better := judge.cost(tried)) < cost:
                        cost, levels = better, tried
            costs.append(cost)
            chosen.append(tuple(levels[position] for position in free))
        numbers = tuple(view.jobs[position].number for position in free)
        return Fitted(self.rack, fixed.epoch, tuple(costs), numbers, tuple(chosen))


def _places_in(numbers: tuple[int, ...], view: View) -> dict[int, int]:
    """Where the view's jobs stand among the numbers of all racks' jobs, which rise; those that do not are left out."""
    found = {job.number: bisect_left(numbers, job.number) for job in view.jobs}
    return {number: at for number, at in found.items() if at < len(numbers) and numbers[at] == number}


def _places(found: Found, jobs: int) -> list[float]:
    """Of each job by position: 0 for the first of the order, 1 for the last; all in the middle if none was better."""
    places = [MIDDLE] * jobs
    for rank, position in enumerate(found.order or ()):
        places[position] = rank / max(1, jobs - 1)
    return places
