"""When jobs communicated on each directed link, as the iteration spans of their ranks tell it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np

from harmonics_emu.evidence.contention import Use
from harmonics_emu.evidence.paces import Paces
from harmonics_emu.evidence.recorded_run import Iterations, RecordedRun
from harmonics_emu.evidence.segments import Intervals, union
from harmonics_emu.simulate.entities import job_flows
from harmonics_emu.simulate.routing import Router
from topologies.fabric import Fabric, Path
from workloads.job import Job


def spans_on_links(recorded: RecordedRun) -> dict[str, dict[str, Use]]:
    """Each directed link to the jobs that crossed it, with when they communicated: bytes as the scenario has them.

    Where plans moved a job between paths, it counts on all of them at all times.
    """
    paces, found = Paces(recorded), {}  # type: tuple[Paces, dict[str, dict[str, Use]]]
    router = Router(recorded.fabric, recorded.run.result.seed)
    for job in recorded.jobs:
        if job.name not in recorded.iterations or job.name not in paces.senders:
            continue
        carried: dict[str, float] = {}
        for flow in job_flows(job, recorded.fabric):
            for link in router.path(job.name, flow.src, flow.dst):
                carried[link] = carried.get(link, 0.0) + flow.share * job.bytes
        crossed = crossing(recorded, router, job)
        for link in sorted(paces.links_of(job.name) & recorded.fabric.links.keys()):
            windows = windows_on(recorded.iterations[job.name], job, crossed.get(link, ()), recorded.fabric)
            windows = windows[np.isfinite(windows[:, 0]) & (windows[:, 1] > windows[:, 0])]
            size = np.full(len(windows), carried.get(link, 0.0))
            found.setdefault(link, {})[job.name] = Use(union(windows), windows[:, 0], windows[:, 1], size)
    return found


def crossing(recorded: RecordedRun, router: Router, job: Job) -> dict[str, set[Path]]:
    """Each directed link that a job crosses, under any of the run's plans, to the paths of its flows over it."""
    planned = [{}, *(plan.jobs[job.name].paths for _, plan in recorded.plans if job.name in plan.jobs)]
    found: dict[str, set[Path]] = {}
    for flow in job_flows(job, recorded.fabric):
        ways = {paths.get((flow.src, flow.dst)) for paths in planned}
        for path in {router.path(job.name, flow.src, flow.dst, way) for way in ways}:
            for link in path:
                found.setdefault(link, set()).add(path)
    return found


def windows_on(iterations: Iterations, job: Job, paths: Iterable[Path], fabric: Fabric) -> Intervals:
    """(iterations, 2): from when to when a job communicates over some paths of its flows.

    From when both ends of one could send until the receiver at the end of the last one is done. On a busy machine ranks
    are ready and done some milliseconds apart, and those whose data does not go there say nothing of a link.
    """
    if iterations.end_by_rank_s.shape[1] != job.ranks or job.ranks == 1:
        return iterations.windows
    ranks: dict[str, list[int]] = {}
    for rank, host in enumerate(job.hosts):
        ranks.setdefault(host, []).append(rank)
    ready_s, end_s = iterations.ready_by_rank_s, iterations.end_by_rank_s
    ends = [(ranks[fabric.links[path[0]].src], ranks[fabric.links[path[-1]].dst]) for path in paths]
    if not ends:
        return iterations.windows
    start_s = reduce(np.minimum, [ready_s[:, senders + receivers].max(axis=1) for senders, receivers in ends])
    over_s = reduce(np.maximum, [end_s[:, receivers].max(axis=1) for _, receivers in ends])
    return np.column_stack([np.minimum(start_s, over_s), over_s])
