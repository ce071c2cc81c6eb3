"""When jobs were at work on links, as byte counters tell it.

A shared link's counter can't say which job a byte was of. So a job's part in it is read where its data ends: at the
last links before the hosts that it reaches through the shared one, if no other job's hosts lie there. What arrives
there has just left the shared link, and so its queue.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harmonics_emu.evidence.link_spans import crossing
from harmonics_emu.evidence.recorded_run import RecordedRun
from harmonics_emu.evidence.segments import Floats, Intervals, union
from harmonics_emu.records import LinkBytes
from harmonics_emu.simulate.routing import Router

FEW_BYTES = 200
"""So few are late acknowledgements, not a collective."""


def sending_by_counters(recorded: RecordedRun, link: str, jobs: Sequence[str]) -> dict[str, Intervals] | None:
    """From when to when each of some jobs was at work on a directed link; None where that can't be told.

    It can if the run's counters were read often and each job has the hosts that it reaches over the link to itself.
    """
    counters = recorded.run.records.link_bytes
    if counters is None or len(counters.time_s) < 3:
        return None
    router = Router(recorded.fabric, recorded.run.result.seed)
    found = {}
    for job in recorded.jobs:
        if job.name not in jobs:
            continue
        paths = crossing(recorded, router, job).get(link, set())
        ends = sorted({path[-1] for path in paths} & recorded.fabric.links.keys())
        others = {host for other in recorded.jobs if other.name != job.name for host in other.hosts}
        if not ends or any(recorded.fabric.links[end].dst in others for end in ends):
            return None
        found[job.name] = _bursts(counters, ends, recorded.iterations[job.name].between_s)
    return found


def _bursts(counters: LinkBytes, links: Sequence[str], between_s: Floats) -> Intervals:
    """From the first to the last bytes between two moments each.

    They came at some time between two readings. The middle is taken, which is right on the mean of many.
    """
    columns = [counters.links.index(link) for link in links]
    carried = np.diff(counters.bytes[:, columns].sum(axis=1))
    middle_s = (counters.time_s[1:] + counters.time_s[:-1]) / 2
    used_s = middle_s[carried > FEW_BYTES]
    number = np.searchsorted(between_s, used_s)
    inside = (number > 0) & (number < len(between_s))
    used_s, number = used_s[inside], number[inside]
    first = np.flatnonzero(np.diff(number, prepend=-1))
    last = np.concatenate([first[1:] - 1, [len(number) - 1]]) if len(first) else first
    return union(np.column_stack([used_s[first], used_s[last]]))
