"""What a policy decides for a scenario before anything has run: where movable jobs go, and its first plan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harmonics_emu.errors import UsageError
from harmonics_emu.records import Decision, Placing
from harmonics_emu.scenario import Scenario
from harmonics_emu.scenario.candidates import candidate_placements
from harmonics_emu.scenario.estimate import estimate_alone
from harmonics_emu.schedulers.interface import JobState, PlacingPolicy, Plan, Snapshot
from harmonics_emu.schedulers.registry import find_policy
from harmonics_emu.simulate.decisions import decide
from workloads.collectives import job_transfers
from workloads.job import Job

ENOUGH_S = 2.0
"""No further solve is begun once they have taken this long together."""
CANDIDATES = 10
"""Placements that a policy is given to choose from, at most: as many as CASSINI asks its host scheduler for."""


@dataclass(frozen=True)
class FirstPlan:
    """What a policy decided at `snapshot`: its plan of the first solve, and a decision for each solve.

    placing: where it put the jobs before, None if none may move.
    """

    snapshot: Snapshot
    plan: Plan
    decisions: tuple[Decision, ...]
    placing: Placing | None = None


def place(scenario: Scenario) -> tuple[Scenario, Placing | None]:
    """The scenario with its movable jobs where its policy puts them, once and for all, and the decision.

    The scenario itself and None where no job may move, or the policy chooses no placements. Pure but for the time it
    says the choice took: the scenario's seed draws the candidates.
    """
    policy = find_policy(scenario.policy) if scenario.movable else None
    if not isinstance(policy, PlacingPolicy):
        return scenario, None
    placements = candidate_placements(scenario, CANDIDATES)
    snapshots = [
        _snapshot(scenario, [replace(job, hosts=hosts.get(job.name, job.hosts)) for job in scenario.jobs()], 0.0)
        for hosts in placements
    ]
    began = time.perf_counter()
    choice = policy.choose_placement(snapshots)
    solve_s = time.perf_counter() - began
    default, chosen = placements[0], placements[choice.index]
    moved = [name for name in chosen if chosen[name] != default[name]]
    facts = {
        **choice.facts,
        "candidates": len(placements),
        "chosen": choice.index,
        "hosts": {name: list(hosts) for name, hosts in chosen.items()},
        "moved": moved,
    }
    plan = {"policy": policy.name, "jobs": {}, "facts": {"placement": facts}}
    decision = Decision(0.0, policy.name, solve_s, solve_s, plan)
    return scenario.with_placement(chosen), Placing(decision, {name: default[name] for name in moved})


def refuse_options(scenario: Scenario) -> None:
    """UsageError if the scenario's policy is not installed or refuses its options.

    Only policies know their options, and judge them when they plan: here for the first job, as if it were alone.
    """
    first = scenario.jobs()[0]
    find_policy(scenario.policy).plan(_snapshot(scenario, [first], first.start_s))


def first_snapshot(scenario: Scenario) -> Snapshot:
    """The jobs with the earliest `start`, nothing measured yet; each one's first iteration begins when it comes.

    Where jobs queue: those of them that get GPUs at once.
    """
    first = min(section.start for section in scenario.file.jobs)
    jobs = scenario.jobs()
    present = [job for job, section in zip(jobs, scenario.file.jobs, strict=True) if section.start == first]
    if scenario.queue is not None:
        lengths_s = [estimate_alone(scenario.fabric(), job).iteration_s * job.iterations for job in jobs]
        room = scenario.waiting_room(lengths_s)
        assert room is not None
        for job in present:
            room.arrive(job.index)
        present = [replace(jobs[index], hosts=hosts) for index, hosts in room.admit()]
    return _snapshot(scenario, present, first)


def _snapshot(scenario: Scenario, jobs: Sequence[Job], time_s: float) -> Snapshot:
    fabric = scenario.fabric()
    return Snapshot(
        time_s=time_s,
        fabric=fabric,
        jobs=tuple(
            JobState(job, job_transfers(job, fabric.rack_of), job.compute_s, next_start_s=job.start_s) for job in jobs
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
    chosen, placing = place(scenario if policy is None else scenario.with_policy(policy))
    snapshot, solver = first_snapshot(chosen), find_policy(chosen.policy)
    began = time.perf_counter()
    plan, decision = decide(solver, snapshot)
    decisions = [decision]
    while len(decisions) < solves and time.perf_counter() - began < ENOUGH_S:
        decisions.append(decide(solver, snapshot)[1])
    return FirstPlan(snapshot, plan, tuple(decisions), placing)
