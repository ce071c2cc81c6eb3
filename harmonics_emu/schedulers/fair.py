"""fair: no plan at all. Every job has the same level, paths are hashed, and flows share links max-min."""

from harmonics_emu.schedulers.interface import FunctionPolicy, Plan, Snapshot
from harmonics_emu.schedulers.options import check_options


def plan_fair(snapshot: Snapshot) -> Plan:
    """No plan. UsageError for any option but the engine's `epoch`."""
    check_options("fair", snapshot.options)
    return Plan(policy="fair")


policy = FunctionPolicy("fair", "no plan: flows share links max-min, paths by hash", plan_fair)
