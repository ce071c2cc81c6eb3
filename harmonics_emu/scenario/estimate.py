"""How long a job takes if it has the fabric to itself: the fluid model in closed form, no run.

The engine comes to the same times for a job without compute jitter, which a test holds; so this serves `validate`,
the emulator's predictions and, through simulate.predict, the simulator's isolated times alike. With jitter an iteration
lasts as long as its slowest rank computes, which only a run of the engine draws; here jitter is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from harmonics_emu.simulate.entities import job_flows
from harmonics_emu.simulate.routing import capacity_of, intra_host_link, least_loaded_paths
from topologies.fabric import Fabric, Path
from workloads.job import Job
from workloads.pacing import bucket_ready_fractions


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
    """The estimate, phases of a collective overlapping, on `best_paths`.

    UsageError for a collective that there is not, or that can't join the job's ranks.
    """
    shares = _shares(fabric, job)
    paths = _paths(fabric, shares)
    seconds: defaultdict[str, float] = defaultdict(float)
    for (src, dst), share in shares.items():
        for link in paths.get((src, dst), (intra_host_link(src),)):
            seconds[link] += share / capacity_of(fabric, link)
    bottleneck = max(seconds, key=seconds.__getitem__, default=None)
    per_byte = seconds[bottleneck] if bottleneck is not None else 0.0
    communication = job.bytes * per_byte
    iteration = _iteration(job, per_byte)
    return Alone(communication, iteration, communication / iteration if iteration else 0.0, bottleneck)


def best_paths(fabric: Fabric, job: Job) -> dict[tuple[str, str], Path]:
    """The paths that a job alone takes, for each pair of hosts that it sends between. Errors as in estimate_alone."""
    return _paths(fabric, _shares(fabric, job))


def _shares(fabric: Fabric, job: Job) -> dict[tuple[str, str], float]:
    """Bytes between two hosts, or inside one that has a link of its own, for each byte of gradient."""
    shares: defaultdict[tuple[str, str], float] = defaultdict(float)
    for flow in job_flows(job, fabric):
        shares[flow.src, flow.dst] += flow.share
    return dict(shares)


def _paths(fabric: Fabric, shares: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], Path]:
    return least_loaded_paths(fabric, ((src, dst, share) for (src, dst), share in shares.items()))


def _iteration(job: Job, per_byte: float) -> float:
    """Buckets go one after the other, each once it is ready."""
    if job.between_compute:
        return job.compute_s + job.bytes * per_byte
    now = 0.0
    ready = bucket_ready_fractions(len(job.bucket_bytes), job.overlap)
    for size, fraction in zip(job.bucket_bytes, ready, strict=True):
        now = max(now, job.compute_s * fraction) + size * per_byte
    return max(now, job.compute_s)
