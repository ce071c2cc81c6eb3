"""What a job does over and over when it is alone: when it sends, for how long, and how much on which links."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

from harmonics_emu.schedulers.interface import JobState, Snapshot
from harmonics_emu.schedulers.link_loads import hashed_link_seconds
from harmonics_emu.schedulers.unified_circle import Arc
from harmonics_emu.simulate.entities import BACKGROUND
from harmonics_emu.simulate.routing import Router
from workloads.job import Job
from workloads.pacing import bucket_ready_fractions

LEAST_ROOM = 0.5
"""Of a link that background traffic fills, jobs still get this fraction: it is no more than one flow among others."""

JITTER_SLACK = 0.01
"""A job with jitter is taken to be this much slower than its mean: lateness that nothing makes up for only grows."""


@dataclass(frozen=True)
class Rhythm:
    """A job alone on its paths. Arcs count from the moment at which its first collective may begin, with height 1.

    ready_s: absolute time at which the first collective that has not begun can begin. demand: bit/s on each link while
    it sends. duty: the fraction of the period for which it sends.
    """

    state: JobState
    period_s: float
    ready_s: float
    arcs: tuple[Arc, ...]
    demand: Mapping[str, float]

    @property
    def duty(self) -> float:
        return sum(arc.length_s for arc in self.arcs) / self.period_s


def capacities_beside_background(snapshot: Snapshot) -> dict[str, float]:
    """What background traffic leaves of each link, in bit/s."""
    router = Router(snapshot.fabric, snapshot.seed)
    router.down = snapshot.links_down
    taken: defaultdict[str, float] = defaultdict(float)
    for flow in snapshot.background:
        for link in router.path(BACKGROUND, flow.src, flow.dst):
            taken[link] += flow.rate_bps
    return {
        name: max(link.rate_bps - taken.get(name, 0.0), link.rate_bps * LEAST_ROOM)
        for name, link in snapshot.fabric.links.items()
    }


def rhythms(snapshot: Snapshot, capacity: Mapping[str, float]) -> dict[str, Rhythm]:
    """Of all jobs that send anything, on hashed paths. UsageError if the fabric joins two hosts by no path.

    Compute times are measured ones once there are any; until then, what the slowest rank's jitter leads to is added.
    Communication times are those of jobs alone: bytes on the most loaded link. What was measured contains the waits
    for other jobs and for the plan's own gates, so a plan that took it for the job's pace would slow it down for good.
    """
    links = snapshot.fabric.links
    seconds = hashed_link_seconds(snapshot)
    found = {}
    for state in snapshot.jobs:
        bits = {link: busy_s * links[link].rate_bps for link, busy_s in seconds[state.job.name].items()}
        alone_s = max((size / capacity[link] for link, size in bits.items()), default=0.0)
        if alone_s <= 0:
            continue
        compute_s = iteration_compute_s(state)
        sending = _sending(state.job, compute_s, alone_s)
        first = sending[0][0]
        found[state.job.name] = Rhythm(
            state=state,
            period_s=max(compute_s, sending[-1][1])
            * (1 + JITTER_SLACK if state.job.compute_cv > 0 or state.jitter_s > 0 else 1),
            ready_s=max(snapshot.time_s, state.next_start_s + first),
            arcs=tuple(Arc(begin - first, end - begin, 1.0) for begin, end in sending),
            demand={link: size / alone_s for link, size in bits.items()},
        )
    return found


def iteration_compute_s(state: JobState) -> float:
    """Mean compute time of an iteration: a job waits for the slowest of its ranks, whose draws are log-normal."""
    job = state.job
    if state.iterations_done > 0 or job.compute_cv == 0:
        return state.compute_s
    sigma = math.sqrt(math.log1p(job.compute_cv**2))
    largest = NormalDist().inv_cdf((job.ranks - 0.375) / (job.ranks + 0.25))  # Blom's approximation of its mean
    return state.compute_s * math.exp(sigma * largest - sigma**2 / 2)


def _sending(job: Job, compute_s: float, alone_s: float) -> list[tuple[float, float]]:
    """When a job sends, from the start of its iteration: each bucket when it is ready and the one before is sent."""
    spans: list[tuple[float, float]] = []
    ready = bucket_ready_fractions(len(job.bucket_bytes), job.overlap)
    for size, fraction in zip(job.bucket_bytes, ready, strict=True):
        begin = max(compute_s * fraction, spans[-1][1] if spans else 0.0)
        end = begin + alone_s * size / job.bytes
        if spans and begin == spans[-1][1]:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((begin, end))
    return spans
