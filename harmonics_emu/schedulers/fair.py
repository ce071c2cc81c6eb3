"""fair: no plan at all. Every job has the same level, paths are hashed, and flows share links max-min."""

from harmonics_emu.schedulers.interface import FunctionPolicy, Plan, Snapshot


def plan_fair(snapshot: Snapshot) -> Plan:
    return Plan(policy="fair")


policy = FunctionPolicy("fair", "no plan: flows share links max-min, paths by hash", plan_fair)
