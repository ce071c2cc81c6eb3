"""harmonics: rack-level schedulers under a light coordinator, after Harmonics (CoNEXT 2025).

Local Schedulers see a rack each, the Global Coordinator fixes what crosses racks, and the Local Schedulers fit their
own jobs to that. What is from the paper's abstract and what is ours: docs/how-harmonics-works.md.
"""

from __future__ import annotations

from harmonics_emu.schedulers.harmonics.epoch import Epoch
from harmonics_emu.schedulers.harmonics.rollout import compile_rollouts
from harmonics_emu.schedulers.harmonics.settings import settings_of
from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan, Snapshot
from workloads.job import DEFAULT_LEVEL


def plan_harmonics(snapshot: Snapshot) -> Plan:
    """Levels, paths and start times of all jobs that send.

    Options as in settings.Settings; UsageError for others. Facts: critical_path_s, what a plan takes if each rack has a
    processor of its own, by step; objective, S of the present jobs over their whole runs as predicted, where all were
    judged together; fallback, whether the deadline cut a search short.
    """
    settings = settings_of(snapshot.options)
    compile_rollouts()
    return plan_of(Epoch(snapshot, settings))


def plan_of(epoch: Epoch) -> Plan:
    """Run an epoch, and say what came of it as a plan."""
    if not epoch.problem.tasks:
        return Plan("harmonics")
    outcome = epoch.run()
    plans = {
        task.name: JobPlan(
            level=outcome.levels.get(number, DEFAULT_LEVEL),
            paths=outcome.routes.get(task.name, {}),
            starts_s=tuple(start - task.pause_s for start in outcome.starts.get(number, ())),
        )
        for number, task in enumerate(epoch.problem.tasks)
    }
    facts = {
        "critical_path_s": epoch.watch.critical_path_s,
        "steps_s": epoch.watch.steps_s,
        "objective": outcome.cost,
        "fallback": outcome.late,
    }
    return Plan("harmonics", plans, facts)


policy = FunctionPolicy(
    "harmonics", "per-rack schedulers under a light coordinator (Harmonics, CoNEXT 2025)", plan_harmonics
)
