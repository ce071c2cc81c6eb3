"""What `optimal` searches by: rollouts, many times quicker than the fluid engine, which has the last word."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from harmonics_emu.schedulers.exact.outlook import JobPlans, Outlook
from harmonics_emu.schedulers.harmonics.rollout import Judge
from harmonics_emu.schedulers.harmonics.starts import groups_on_one_link, held_starts
from harmonics_emu.schedulers.harmonics.views import Problem, Routes
from harmonics_emu.schedulers.interface import JobPlan

ROUTES_KEPT = 64
"""Choices of paths whose crossings are kept ready."""


class QuickOutlook:
    """The objective of plans without rates, and start times for given levels.

    exact: the objective of the plan that says nothing. It sets what all plans have in common: jobs that send nothing,
    and what is spent.
    """

    def __init__(self, outlook: Outlook, exact: float) -> None:
        self._problem = Problem(outlook.snapshot)
        self._most = math.ceil(outlook.part * self._problem.iterations)
        self._draws = outlook.draws if self._problem.varies else (None,)
        self._judges: dict[object, Judge] = {}
        self._common = 0.0
        self._common = exact - self.of({})

    def of(self, plans: JobPlans) -> float:
        """Infinity if a job would stall."""
        own = [plans.get(task.name, JobPlan()) for task in self._problem.tasks]
        judge = self._judge({task.name: plan.paths for task, plan in zip(self._problem.tasks, own, strict=True)})
        starts = {number: plan.starts_s for number, plan in enumerate(own) if plan.starts_s}
        return self._common + judge.cost([own[job.number].level for job in judge.jobs], starts)

    def held_starts(
        self, order: Sequence[str], paths: Routes, deadline: float
    ) -> Mapping[str, tuple[float, ...]] | None:
        """By job, absolute release times of its next collectives, if levels follow `order`.

        None if there is nothing to hold, or no time. Jobs get none that share links with others whose slowest link is
        another one.
        """
        crossings = self._problem.crossings(paths)
        view = self._problem.whole_view(crossings, range(len(self._problem.tasks)), self._most)
        names = [self._problem.tasks[job.number].name for job in view.jobs]
        # A job whose last collective is under way is in no order.
        levels = [order.index(name) if name in order else len(order) for name in names]
        found: dict[str, tuple[float, ...]] = {}
        for group in groups_on_one_link(view):
            starts = held_starts(view, group, levels, deadline) or {}
            found |= {self._problem.tasks[number].name: own for number, own in starts.items()}
        return found or None

    def _judge(self, routes: Routes) -> Judge:
        key = tuple((name, tuple(sorted(paths.items()))) for name, paths in routes.items())
        if key not in self._judges:
            while len(self._judges) >= ROUTES_KEPT:
                del self._judges[next(iter(self._judges))]
            crossings, every = self._problem.crossings(routes), range(len(self._problem.tasks))
            most = self._most
            self._judges[key] = Judge([self._problem.whole_view(crossings, every, most, draw) for draw in self._draws])
        return self._judges[key]
