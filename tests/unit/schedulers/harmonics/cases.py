"""Fabrics, jobs and plans drawn at random, for tests of what holds for all of them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harmonics_emu.schedulers.exact.outlook import begun
from harmonics_emu.schedulers.harmonics.messages import View
from harmonics_emu.schedulers.harmonics.views import Problem
from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan, Policy, Snapshot
from harmonics_emu.simulate.engine import Options, simulate
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import MBIT
from topologies.fabric import Fabric
from topologies.fat_tree import fat_tree
from topologies.rack_spine import rack_spine
from workloads.job import Background, Job, LinkEvent

NO_LIMIT = 10**9


def drawn_fabric(draw: random.Random) -> Fabric:
    """Up to four racks, whose uplinks matter and, now and then, host links too."""
    if draw.random() < 0.2:
        return fat_tree(4, 8 * MBIT)
    host_bps = draw.choice((1000, 10)) * MBIT
    return rack_spine(draw.randint(2, 4), 4, draw.randint(1, 3), host_bps, 8 * MBIT)


def drawn_jobs(draw: random.Random, on: Fabric, most: int = 5, together: bool = True, longest: int = 10) -> list[Job]:
    """Two or more jobs without jitter, on hosts anywhere; jobs may share hosts."""
    hosts = [host.name for host in on.hosts]
    return [
        Job(
            name=f"job{number}",
            index=number,
            program="ddp",
            hosts=tuple(draw.sample(hosts, draw.randint(2, 4))),
            iterations=draw.randint(1 + longest // 20, longest),
            compute_s=draw.choice((0.0, draw.uniform(0.1, 2))),
            overlap=draw.choice((0.0, 0.0, draw.random())),
            bucket_bytes=tuple(draw.randrange(50_000, 1_000_000) for _ in range(draw.randint(1, 3))),
            start_s=0.0 if together else draw.choice((0.0, draw.uniform(0, 3))),
            weight=draw.choice((1.0, 1.0, 3.0)),
        )
        for number in range(draw.randint(2, most))
    ]


def drawn_background(draw: random.Random, on: Fabric) -> tuple[Background, ...]:
    """None, mostly; up to more than a link carries."""
    src, dst = draw.sample([host.name for host in on.hosts], 2)
    return (Background(src, dst, draw.choice((1, 4, 20)) * MBIT),) if draw.random() < 0.3 else ()


def drawn_snapshot(number: int, most: int = 5, longest: int = 10, **options: object) -> Snapshot:
    """Jobs that start together, on a fabric that may carry background flows."""
    draw = random.Random(number)
    on = drawn_fabric(draw)
    snapshot = snapshot_of(on, drawn_jobs(draw, on, most, longest=longest), **options)
    return replace(snapshot, background=drawn_background(draw, on), seed=draw.randrange(100))


def with_starts(snapshot: Snapshot) -> Snapshot:
    """Jobs that are yet to come, as they never stand in the engine's snapshots: each begins at its start."""
    return replace(snapshot, jobs=tuple(replace(state, next_start_s=state.job.start_s) for state in snapshot.jobs))


def whole_view(snapshot: Snapshot, routes: Mapping[str, JobPlan] | None = None) -> View:
    """All jobs that send, to their ends."""
    problem = Problem(snapshot)
    paths = {name: plan.paths for name, plan in (routes or {}).items()}
    return problem.whole_view(problem.crossings(paths), range(len(problem.tasks)), NO_LIMIT)


def keeping(plans: Mapping[str, JobPlan]) -> FunctionPolicy:
    """The same plans to the end: start times of collectives that have begun are used up."""

    def plan(snapshot: Snapshot) -> Plan:
        there = {}
        for state in snapshot.jobs:
            own = plans.get(state.job.name, JobPlan())
            there[state.job.name] = replace(own, starts_s=own.starts_s[begun(state, snapshot.time_s) :])
        return Plan("keeping", there)

    return FunctionPolicy("keeping", "the same plans to the end", plan)


def engine_times_s(snapshot: Snapshot, policy: Policy) -> dict[str, float]:
    """Seconds of each job from its start to its end on the engine; infinity for one that stalls."""
    records = simulate(
        snapshot.fabric,
        [state.job for state in snapshot.jobs],
        policy,
        snapshot.seed,
        snapshot.background,
        [LinkEvent(0.0, link, "down") for link in sorted(snapshot.links_down)],
        Options(sample_s=None, policy=snapshot.options),
    )
    return {
        name: outcome.end_s - outcome.start_s if outcome.status == "done" else math.inf
        for name, outcome in records.outcomes.items()
    }


def names(view: View, jobs: Sequence[Job]) -> list[str]:
    """Of a view's jobs, if all jobs send."""
    return [jobs[job.number].name for job in view.jobs]
