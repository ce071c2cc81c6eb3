"""Draws placements of a scenario's movable jobs, for a policy to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from harmonics_emu.scenario.placement import Placer
from harmonics_emu.scenario.scenario import Scenario
from topologies.fabric import Fabric
from workloads.collectives import rank_transfers
from workloads.job import Job

TRIES = 10
"""Drawings for each candidate that is wanted: many come out alike where there are few GPUs."""

Hosts = Mapping[str, tuple[str, ...]]
"""By job name: the host of each rank."""


def candidate_placements(scenario: Scenario, count: int) -> list[Hosts]:
    """Up to `count` different placements of the movable jobs: first the scenario's own, then drawn ones.

    A drawing takes the movable jobs in random order and puts each on GPUs that the others leave free: spread, packed
    or scattered. It is left out if a job's collective can't join its ranks there. The scenario's seed draws.
    """
    fabric = scenario.fabric()
    movable = [job for job in scenario.jobs() if job.name in scenario.movable]
    fixed = [job for job in scenario.jobs() if job.name not in scenario.movable]
    found: list[Hosts] = [{job.name: job.hosts for job in movable}]
    draw = Random(f"placement {scenario.seed}")
    for _ in range(TRIES * (count - 1) if movable else 0):
        if len(found) == count:
            break
        placer = Placer(fabric, share=scenario.file.share_gpus)
        for job in fixed:
            placer.reserve(job.hosts)
        drawn = _drawn(placer, movable, draw)
        if drawn not in found and all(_can_join(job, drawn[job.name], fabric) for job in movable):
            found.append(drawn)
    return found


def _drawn(placer: Placer, movable: Sequence[Job], draw: Random) -> Hosts:
    hosts: dict[str, tuple[str, ...]] = {}
    for job in draw.sample(movable, len(movable)):
        rule = draw.choice(("spread", "packed", "scattered"))
        if rule == "scattered":
            hosts[job.name] = placer.scattered(job.ranks, draw)
        else:
            hosts[job.name] = placer.spread(job.ranks) if rule == "spread" else placer.packed(job.ranks)
    return hosts


def _can_join(job: Job, hosts: tuple[str, ...], fabric: Fabric) -> bool:
    try:
        rank_transfers(replace(job, hosts=hosts), fabric.rack_of)
    except ValueError:
        return False
    return True
