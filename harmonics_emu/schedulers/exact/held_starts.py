"""Start times that hold a job back now and then although its level is an early one, for jobs that meet on one link."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from harmonics_emu.schedulers.exact.outlook import Outlook, Rest
from harmonics_emu.schedulers.exact.serial import Chain, good_schedule
from harmonics_emu.schedulers.interface import HostPair, JobState
from harmonics_emu.schedulers.link_loads import bottleneck_s
from harmonics_emu.simulate.predict import alone
from harmonics_emu.simulate.routing import Router, capacities
from topologies.fabric import Fabric, Path
from workloads.pacing import bucket_ready_fractions

SLACK = 1e-6
"""Link times are taken to be longer by this part: who is waited for is done by then, whatever doubles round."""
SAME = 1e-6
"""Link times that differ by less, relatively, are equal."""


def held_starts(
    outlook: Outlook, order: Sequence[str], paths: Mapping[str, Mapping[HostPair, Path]], deadline: float
) -> dict[str, tuple[float, ...]] | None:
    """By job, absolute release times of its next collectives, if levels follow `order`; None if there is nothing to
    hold, or no time.

    Jobs are looked at in the groups that share links. A group in which the jobs' slowest links are not all the same
    gets none.
    """
    busy = {rest.job.name: _busy(outlook, state, paths) for rest, state in _states(outlook)}
    found: dict[str, tuple[float, ...]] = {}
    for group in _groups(busy):
        link = _common_bottleneck([busy[name] for name in group])
        if link is None:
            continue
        members = [rest for rest in outlook.rests if rest.job.name in group]
        chains = [_chain(outlook.snapshot.fabric, rest, busy[rest.job.name][link]) for rest in members]
        levels = [order.index(rest.job.name) for rest in members]
        schedule = good_schedule(chains, levels, deadline)
        if schedule is None:
            return None
        for rest, releases in zip(members, schedule.releases, strict=True):
            if any(releases):
                # A release in the past holds nobody.
                found[rest.job.name] = tuple(outlook.origin_s + at if at > 0 else outlook.origin_s for at in releases)
    return found or None


def _states(outlook: Outlook) -> list[tuple[Rest, JobState]]:
    by_name = {state.job.name: state for state in outlook.snapshot.jobs}
    return [(rest, by_name[rest.job.name]) for rest in outlook.rests]


def _busy(outlook: Outlook, state: JobState, paths: Mapping[str, Mapping[HostPair, Path]]) -> dict[str, float]:
    """Seconds of one iteration that the job keeps each link busy."""
    snapshot = outlook.snapshot
    router = Router(snapshot.fabric, snapshot.seed)
    router.down = snapshot.links_down
    capacity = capacities(snapshot.fabric)
    seconds: defaultdict[str, float] = defaultdict(float)
    for (src, dst), size in state.transfers.items():
        planned = paths.get(state.job.name, {}).get((src, dst))
        for link in router.path(state.job.name, src, dst, planned) if size > 0 else ():
            seconds[link] += size / capacity[link]
    return dict(seconds)


def _groups(busy: Mapping[str, Mapping[str, float]]) -> list[set[str]]:
    """Jobs that share links, directly or through others, where there are two or more."""
    groups: list[tuple[set[str], set[str]]] = []
    for name, links in busy.items():
        names, used = {name}, set(links)
        apart = []
        for other_names, other_used in groups:
            if used.isdisjoint(other_used):
                apart.append((other_names, other_used))
            else:
                names |= other_names
                used |= other_used
        groups = [*apart, (names, used)]
    return [names for names, _ in groups if len(names) > 1]


def _common_bottleneck(busy: Sequence[Mapping[str, float]]) -> str | None:
    """A link that is the slowest of all these jobs."""
    common = set(busy[0]).intersection(*busy[1:])
    return next(
        (link for link in sorted(common) if all(own[link] >= bottleneck_s(own) * (1 - SAME) for own in busy)), None
    )


def _chain(fabric: Fabric, rest: Rest, link_s: float) -> Chain:
    job = rest.job
    length_s = alone(fabric, replace(job, iterations=1, compute_s=rest.compute_s, compute_cv=0.0))[1]
    return Chain(
        compute_s=np.full(job.iterations, rest.compute_s),
        length_s=np.full(job.iterations, length_s),
        ready=bucket_ready_fractions(len(job.bucket_bytes), job.overlap),
        link_s=tuple(size / job.bytes * link_s * (1 + SLACK) for size in job.bucket_bytes),
        weight=rest.weight,
        start_s=job.start_s,
    )
