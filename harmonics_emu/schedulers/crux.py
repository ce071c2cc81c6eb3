"""crux: paths and priorities by GPU intensity, after Crux (Cao et al., SIGCOMM 2024, section 4).

A job's GPU intensity is the work of one iteration over the time of its communication: what a second of link time is
worth in work. Jobs choose paths in falling intensity. Each then gets a priority, its intensity times a correction
factor from a comparison with the job that sends most, and the priorities are compressed to the levels that there are.
docs/schedulers/crux.md tells what of this is the paper's and what this project's choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, JobState, Plan, Snapshot
from harmonics_emu.schedulers.order_levels import FIRST_LEVEL, level_option
from harmonics_emu.schedulers.path_selection import PathSelector, Routing, sharing
from harmonics_emu.schedulers.priority_compression import compress, cut_weight
from harmonics_emu.schedulers.priority_correction import LinkUser, correction_factor


@dataclass(frozen=True)
class RankedJob:
    """A job that sends, with what its priority is made of.

    work: seconds of compute of one iteration times GPUs, as FLOPs are not known. correction: the factor k.
    """

    state: JobState
    routing: Routing
    correction: float = 1.0

    @property
    def work(self) -> float:
        return self.state.compute_s * self.state.job.ranks

    @property
    def intensity(self) -> float:
        """Work of one iteration over its communication time on the job's most loaded link."""
        return self.work / self.routing.communication_s

    @property
    def priority(self) -> float:
        return self.correction * self.intensity

    @property
    def link_user(self) -> LinkUser:
        compute_s = self.state.compute_s
        return LinkUser(compute_s, compute_s * (1 - self.state.job.overlap), self.routing.communication_s)


def plan_crux(snapshot: Snapshot) -> Plan:
    """Paths and levels for all jobs that send; the others keep the default. Options: `levels`, 1 to 7, default 7.

    UsageError for any other option (`epoch` is the engine's), or where the fabric joins two hosts by no path.
    """
    levels = level_option("crux", snapshot.options)
    ranked = rank(select_paths(snapshot))
    if not ranked:
        return Plan(policy="crux")
    intensity = np.array([job.intensity for job in ranked])
    edges = np.triu(sharing([job.routing for job in ranked]), k=1)
    weights = np.where(edges, intensity[:, None], 0.0)
    compressed = compress(edges, weights, levels, snapshot.seed)
    return Plan(
        policy="crux",
        jobs={
            job.state.job.name: JobPlan(level=FIRST_LEVEL + level, paths=job.routing.paths)
            for job, level in zip(ranked, compressed, strict=True)
        },
        facts={
            "reference": reference(ranked).state.job.name,
            "cut_weight": cut_weight(weights, compressed),
            "total_weight": float(weights.sum()),
            "jobs": {
                job.state.job.name: {
                    "work": job.work,
                    "communication_s": job.routing.communication_s,
                    "intensity": job.intensity,
                    "correction": job.correction,
                    "priority": job.priority,
                }
                for job in ranked
            },
        },
    )


def select_paths(snapshot: Snapshot) -> list[RankedJob]:
    """Jobs in the order in which they chose their paths: falling intensity, as it would be with the fabric to itself.

    Each takes the least congested paths beside the jobs before it. Jobs that send nothing are left out.
    """
    selector = PathSelector(snapshot.fabric, snapshot.links_down)
    alone = [RankedJob(state, selector.route(state.transfers, {})) for state in snapshot.jobs]
    sending = [job for job in alone if job.routing.communication_s > 0]
    busy_s: dict[str, float] = {}
    selected = []
    for job in sorted(sending, key=lambda job: -job.intensity):
        routing = selector.route(job.state.transfers, busy_s)
        for link, seconds in routing.link_s.items():
            busy_s[link] = busy_s.get(link, 0.0) + seconds
        selected.append(replace(job, routing=routing))
    return selected


def rank(jobs: Sequence[RankedJob]) -> list[RankedJob]:
    """Jobs in falling priority, their correction factors filled in; equal ones in the order of the scenario."""
    if not jobs:
        return []
    compared_with = reference(jobs)
    corrected = [
        job
        if job is compared_with
        else replace(job, correction=correction_factor(job.link_user, compared_with.link_user))
        for job in jobs
    ]
    return sorted(corrected, key=lambda job: (-job.priority, job.state.job.index))


def reference(jobs: Sequence[RankedJob]) -> RankedJob:
    """The job that sends the most bytes an iteration; of several, the first of the scenario."""
    return min(jobs, key=lambda job: (-sum(job.state.transfers.values()), job.state.job.index))


policy = FunctionPolicy("crux", "paths and priority levels by GPU intensity (Crux, SIGCOMM 2024)", plan_crux)
