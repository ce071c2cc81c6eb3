"""Asks the policy at each decision point and puts its plan into force: switch rules, then host bands, then a check."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harmonics_emu.emulate import tc
from harmonics_emu.emulate.control import ControllerClient, RuleReport, network_state
from harmonics_emu.emulate.network import namespace_of
from harmonics_emu.errors import RunFailed
from harmonics_emu.records import Decision
from harmonics_emu.schedulers.interface import JobPlan, JobState, Plan, Policy, Snapshot
from topologies.fabric import Fabric
from workloads.collectives import job_transfers
from workloads.job import Background, Job

INSTALL_TIMEOUT_S = 20.0


@dataclass
class Decider:
    """One run's decision maker. `decide` is called at time zero and whenever jobs or links come and go.

    The emulator carries out levels and paths; a plan that asks for rates or start times is refused by name, since
    a plan that is half obeyed would be reported as if it had been obeyed.
    """

    fabric: Fabric
    jobs: Sequence[Job]
    background: Sequence[Background]
    policy: Policy
    options: dict[str, Any]
    seed: int
    controller: ControllerClient
    decisions: list[Decision] = field(default_factory=list)
    rules: list[RuleReport] = field(default_factory=list)
    links_down: frozenset[str] = frozenset()
    in_force: dict[str, JobPlan] = field(default_factory=dict)
    _installed_links_down: frozenset[str] | None = None

    def decide(self, time_s: float, active: Sequence[Job], iterations_done: dict[str, int]) -> Plan:
        """Make a plan for the active jobs and put it into force if it differs from the one before."""
        snapshot = Snapshot(
            time_s=time_s,
            fabric=self.fabric,
            jobs=tuple(_state(job, self.fabric, iterations_done.get(job.name, 0)) for job in active),
            seed=self.seed,
            background=tuple(self.background),
            links_down=self.links_down,
            options=self.options,
        )
        began = time.perf_counter()
        plan = self.policy.plan(snapshot)
        solve_s = time.perf_counter() - began
        self._refuse_what_is_not_enforced(plan)
        self.decisions.append(Decision(time_s, plan.policy, solve_s, solve_s, plan_facts(plan)))
        # A job that has ended keeps what it had: nothing of it flows, and its rules keep their counts.
        kept = {name: job for name, job in self.in_force.items() if name not in {job.name for job in active}}
        self._enforce({**kept, **{job.name: plan.of(job.name) for job in active}})
        return plan

    def level_of(self, job: str) -> int:
        """The level that a job has on the switches and hosts."""
        return self.in_force.get(job, JobPlan()).level

    def reinstall(self) -> None:
        """Put what was in force in force once more, after a switch daemon or the controller was started again."""
        wanted, self.in_force = self.in_force, {}
        self._enforce(wanted)

    def _enforce(self, wanted: dict[str, JobPlan]) -> None:
        if wanted == self.in_force and self.links_down == self._installed_links_down:
            return
        plan = Plan(policy=self.policy.name, jobs=wanted)
        state = network_state(self.fabric, self.jobs, plan, self.seed, self.links_down, self.background)
        self.rules = self.controller.install(state, INSTALL_TIMEOUT_S)
        changed = {job.index for job in self.jobs if plan.of(job.name).level != self.level_of(job.name)}
        for host in self.fabric.hosts:
            levels = {job.index: plan.of(job.name).level for job in self.jobs if host.name in job.hosts}
            if changed & levels.keys():
                tc.set_host_levels(namespace_of(host.name), levels)
        self.in_force, self._installed_links_down = wanted, self.links_down

    def _refuse_what_is_not_enforced(self, plan: Plan) -> None:
        for name, job in plan.jobs.items():
            if job.rate_bps is not None or job.starts_s:
                lever = "a rate" if job.rate_bps is not None else "start times"
                raise RunFailed(
                    f"policy {plan.policy} gives job {name!r} {lever}; the emulator carries out levels and paths only"
                )


def plan_facts(plan: Plan) -> dict[str, Any]:
    """A plan as JSON values, for decisions.jsonl."""
    jobs = {}
    for name, job in plan.jobs.items():
        facts = asdict(job)
        facts["paths"] = [{"src": src, "dst": dst, "links": list(path)} for (src, dst), path in job.paths.items()]
        facts["starts_s"] = list(job.starts_s)
        jobs[name] = facts
    return {"policy": plan.policy, "jobs": jobs, "facts": dict(plan.facts)}


def _state(job: Job, fabric: Fabric, iterations_done: int) -> JobState:
    return JobState(
        job=job,
        transfers=job_transfers(job, fabric.rack_of),
        compute_s=job.compute_s,
        iterations_done=iterations_done,
    )
