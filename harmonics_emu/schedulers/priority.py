"""priority: strict priority levels as the scenario gives them (`jobs[].priority`, 0 is served first)."""

from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan, Snapshot
from harmonics_emu.schedulers.options import check_options
from workloads.job import DEFAULT_LEVEL


def plan_priority(snapshot: Snapshot) -> Plan:
    """Give each job its scenario level; jobs without one keep the default level.

    UsageError for any option but the engine's `epoch`.
    """
    check_options("priority", snapshot.options)
    levels = {state.job.name: DEFAULT_LEVEL if state.job.level is None else state.job.level for state in snapshot.jobs}
    return Plan(policy="priority", jobs={name: JobPlan(level=level) for name, level in levels.items()})


policy = FunctionPolicy("priority", "strict priority by the level each job has in the scenario", plan_priority)
