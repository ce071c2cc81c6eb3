"""A synthetic cluster whose jobs are all entangled: each rack has jobs of its own, and jobs that reach all over."""

from __future__ import annotations

import random
from itertools import count

from harmonics_emu.schedulers.interface import JobState, Snapshot
from topologies.fabric import Fabric
from topologies.rack_spine import rack_spine
from workloads.collectives import job_transfers
from workloads.job import Job
from workloads.models import find_model

HOSTS_PER_RACK = 8
GPUS_PER_HOST = 8
SPINES = 4
RATE_BPS = 100 * 10**9
INTRA_HOST_BPS = 2400 * 10**9
CROSSING, LOCAL = 2, 2
"""Jobs that each rack begins: those that cross racks, and those that stay."""
LEAST_RACKS, MOST_RACKS = 2, 8
LOCAL_HOSTS = 4
MODELS = ("vgg16", "vgg19", "bert-base", "gpt2")
ITERATIONS = 10


def entangled_cluster(racks: int, seed: int) -> Snapshot:
    """A snapshot at time zero of a rack-spine fabric, 2:1 oversubscribed, under two crossing and two local jobs a rack.

    A crossing job has a rank on each of 2 to 8 racks, its own and others drawn from the whole cluster, so that the
    graph of jobs that share links does not fall apart. A local one has 4 ranks. Ranks go to a rack's hosts in turn.
    Models are drawn, their compute times vary by 20 %, iterations begin within the first second.
    """
    draw = random.Random(f"{racks} {seed}")
    fabric = rack_spine(
        racks=racks,
        hosts_per_rack=HOSTS_PER_RACK,
        spines=SPINES,
        host_rate_bps=RATE_BPS,
        uplink_rate_bps=RATE_BPS,
        gpus_per_host=GPUS_PER_HOST,
        intra_host_bps=INTRA_HOST_BPS,
    )
    turn = [count() for _ in range(racks)]

    def host(rack: int) -> str:
        return f"r{rack}h{next(turn[rack]) % HOSTS_PER_RACK}"

    states: list[JobState] = []
    for rack in range(racks):
        others = [other for other in range(racks) if other != rack] if racks <= MOST_RACKS else None
        for number in range(CROSSING + LOCAL):
            if number < CROSSING:
                reached = [rack, *_draw_others(draw, rack, racks, others)]
                hosts = tuple(host(each) for each in sorted(reached))
            else:
                hosts = tuple(host(rack) for _ in range(LOCAL_HOSTS))
            states.append(_state(draw, fabric, len(states), hosts))
    return Snapshot(0.0, fabric, tuple(states), seed)


def _draw_others(draw: random.Random, rack: int, racks: int, others: list[int] | None) -> list[int]:
    wanted = min(racks, draw.randint(LEAST_RACKS, MOST_RACKS)) - 1
    if others is not None:
        return draw.sample(others, wanted)
    found: set[int] = set()
    while len(found) < wanted:
        found.add(draw.randrange(racks))
        found.discard(rack)
    return sorted(found)


def _state(draw: random.Random, fabric: Fabric, index: int, hosts: tuple[str, ...]) -> JobState:
    model = find_model(draw.choice(MODELS))
    job = Job(
        name=f"job{index}",
        index=index,
        program="ddp",
        hosts=hosts,
        iterations=ITERATIONS,
        compute_s=model.compute_s[model.default_compute or ""] * draw.uniform(0.8, 1.2),
        bucket_bytes=(sum(model.bucket_bytes("fp32")),),
        model=model.name,
        start_s=draw.uniform(0, 1),
    )
    return JobState(job, job_transfers(job, fabric.rack_of), job.compute_s, next_start_s=job.start_s)
