"""The plan that a policy makes for a scenario before anything has run: the library call behind `schedule`."""

from __future__ import annotations

import time
from dataclasses import dataclass

from harmonics_emu.errors import UsageError
from harmonics_emu.records import Decision
from harmonics_emu.scenario import Scenario
from harmonics_emu.schedulers.interface import JobState, Plan, Snapshot
from harmonics_emu.schedulers.registry import find_policy
from harmonics_emu.simulate.decisions import decide
from workloads.collectives import job_transfers

ENOUGH_S = 2.0
"""No further solve is begun once they have taken this long together."""


@dataclass(frozen=True)
class FirstPlan:
    """What a policy decided at `snapshot`: its plan of the first solve, and a decision for each solve."""

    snapshot: Snapshot
    plan: Plan
    decisions: tuple[Decision, ...]


def first_snapshot(scenario: Scenario) -> Snapshot:
    """The jobs with the earliest `start`, nothing measured yet; each one's first iteration begins when it comes."""
    fabric = scenario.fabric()
    first = min(section.start for section in scenario.file.jobs)
    present = [job for job, section in zip(scenario.jobs(), scenario.file.jobs, strict=True) if section.start == first]
    return Snapshot(
        time_s=first,
        fabric=fabric,
        jobs=tuple(
            JobState(job, job_transfers(job, fabric.rack_of), job.compute_s, next_start_s=job.start_s)
            for job in present
        ),
        seed=scenario.seed,
        background=scenario.background(),
        options=scenario.policy_options,
    )


def plan_first(scenario: Scenario, *, policy: str | None = None, solves: int = 1) -> FirstPlan:
    """Ask a policy (default: the scenario's own) for its first plan, up to `solves` times over to time it.

    UsageError if there is no such policy, if it refuses its options, or for less than one solve; RunFailed if the plan
    can't be carried out on the fabric.
    """
    if solves < 1:
        raise UsageError(f"{solves} solves give no plan; ask for at least 1")
    chosen = scenario if policy is None else scenario.with_policy(policy)
    snapshot, solver = first_snapshot(chosen), find_policy(chosen.policy)
    began = time.perf_counter()
    plan, decision = decide(solver, snapshot)
    decisions = [decision]
    while len(decisions) < solves and time.perf_counter() - began < ENOUGH_S:
        decisions.append(decide(solver, snapshot)[1])
    return FirstPlan(snapshot, plan, tuple(decisions))
