"""How long each job would communicate if it were alone: a fluid estimate from its bytes and the links, no run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from topologies.fabric import Fabric
from workloads.collectives import rank_transfers
from workloads.job import Job


@dataclass(frozen=True, slots=True)
class Alone:
    """One iteration of a job that has the fabric to itself.

    communication_s: what its collectives take back to back. iteration_s: compute and collectives, overlapping as
    the job says. duty_cycle: the part of an iteration in which the job sends. bottleneck: the directed link that
    takes longest, None if the job sends nothing over links.
    """

    communication_s: float
    iteration_s: float
    duty_cycle: float
    bottleneck: str | None


def estimate_alone(fabric: Fabric, job: Job) -> Alone:
    """The estimate, phases of a collective overlapping; each pair of hosts takes the path that is least loaded when its
    turn comes.
    """
    between: defaultdict[tuple[str, str], float] = defaultdict(float)
    inside: defaultdict[str, float] = defaultdict(float)
    for (sender, receiver), size in rank_transfers(job, fabric.rack_of).items():
        src, dst = job.hosts[sender], job.hosts[receiver]
        if src == dst:
            inside[src] += size
        else:
            between[src, dst] += size
    seconds: defaultdict[str, float] = defaultdict(float)
    for (src, dst), size in between.items():
        options = fabric.paths(src, dst)
        path = min(options, key=lambda path: max(seconds[link] for link in path))
        for link in path:
            seconds[link] += 8 * size / fabric.links[link].rate_bps
    bottleneck = max(seconds, key=seconds.__getitem__, default=None)
    per_byte = seconds[bottleneck] if bottleneck is not None else 0.0
    if fabric.intra_host_bps is not None and inside:
        within = 8 * max(inside.values()) / fabric.intra_host_bps
        bottleneck, per_byte = (bottleneck, per_byte) if per_byte >= within else (None, within)
    communication = job.bytes * per_byte
    iteration = _iteration(job, per_byte)
    return Alone(communication, iteration, communication / iteration if iteration else 0.0, bottleneck)


def _iteration(job: Job, per_byte: float) -> float:
    """Buckets go one after the other, each once it is ready."""
    now = job.compute_s * (1 - job.overlap)
    last = len(job.bucket_bytes) - 1
    for number, size in enumerate(job.bucket_bytes):
        ready = job.compute_s * (1 - job.overlap * (1 - number / last)) if last else job.compute_s
        now = max(now, ready) + size * per_byte
    return max(now, job.compute_s)
