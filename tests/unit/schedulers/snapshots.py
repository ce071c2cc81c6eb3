"""Snapshots of jobs that have just arrived, for tests of policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harmonics_emu.schedulers.interface import JobState, Snapshot
from topologies.fabric import Fabric
from workloads.collectives import job_transfers
from workloads.job import Job


def snapshot_of(
    fabric: Fabric, jobs: Sequence[Job], done: Mapping[str, int] | None = None, **options: object
) -> Snapshot:
    """All jobs at time zero, with the iterations that each has done, under a policy with these options."""
    states = tuple(
        JobState(job, job_transfers(job, fabric.rack_of), job.compute_s, iterations_done=(done or {}).get(job.name, 0))
        for job in jobs
    )
    return Snapshot(0.0, fabric, states, seed=0, options=options)
