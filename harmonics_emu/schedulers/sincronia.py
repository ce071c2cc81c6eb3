"""sincronia: an order of jobs found from its end, bottleneck by bottleneck, kept by strict priority levels.

After Sincronia (Agarwal et al., SIGCOMM 2018), whose abstract says that with the right order any allocation of rates
that respects it is within 4 times the best mean completion time. The ordering (bottleneck-select-scale-iterate, BSSI)
and its mapping to levels are as recollected, not checked against the paper's text. One iteration's collective is the
coflow; directed links stand for ports, and seconds on a link for bytes at a port, since rates differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan, Snapshot
from harmonics_emu.schedulers.link_loads import LinkSeconds, hashed_link_seconds
from harmonics_emu.schedulers.order_levels import first_ones_alone, level_option


def plan_sincronia(snapshot: Snapshot) -> Plan:
    """The first levels - 1 jobs of the order get a level each, the rest share the last. Jobs that send nothing keep
    the default.

    Weights are the tenants' (`jobs[].weight`). Option `levels`, 1 to 7, default 7. UsageError for other options.
    Facts: order, names of jobs, first served first.
    """
    levels = level_option("sincronia", snapshot.options)
    seconds = hashed_link_seconds(snapshot)
    sending = [state.job for state in snapshot.jobs if seconds[state.job.name]]
    found = bssi_order([seconds[job.name] for job in sending], [job.weight for job in sending])
    names = [sending[place].name for place in found]
    return Plan(
        policy="sincronia",
        jobs={
            name: JobPlan(level=level) for name, level in zip(names, first_ones_alone(len(names), levels), strict=True)
        },
        facts={"order": names},
    )


def bssi_order(demands: Sequence[LinkSeconds], weights: Sequence[float]) -> list[int]:
    """Positions of the demands in the order in which they should be served; equal ones in the order given.

    From the last place to the first: on the link with most demand left, the last place goes to the one with the
    least weight for its demand there. The weights of the others fall in proportion to their demand on that link, as
    they have paid their part of being before it.
    """
    numbers: dict[str, int] = {}
    users: defaultdict[int, list[int]] = defaultdict(list)
    rows = []
    for position, demand in enumerate(demands):
        links = np.array([numbers.setdefault(link, len(numbers)) for link in demand], np.int64)
        rows.append((links, np.array(list(demand.values()), np.float64)))
        for link in links.tolist():
            users[link].append(position)
    left = np.zeros(len(numbers))
    for links, seconds in rows:
        left[links] += seconds
    weight = list(weights)
    unplaced = set(range(len(demands)))
    backwards: list[int] = []
    names = list(numbers)
    while left.any():
        link = int(left.argmax())
        here = [position for position in users[link] if position in unplaced]
        if not here:
            left[link] = 0.0  # what subtraction left over
            continue
        on_link = {position: demands[position][names[link]] for position in here}
        last = min(here, key=lambda position: (weight[position] / on_link[position], -position))
        price = weight[last] / on_link[last]
        for position in here:
            weight[position] -= price * on_link[position]
        links, seconds = rows[last]
        left[links] = np.maximum(left[links] - seconds, 0.0)
        unplaced.remove(last)
        backwards.append(last)
    return [*sorted(unplaced), *reversed(backwards)]


policy = FunctionPolicy(
    "sincronia", "an order found bottleneck by bottleneck, by levels (Sincronia, SIGCOMM 2018)", plan_sincronia
)
