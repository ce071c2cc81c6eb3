"""A policy's plan as the answer to a supervisor's question, wherever the policy runs."""

from __future__ import annotations

from dataclasses import replace

from harmonics_emu.emulate.solving import Answer
from harmonics_emu.schedulers.interface import Policy, Snapshot
from harmonics_emu.simulate.decisions import decide


def answer_of(policy: Policy, snapshot: Snapshot) -> Answer:
    """Have the policy plan. RunFailed if the plan can't be carried out or recorded, and what the policy raises."""
    plan, decision = decide(policy, snapshot)
    plain = replace(
        plan,
        jobs={name: replace(job, level=int(job.level)) for name, job in plan.jobs.items()},
        facts=decision.plan["facts"],
    )
    return Answer(plain, decision.solve_s, decision.critical_path_s, decision.fallback)
