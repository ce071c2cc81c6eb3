"""The Global Coordinator's work for one epoch, whatever stands for the racks. Pure but for what those say."""

from __future__ import annotations

from harmonics_emu.emulate.answering import answer_of
from harmonics_emu.emulate.solving import Answer, Ask, Begin, snapshot_of
from harmonics_emu.schedulers.harmonics.epoch import Epoch, RackTier
from harmonics_emu.schedulers.harmonics.memory import Memory
from harmonics_emu.schedulers.harmonics.outcome import Outcome
from harmonics_emu.schedulers.harmonics.plan import plan_of
from harmonics_emu.schedulers.harmonics.rollout import compile_rollouts
from harmonics_emu.schedulers.harmonics.settings import settings_of
from harmonics_emu.schedulers.interface import FunctionPolicy, Plan, Snapshot


def coordinate(begin: Begin, ask: Ask, racks: RackTier, memory: Memory[Outcome] | None = None) -> Answer:
    """The plan of policy harmonics for what is asked, its Local Schedulers being `racks`.

    memory: of the run's earlier epochs, so that one in which little changed costs little.

    UsageError for options that the policy does not have, RunFailed for a plan that can't be carried out.
    """
    settings = settings_of(begin.options)
    compile_rollouts()

    def plan(snapshot: Snapshot) -> Plan:
        return plan_of(Epoch(snapshot, settings, racks, memory))

    return answer_of(FunctionPolicy(begin.policy, "two tiers, the lower one elsewhere", plan), snapshot_of(begin, ask))
