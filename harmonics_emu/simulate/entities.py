"""What moves through the network: flows, and the entities that the engine gives rates to.

An entity is one flow, or all flows of a job's collective at one pace: they begin and end together, each with its own
share of the bytes. In a ring all ranks do move at one pace, because each waits for the one before it; so one entity a
collective is both faster and nearer to the truth. For other collectives it approximates in two ways:

- Phases are taken to overlap, as chunks make them do in a tree, a pipeline or a well-cut parameter server. Where they
  really follow one another (halving and doubling; within racks, then across) a collective takes the sum of its
  phases' times, each that of the phase's slowest link; here, only that of the link which is slowest over all phases.
- Flows that don't wait for one another (all-to-all, push and pull) would take max-min shares each, and those that
  end early would leave theirs to the rest. At one pace the unequal ones wait for the slowest, and the whole counts on
  the link that it fills first as its number of flows there, from beginning to end. Granularity 'flow' has them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from harmonics_emu.errors import UsageError
from topologies.fabric import Fabric
from workloads.collectives import rank_transfers
from workloads.job import DEFAULT_LEVEL, Background, Job

Granularity = Literal["collective", "flow"]
BACKGROUND = "background"
"""The name under which background flows have their path hashed, the same as on the emulator."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One connection between two ranks. share: bytes that it carries for each byte of gradient."""

    src: str
    dst: str
    share: float


@dataclass(frozen=True, slots=True)
class Entity:
    """Flows that move at one pace. job: index of their job, -1 for background traffic, which never ends.

    limit: highest pace in bytes a second, of background traffic; None for no limit of its own.
    """

    owner: str
    job: int
    flows: tuple[Flow, ...]
    level: int = DEFAULT_LEVEL
    limit: float | None = None


def job_flows(job: Job, fabric: Fabric) -> tuple[Flow, ...]:
    """The flows of one iteration's collective that take time: those between hosts, and inside hosts that have a link.

    UsageError for a collective that there is not, or that can't join the job's ranks.
    """
    try:
        between_ranks = rank_transfers(job, fabric.rack_of)
    except ValueError as error:
        raise UsageError(f"job {job.name}: {error}") from None
    if job.bytes == 0:
        return ()
    flows = (Flow(job.hosts[src], job.hosts[dst], share) for (src, dst), share in between_ranks.items())
    return tuple(flow for flow in flows if flow.src != flow.dst or fabric.intra_host_bps is not None)


def waiting_entities(jobs: Iterable[Job], background: Iterable[Background]) -> list[Entity]:
    """One entity a job, in job order, whose flows come with its hosts; those of background traffic last."""
    return [Entity(job.name, index, ()) for index, job in enumerate(jobs)] + _background_entities(background)


def entities_of(
    jobs: Iterable[Job], background: Iterable[Background], fabric: Fabric, granularity: Granularity
) -> list[Entity]:
    """Entities in job order, those of background traffic last."""
    found: list[Entity] = []
    for index, job in enumerate(jobs):
        flows = job_flows(job, fabric)
        if flows and granularity == "collective":
            found.append(Entity(job.name, index, flows))
        else:
            found.extend(Entity(job.name, index, (flow,)) for flow in flows)
    return found + _background_entities(background)


def _background_entities(background: Iterable[Background]) -> list[Entity]:
    return [
        Entity(BACKGROUND, -1, (Flow(traffic.src, traffic.dst, 1.0),), limit=traffic.rate_bps / 8)
        for traffic in background
    ]
