"""A large synthetic cluster: a fabric full of jobs whose GPUs are scattered as in a cluster that has run for weeks."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence

from harmonics_emu.simulate.entities import job_flows
from harmonics_emu.simulate.routing import Router
from topologies.fabric import Fabric
from topologies.rack_spine import rack_spine
from workloads.job import Job
from workloads.models import find_model

GPUS_PER_HOST = 8
HOSTS_PER_RACK = 16
SPINES = 8
RATE_BPS = 200 * 10**9
INTRA_HOST_BPS = 2400 * 10**9
FRAGMENT = 4
"""GPUs of one host that are given out together."""
MODELS = ("vgg16", "vgg19", "bert-base", "gpt2")


def crowded_cluster(gpus: int, jobs: int, iterations: int, seed: int) -> tuple[Fabric, list[Job]]:
    """A rack-spine fabric, 2:1 oversubscribed, and jobs that fill it: 200 gigabit NICs, each shared by 8 GPUs.

    Half the jobs get their GPUs side by side, half from anywhere, always 4 of one host. Sizes spread around the mean.
    """
    random_ = random.Random(seed)
    hosts = math.ceil(gpus / GPUS_PER_HOST)
    fabric = rack_spine(
        racks=math.ceil(hosts / HOSTS_PER_RACK),
        hosts_per_rack=min(HOSTS_PER_RACK, hosts),
        spines=SPINES,
        host_rate_bps=RATE_BPS,
        uplink_rate_bps=RATE_BPS,
        gpus_per_host=GPUS_PER_HOST,
        intra_host_bps=INTRA_HOST_BPS,
    )
    free = [host.name for host in fabric.hosts[:hosts] for _ in range(GPUS_PER_HOST // FRAGMENT)]
    found = []
    for index in range(jobs):
        mean = len(free) / (jobs - index)
        wanted = max(1, min(len(free) - (jobs - index - 1), round(random_.uniform(0.4, 1.6) * mean)))
        if index % 2:
            chosen = [free.pop(random_.randrange(len(free))) for _ in range(wanted)]
        else:
            at = random_.randrange(len(free) - wanted + 1)
            chosen, free[at : at + wanted] = free[at : at + wanted], []
        chosen.sort(key=fabric.host_index.__getitem__)
        model = find_model(MODELS[index % len(MODELS)])
        found.append(
            Job(
                name=f"job{index}",
                index=index,
                program="ddp",
                hosts=tuple(host for host in chosen for _ in range(FRAGMENT)),
                iterations=iterations,
                compute_s=model.compute_s[model.default_compute or ""] * random_.uniform(0.8, 1.2),
                bucket_bytes=(sum(model.bucket_bytes("fp32")),),
                model=model.name,
                start_s=random_.uniform(0, 1),
            )
        )
    return fabric, found


def contention_components(fabric: Fabric, jobs: Sequence[Job], seed: int) -> list[int]:
    """Sizes of the sets of jobs that are joined by shared links of the fabric, on hashed paths; 1 for a job alone."""
    router = Router(fabric, seed)
    users = defaultdict(set)
    for index, job in enumerate(jobs):
        for flow in job_flows(job, fabric):
            if flow.src != flow.dst:
                for link in router.path(job.name, flow.src, flow.dst):
                    users[link].add(index)
    leader = list(range(len(jobs)))

    def find(index: int) -> int:
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    for together in users.values():
        first, *others = together
        for other in others:
            leader[find(other)] = find(first)
    sizes: defaultdict[int, int] = defaultdict(int)
    for index in range(len(jobs)):
        sizes[find(index)] += 1
    return list(sizes.values())
