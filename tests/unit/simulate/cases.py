"""Small fabrics and jobs whose times can be worked out by hand, for the tests of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from harmonics_emu.records import Records
from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan, Snapshot
from topologies.fabric import Fabric
from topologies.rack_spine import rack_spine
from workloads.job import Job

MBIT = 10**6
UPLINK_BPS = 8 * MBIT
"""1 MB/s."""


def fabric(hosts: int = 8, spines: int = 1, uplink_bps: int = UPLINK_BPS) -> Fabric:
    """Two racks; host links never matter."""
    return rack_spine(2, hosts, spines, host_rate_bps=1000 * MBIT, uplink_rate_bps=uplink_bps)


def job(number: int = 0, **changes: object) -> Job:
    """Two ranks, one a rack: 1 MB each way an iteration, so 1 s of communication alone, after 1 s of compute."""
    settings: dict[str, object] = {
        "name": f"job{number}",
        "index": number,
        "program": "ddp",
        "hosts": (f"r0h{number}", f"r1h{number}"),
        "iterations": 4,
        "compute_s": 1.0,
        "bucket_bytes": (1_000_000,),
    }
    return Job(**(settings | changes))  # type: ignore[arg-type]


def iteration_s(records: Records, name: str = "job0") -> list[float]:
    rows = records.iterations[name]
    return [float(value) for value in rows["end_s"] - rows["start_s"]]


def communication_s(records: Records, name: str = "job0") -> list[float]:
    return [total - float(own) for total, own in zip(iteration_s(records, name), computes(records, name), strict=True)]


def computes(records: Records, name: str) -> np.ndarray:
    return records.iterations[name]["compute_s"]


def always(**jobs: JobPlan) -> FunctionPolicy:
    """A policy that gives those jobs that are there the same plan each time."""

    def plan(snapshot: Snapshot) -> Plan:
        there = {state.job.name for state in snapshot.jobs}
        return Plan("always", {name: own for name, own in jobs.items() if name in there})

    return FunctionPolicy("always", "the same plan each time", plan)


def watching(seen: list[Snapshot], plan: Callable[[Snapshot], Plan] = lambda _: Plan("watching")) -> FunctionPolicy:
    """A policy that keeps what it was shown."""

    def keep(snapshot: Snapshot) -> Plan:
        seen.append(snapshot)
        return plan(snapshot)

    return FunctionPolicy("watching", "keeps its snapshots", keep)


def levels(jobs: Sequence[Job]) -> FunctionPolicy:
    """Strict priority in the order given."""
    return always(**{one.name: JobPlan(level=number) for number, one in enumerate(jobs)})
