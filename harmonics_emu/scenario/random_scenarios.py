"""Random scenarios, so that policies are not judged by scenarios that were written for them alone.

What is drawn, and how (each scenario from its own stream of seed and number; several values: each as likely as it is
listed often):

- fabric: rack-spine of RACKS racks, HOSTS_PER_RACK hosts a rack, 64 hosts at most, SPINES spines, GPUS_PER_HOST GPUs a
  host. Real uplinks of UPLINK_GBPS Gbit/s, emulated at 200 Mbit/s; host links as fast, or twice as fast.
- jobs: 2 to 8, each of WORKERS ranks, fewer where the fabric is full. Half of them are spread over all racks, a third
  sits on random GPUs (in the order of racks), the others are packed.
- traffic: three fifths train one of MODELS in fp32, at its compute time times 0.8 to 1.25 (another batch or
  another GPU). The others have a period of 0.1 to 1 s (log-uniform) and a duty cycle of 10 to 60 % (uniform), as it
  would be with an uplink as bottleneck. A quarter overlap the last 30 to 67 % of compute with communication.
- jitter: in half of the scenarios, 1 to 10 % in each job.
- time: jobs come within the longest period of each other, but a quarter (never the first) later, by half the run's
  length at most. The job with the longest period has 100 iterations, the others as many as last as long.

All is uniform where nothing else is said. Jobs need not share a link.
"""

from __future__ import annotations

import math
import random
from typing import Any

import yaml

from harmonics_emu.scenario.quantities import format_time
from workloads.models import find_model

RACKS = (2, 2, 2, 4, 4, 8, 16)
HOSTS_PER_RACK = (2, 3, 4, 6, 8)
MAX_HOSTS = 64
SPINES = (1, 1, 2, 2, 4)
GPUS_PER_HOST = (1, 1, 1, 2)
UPLINK_GBPS = (25, 50, 50, 100, 100, 200)
UPLINK_MBPS = 200
INTRA_HOST_GBPS = 2400
"""NVLink of a V100 (NVIDIA: 300 GB/s)."""
MAX_JOBS = 8
MODELS = ("bert-base", "bert-large", "gpt2", "resnet50", "vgg16", "vgg19")
"""Of the catalogue, those with a measured compute time that train on as few GPUs as these scenarios have."""
WORKERS = (2, 4, 4, 4, 8, 16)
ITERATIONS = 100
MAX_ITERATIONS = 1000
BUCKET = "250MiB"
"""Shrunk to an emulated rate, DDP's own 25 MiB would last no longer than a few packets."""


def random_name(seed: int, number: int) -> str:
    return f"random-{seed}-{number}"


def random_scenario(seed: int, number: int) -> bytes:
    """The file of random scenario `number` of `seed`; the same at any time, whatever else is drawn."""
    draw = random.Random(f"{seed} {number}")
    uplink_gbps = draw.choice(UPLINK_GBPS)
    racks = draw.choice(RACKS)
    hosts_per_rack = draw.choice([hosts for hosts in HOSTS_PER_RACK if racks * hosts <= MAX_HOSTS])
    gpus_per_host = draw.choice(GPUS_PER_HOST)
    fabric: dict[str, Any] = {
        "kind": "rack-spine",
        "racks": racks,
        "hosts_per_rack": hosts_per_rack,
        "spines": draw.choice(SPINES),
        "host_rate": f"{UPLINK_MBPS * draw.choice((1, 2))}Mbit",
        "uplink_rate": f"{UPLINK_MBPS}Mbit",
    }
    if gpus_per_host > 1:
        intra_mbps = INTRA_HOST_GBPS * UPLINK_MBPS // uplink_gbps
        fabric |= {"gpus_per_host": gpus_per_host, "intra_host_rate": f"{intra_mbps}Mbit"}
    free = [f"r{rack}h{host}" for rack in range(racks) for host in range(hosts_per_rack) for _ in range(gpus_per_host)]
    jobs = _jobs(draw, free, uplink_gbps)
    periods = [job.pop("period") for job in jobs]
    longest = max(periods)
    for job, period in zip(jobs, periods, strict=True):
        job["iterations"] = min(MAX_ITERATIONS, math.ceil(ITERATIONS * longest / period))
    for job in jobs[1:]:
        if draw.random() < 0.25:
            job["start"] = _milliseconds(draw.uniform(0, ITERATIONS * longest / 2))
    file = {
        "name": random_name(seed, number),
        "description": f"{len(jobs)} jobs on {racks} racks, drawn at random",
        "fabric": fabric,
        "scale": {"rate": f"{UPLINK_MBPS}/{uplink_gbps * 1000}"},
        "offsets": _milliseconds(longest),
        "seed": draw.randrange(10**6),
        "jobs": jobs,
    }
    return yaml.safe_dump(file, sort_keys=False, default_flow_style=None, width=110).encode()


def _jobs(draw: random.Random, free: list[str], uplink_gbps: int) -> list[dict[str, Any]]:
    """Job sections, each with its `period` (seconds) beside the keys of the file. `free`: one host name a GPU."""
    jitter = draw.choice((0.0, draw.uniform(0.01, 0.1)))
    wanted = draw.randint(2, MAX_JOBS)
    left, most = len(free), len(free) // 2
    jobs: list[dict[str, Any]] = []
    while len(jobs) < wanted and left >= 2:
        workers = min(draw.choice(WORKERS), most if not jobs else left)
        left -= workers
        job: dict[str, Any] = {"name": f"job{len(jobs)}", "workers": workers}
        where = draw.random()
        if where < 1 / 3:
            chosen = sorted(draw.sample(range(len(free)), workers))
            job["placement"] = [free[index] for index in chosen]
            free = [host for index, host in enumerate(free) if index not in set(chosen)]
        else:
            job["placement"] = "spread" if where < 5 / 6 else "packed"
        job |= _traffic(draw, workers, uplink_gbps)
        if draw.random() < 0.25:
            job["compute"]["overlap"] = round(draw.uniform(0.3, 0.67), 2)
        if jitter:
            job["compute"]["jitter"] = round(jitter, 3)
        jobs.append(job | {"bucket": BUCKET})
    return jobs


def _traffic(draw: random.Random, workers: int, uplink_gbps: int) -> dict[str, Any]:
    """What a job computes and sends, and its period if it is alone and an uplink is its bottleneck."""
    seconds_per_byte = 2 * (workers - 1) / workers * 8 / (uplink_gbps * 1e9)
    if draw.random() < 0.6:
        model = find_model(draw.choice(MODELS))
        compute_s = model.compute_s[model.default_compute or ""] * draw.uniform(0.8, 1.25)
        size = sum(model.bucket_bytes("fp32"))
        return {
            "model": model.name,
            "compute": {"iteration": _milliseconds(compute_s)},
            "period": compute_s + size * seconds_per_byte,
        }
    period = 0.1 * 10 ** draw.random()
    duty = draw.uniform(0.1, 0.6)
    megabytes = max(1, round(duty * period / seconds_per_byte / 1e6))
    return {
        "gradients": f"{megabytes}MB",
        "compute": {"iteration": _milliseconds((1 - duty) * period)},
        "period": period,
    }


def _milliseconds(seconds: float) -> str:
    """To a tenth of a millisecond, which is no less than one."""
    return format_time(max(1, round(seconds * 10_000)) / 10_000)
