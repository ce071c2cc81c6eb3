"""varys: the job with the smallest bottleneck first, its flows paced to end together.

After Varys (Chowdhury, Zhong and Stoica, SIGCOMM 2014): smallest effective bottleneck first (SEBF) and minimum
allocation for desired duration (MADD), both as recollected, not checked against the paper's text. One iteration's
collective is the coflow. Three things differ. Varys plans anew whenever a coflow comes or goes; here collectives come
and go all the time, and a plan holds until the next arrival, departure, link event or epoch. So a job's pace is that
of the whole links, not of what earlier jobs leave over: these compute meanwhile, and a cap would outlast their turn.
And what earlier jobs leave goes to later ones by strict levels (Varys's backfilling), equal runs of the order a level.
"""

from __future__ import annotations

import math
from collections import defaultdict

from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, JobState, Plan, Snapshot
from harmonics_emu.schedulers.link_loads import bottleneck_s, hashed_link_seconds
from harmonics_emu.schedulers.order_levels import balanced, level_option


def plan_varys(snapshot: Snapshot) -> Plan:
    """Levels in rising order of the bottleneck's seconds, and each job's rate: what its busiest host sends an
    iteration, over these seconds. Jobs that send nothing keep the default.

    Option `levels`, 1 to 7, default 7. UsageError for other options. Facts: bottleneck_s of each job.
    """
    levels = level_option("varys", snapshot.options)
    bottlenecks = {name: bottleneck_s(seconds) for name, seconds in hashed_link_seconds(snapshot).items()}
    sending = [state for state in snapshot.jobs if bottlenecks[state.job.name] > 0]
    ordered = sorted(sending, key=lambda state: (bottlenecks[state.job.name], state.job.index))
    return Plan(
        policy="varys",
        jobs={
            state.job.name: JobPlan(level=level, rate_bps=_rate_bps(state, bottlenecks[state.job.name]))
            for state, level in zip(ordered, balanced(len(ordered), levels), strict=True)
        },
        facts={"bottleneck_s": {state.job.name: bottlenecks[state.job.name] for state in ordered}},
    )


def _rate_bps(state: JobState, duration_s: float) -> int:
    """The rate at which the host that sends most is done after `duration_s`; those that send less are capped by it."""
    sent: defaultdict[str, float] = defaultdict(float)
    for (src, _), size in state.transfers.items():
        sent[src] += size
    return math.ceil(8 * max(sent.values()) / duration_s)


policy = FunctionPolicy("varys", "smallest bottleneck first, paced to end together (Varys, SIGCOMM 2014)", plan_varys)
