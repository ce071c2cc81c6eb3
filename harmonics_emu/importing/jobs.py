"""Job sections of an imported scenario, from what each kind of trace tells of a job."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from harmonics_emu.importing.options import ImportOptions
from harmonics_emu.scenario.quantities import MAX_SIZE, format_size, format_time
from workloads.collectives import RING_ALL_REDUCE
from workloads.models import find_model
from workloads.traces.logged_job import LoggedJob
from workloads.traces.mccs import MccsJob
from workloads.traces.nccl_tests import Calibration
from workloads.traces.phases import Phases

MAX_ITERATIONS = 10**7
MIN_ITERATIONS = 2
"""One to warm up and one to measure."""
MAX_SIZES = 1000
BUCKET = "250MiB"
"""DDP's own 25 MiB are more buckets than a fluid model needs to tell apart."""


class Names:
    """Job names that a scenario can have, each given once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def give(self, wanted: str) -> str:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", wanted)[:60] or "job"
        number, given = 1, name
        while given in self._given:
            number += 1
            given = f"{name}-{number}"
        self._given.add(given)
        return given


def logged_job(
    job: LoggedJob, names: Names, options: ImportOptions, host_rate_bps: int, first_s: float
) -> dict[str, Any]:
    """A job of a cluster's log, submitted `first_s` after the first one of the scenario's clock.

    Where the log tells an iteration and its network stage, the job sends what takes that long at the hosts' rate, and
    computes for the rest. Else a model is drawn by the job's id, and its iterations fill the job's duration.
    """
    section: dict[str, Any] = {"name": names.give(f"{job.model or 'job'}-{job.id}"), "workers": job.gpus}
    section["placement"] = options.placement
    ring_share = 2 * (job.gpus - 1) / job.gpus
    if job.iteration_s is not None and job.iterations is not None:
        network_s = job.network_s if job.network_s is not None and job.gpus > 1 else 0.0
        size = round(network_s * host_rate_bps / 8 / ring_share) if network_s else 0
        section["gradients"] = _size(size)
        section["compute"] = {"iteration": _time(job.iteration_s - network_s)}
        iterations: float = job.iterations
    else:
        model = find_model(_drawn(job.id, options.models))
        section["model"] = model.name
        alone_s = model.compute_s[model.default_compute or ""]
        alone_s += model.gradient_bytes("fp32") * ring_share * 8 / host_rate_bps
        iterations = job.duration_s / alone_s
    section["bucket"] = BUCKET
    section["iterations"] = min(MAX_ITERATIONS, max(MIN_ITERATIONS, round(iterations / options.shrink)))
    start_s = (job.submit_s - first_s) / options.shrink
    return section | ({"start": format_time(round(start_s, 6))} if round(start_s, 6) > 0 else {})


def mccs_job(job: MccsJob, names: Names, options: ImportOptions) -> dict[str, Any]:
    """A workload of MCCS: its computes, then its collectives."""
    return {
        "name": names.give(job.name),
        "workers": options.workers or job.ranks,
        "placement": "spread",
        "gradients": _size(job.bytes),
        "bucket": BUCKET,
        "compute": {"iteration": _time(job.compute_s)},
        "iterations": options.iterations,
        **_collective(job.collective),
    }


def recorded_job(name: str, phases: Phases, names: Names, options: ImportOptions) -> dict[str, Any]:
    """A job whose iteration a profile showed. Its buckets are as many as were recorded, and equal."""
    return {
        "name": names.give(name),
        "workers": phases.ranks,
        "placement": "spread",
        "gradients": _size(phases.bytes),
        "bucket": _size(-(-phases.bytes // len(phases.sizes))),
        "compute": {"iteration": _time(phases.compute_s), "overlap": round(phases.overlap, 4)},
        "iterations": options.iterations,
        **_collective(phases.kind),
    }


def benchmark_job(calibration: Calibration, names: Names, options: ImportOptions) -> dict[str, Any]:
    """The all-reduces of a benchmark, one size after another in each iteration."""
    sizes = sorted(set(calibration.sizes))[-MAX_SIZES:]
    return {
        "name": names.give("all-reduce"),
        "workers": calibration.ranks,
        "placement": "spread",
        "program": "allreduce",
        "sizes": [_size(size) for size in sizes],
        "iterations": options.iterations,
    }


def _collective(kind: str) -> dict[str, str]:
    return {} if kind == RING_ALL_REDUCE else {"collective": kind}


def _size(size: int) -> str:
    return format_size(min(MAX_SIZE, max(4, size)))


def _time(seconds: float) -> str:
    """To a nanosecond, which is the least that a file can say."""
    return format_time(max(1e-9, round(seconds, 9)))


def _drawn(identity: str, models: tuple[str, ...]) -> str:
    digest = hashlib.blake2b(identity.encode("utf-8", "replace"), digest_size=8).digest()
    return models[int.from_bytes(digest, "big") % len(models)]
