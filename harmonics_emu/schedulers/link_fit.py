"""How well the jobs of one link fit it once each is delayed in the best way: what CASSINI finds for each link alone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harmonics_emu.schedulers.affinity_graph import LinkVertex, contended_links
from harmonics_emu.schedulers.interface import Snapshot
from harmonics_emu.schedulers.job_rhythm import Rhythm, capacities_beside_background, rhythms
from harmonics_emu.schedulers.unified_circle import Arc, Rotations, angles_for, best_rotations, sample, score


@dataclass(frozen=True)
class LinkFit:
    """The best rotations on one link vertex, beside how its jobs fit if nobody is delayed. shifts_s: by job."""

    vertex: LinkVertex
    found: Rotations
    present: float
    shifts_s: Mapping[str, float]

    @property
    def gain(self) -> float:
        return self.found.score - self.present


def meetings(snapshot: Snapshot) -> tuple[dict[str, Rhythm], list[LinkVertex]]:
    """The jobs that send, and the links that they overfill together, merged where they have the same jobs."""
    capacity = capacities_beside_background(snapshot)
    jobs = rhythms(snapshot, capacity)
    demand: dict[str, dict[str, float]] = {}
    for name, job in jobs.items():
        for link, rate in job.demand.items():
            demand.setdefault(link, {})[name] = rate
    return jobs, contended_links(demand, capacity, {name: job.duty for name, job in jobs.items()})


def fit_link(
    vertex: LinkVertex,
    jobs: Mapping[str, Rhythm],
    repeats: Mapping[str, int],
    perimeter_s: float,
    snapshot: Snapshot,
) -> LinkFit:
    """Rotations of the jobs on one link, on the part of the circle after which they all repeat together."""
    common = math.gcd(*(repeats[name] for name in vertex.jobs))
    perimeter_s /= common
    laps = [repeats[name] // common for name in vertex.jobs]
    angles = angles_for(laps)
    demand = np.array(
        [
            sample(_arcs(jobs[name], rate), count, perimeter_s, angles)
            for (name, rate), count in zip(vertex.demand.items(), laps, strict=True)
        ]
    )
    at = [
        (jobs[name].ready_s - snapshot.time_s) % (perimeter_s / count)
        for name, count in zip(vertex.jobs, laps, strict=True)
    ]
    angle_s = perimeter_s / angles
    start = [round(own / angle_s) % angles for own in at]
    found = best_rotations(demand, laps, vertex.capacity, _seed(snapshot.seed, vertex), start)
    stay = list(found.steps) == start
    shifts = at if stay else [step * angle_s for step in found.steps]
    return LinkFit(
        vertex=vertex,
        found=found,
        present=score(demand, start, vertex.capacity),
        shifts_s=dict(zip(vertex.jobs, shifts, strict=True)),
    )


def _arcs(job: Rhythm, rate: float) -> list[Arc]:
    return [Arc(arc.start_s, arc.length_s, rate) for arc in job.arcs]


def _seed(seed: int, vertex: LinkVertex) -> int:
    text = "\0".join([str(seed), *vertex.links])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
