"""srpt: the job with the shortest remaining communication first.

The classic rule for the least mean completion time on one machine (Schrage, Operations Research 1968), applied to a
job's whole training: the communication of the iterations that it still has to do, each at the job's own pace. Levels
follow at each decision, so a job rises as it nears its end.
"""

from __future__ import annotations

from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan, Snapshot
from harmonics_emu.schedulers.link_loads import bottleneck_s, hashed_link_seconds
from harmonics_emu.schedulers.order_levels import first_ones_alone, level_option


def plan_srpt(snapshot: Snapshot) -> Plan:
    """The first levels - 1 jobs get a level each, the rest share the last. Jobs that send nothing keep the default.

    Option `levels`, 1 to 7, default 7. UsageError for other options. Facts: remaining_s of each job, seconds of
    communication in all its iterations to come, the one under way counted whole.
    """
    levels = level_option("srpt", snapshot.options)
    seconds = hashed_link_seconds(snapshot)
    remaining = {
        state.job.name: (state.job.iterations - state.iterations_done) * bottleneck_s(seconds[state.job.name])
        for state in snapshot.jobs
    }
    sending = [state.job for state in snapshot.jobs if remaining[state.job.name] > 0]
    ordered = sorted(sending, key=lambda job: (remaining[job.name], job.index))
    return Plan(
        policy="srpt",
        jobs={
            job.name: JobPlan(level=level)
            for job, level in zip(ordered, first_ones_alone(len(ordered), levels), strict=True)
        },
        facts={"remaining_s": {job.name: remaining[job.name] for job in ordered}},
    )


policy = FunctionPolicy("srpt", "shortest remaining communication first, by levels", plan_srpt)
