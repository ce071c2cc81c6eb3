"""Puts a plan into force on the standing fabric: switch rules, then the queues of hosts' NICs, each read back.

What is in force already is not touched. Start times are not carried out here but by the jobs' gates (see `gates`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harmonics_emu.emulate.control import ControllerClient, RuleReport, network_state
from harmonics_emu.emulate.job_queues import JobQueues, Lane
from harmonics_emu.schedulers.interface import JobPlan, Plan
from topologies.fabric import Fabric
from workloads.job import Background, Job

INSTALL_TIMEOUT_S = 20.0


class Enforcer:
    """What one run's fabric has been told. in_force: each job's plan, without start times.

    A plan that could not be installed, since the controller was gone, stays wanted: `reinstall` has it installed.
    """

    def __init__(
        self,
        fabric: Fabric,
        jobs: Sequence[Job],
        background: Sequence[Background],
        seed: int,
        controller: ControllerClient,
        queues: JobQueues,
    ) -> None:
        self._fabric, self._jobs, self._background, self._seed = fabric, jobs, background, seed
        self._queues = queues
        self.controller = controller
        self.rules: list[RuleReport] = []
        self.in_force: dict[str, JobPlan] = {}
        self.links_down: frozenset[str] = frozenset()
        self._installed: tuple[dict[str, JobPlan], frozenset[str]] | None = None

    def enforce(self, plans: Mapping[str, JobPlan]) -> float:
        """Have these jobs' plans in force beside those of all others, and rules that avoid links that are down.

        Returns the seconds that it took. Raises WireError where the controller is gone, ControllerError, ShapingError
        or NetlinkError where something is not as wanted afterwards.
        """
        began = time.monotonic()
        self.in_force = {**self.in_force, **{name: replace(plan, starts_s=()) for name, plan in plans.items()}}
        self._install()
        self._queues.set(self._lanes())
        return time.monotonic() - began

    def reinstall(self) -> None:
        """Put the rules in force once more, after a switch daemon or the controller was started again."""
        self._installed = None
        self._install()

    def level_of(self, job: str) -> int:
        """The level that a job has on the switches and hosts."""
        return self.in_force.get(job, JobPlan()).level

    def _install(self) -> None:
        wanted = ({name: replace(plan, rate_bps=None) for name, plan in self.in_force.items()}, self.links_down)
        if wanted == self._installed:
            return
        plan = Plan("in force", wanted[0])
        state = network_state(self._fabric, self._jobs, plan, self._seed, self.links_down, self._background)
        self._installed = None
        self.rules = self.controller.install(state, INSTALL_TIMEOUT_S)
        self._installed = wanted

    def _lanes(self) -> dict[str, dict[int, Lane]]:
        lanes: dict[str, dict[int, Lane]] = {}
        for job in self._jobs:
            plan = self.in_force.get(job.name)
            if plan is not None:
                for host in job.hosts:
                    lanes.setdefault(host, {})[job.index] = Lane(plan.level, plan.rate_bps)
        return lanes
