"""What there is to schedule at a snapshot, as all links see it together, and as each rack sees it.

A collective under way is taken to end when the snapshot expects it to: what is looked at begins with each job's next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.schedulers.exact.outlook import begun
from harmonics_emu.schedulers.harmonics.figures import Figures
from harmonics_emu.schedulers.harmonics.kernel import join_by_links
from harmonics_emu.schedulers.harmonics.messages import JobView, View
from harmonics_emu.schedulers.interface import HostPair, JobPlan, JobState, Plan, Snapshot
from harmonics_emu.schedulers.job_rhythm import iteration_compute_s
from harmonics_emu.simulate.entities import Entity, entities_of
from harmonics_emu.simulate.jitter import SlowestRank
from harmonics_emu.simulate.kernel.sharing import Floats, Ints
from harmonics_emu.simulate.network import Network
from harmonics_emu.simulate.predict import alone
from harmonics_emu.simulate.routing import Router
from topologies.fabric import Fabric, Path
from workloads.pacing import bucket_ready_fractions

Routes = Mapping[str, Mapping[HostPair, Path]]
"""By job, the paths of its host pairs; a pair that is not named keeps its hashed path."""
NO_RACK = -1
Links = tuple[int, ...]
Usage = tuple[float, ...]


@dataclass(frozen=True)
class Task:
    """What a job has still to do, wherever its transfers go.

    iterations: whose collective has not begun, or 1 for the last one. compute_s: of each, on the average;
    alone_iteration_s: what each takes alone on the fabric. weight: of each second until its end, in the objective.
    jitter_s: about the standard deviation of an iteration. pause_s: what of compute_s is in fact pauses of sending.
    """

    state: JobState
    iterations: int
    compute_s: float
    alone_iteration_s: float
    weight: float
    jitter_s: float
    pause_s: float

    @property
    def name(self) -> str:
        return self.state.job.name


def tasks_of(snapshot: Snapshot) -> list[Task]:
    """Of all jobs that are not done. UsageError for a job that can't be simulated.

    A job's last collective, once it is under way, is taken to begin now: how much of it is left nobody knows, but left
    out it would be nobody's business, and starve.
    """
    shares = [state.job.ranks * state.job.weight for state in snapshot.jobs]
    total = sum(shares)
    found = []
    for state, share in zip(snapshot.jobs, shares, strict=True):
        if state.iterations_done >= state.job.iterations:
            continue
        # As if a job paused before it sends: its links are as free, and its iteration as long.
        compute_s = iteration_compute_s(state) + state.pause_s
        training_s = alone(snapshot.fabric, replace(state.job, compute_s=compute_s, compute_cv=0.0))[1]
        weight = share / total / training_s if training_s > 0 else 0.0
        alone_s = training_s / state.job.iterations
        jitter_s = math.hypot(state.jitter_s, state.job.compute_cv * compute_s)
        left = state.job.iterations - begun(state, snapshot.time_s)
        if left > 0:
            found.append(Task(state, left, compute_s, alone_s, weight, jitter_s, state.pause_s))
        else:
            found.append(Task(replace(state, next_start_s=snapshot.time_s), 1, 0.0, alone_s, weight, jitter_s, 0.0))
    return found


@dataclass(frozen=True)
class Crossings:
    """Who crosses which link under some routes, N crossings in the order of entities; background flows come last.

    owner [N]: the entity; those of entity e stand at first[e]:first[e+1]. link [N], usage [N]: the link's number, and
    bytes a second there at rate 1. scale [entities]: rate at one gradient byte a second. capacity [links], bytes a
    second; rack [links], NO_RACK between switches above.
    """

    owner: Ints
    first: Ints
    link: Ints
    usage: Floats
    scale: Floats
    capacity: Floats
    rack: Ints


class Problem:
    """A snapshot's tasks on its fabric, under any routes. `tasks` are those that send.

    snapshot: without jobs that links down cut off: no plan helps them, they take nothing from others, and what is
    predicted is about the others.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot = _without_cut_off(snapshot)
        every = tasks_of(snapshot)
        entities = entities_of([task.state.job for task in every], snapshot.background, snapshot.fabric, "collective")
        sending = [entity.job for entity in entities if entity.job >= 0]
        self.tasks = [every[index] for index in sending]
        self.varies = any(task.jitter_s > 0 for task in self.tasks)
        self.iterations = sum(task.iterations for task in self.tasks)
        self._entities = [
            replace(entity, job=number if entity.job >= 0 else -1) for number, entity in enumerate(entities)
        ]
        self._network = Network(snapshot.fabric, snapshot.seed, self._entities)
        self._network.router.down = snapshot.links_down
        self._crosses = np.array([_leaves_its_rack(entity, snapshot.fabric) for entity in self._entities], np.bool_)
        self._draws: dict[tuple[int, int, int], tuple[float, ...]] = {}

    def crossings(self, routes: Routes) -> Crossings:
        """All entities on their links."""
        network = self._network
        plan = Plan("harmonics", {name: JobPlan(paths=paths) for name, paths in routes.items()})
        loads = [network.load(index, plan) for index in range(len(self._entities))]
        scale = np.array([load.scale for load in loads], np.float64)
        owner = np.repeat(np.arange(len(loads)), [len(load.link) for load in loads])
        rates = [0.0 if name in network.router.down else network.rates[name] for name in network.links]
        fabric = self.snapshot.fabric
        leaves = {leaf: rack for rack, leaf in enumerate(fabric.leaves)}
        racks = [_rack_of_link(name, fabric, leaves) for name in network.links]
        return Crossings(
            owner=owner,
            first=np.concatenate([np.zeros(1, np.int64), np.cumsum([len(load.link) for load in loads])]),
            link=np.concatenate([np.empty(0, np.int64), *(load.link for load in loads)]),
            usage=np.concatenate([np.empty(0), *(load.carried for load in loads)]) / scale[owner],
            scale=scale,
            capacity=np.array(rates, np.float64),
            rack=np.array(racks, np.int64),
        )

    def whole_view(self, crossings: Crossings, tasks: Sequence[int], most: int, draw: int | None = None) -> View:
        """Some tasks on all their links; `most` iterations of all of them together, as far as each may keep one.

        draw: a seed of compute times, None for the averages.
        """
        background = range(len(self.tasks), len(self._entities))
        return self._view(crossings, [*tasks, *background], None, most, draw)

    def rack_views(self, crossings: Crossings, most: int) -> dict[int, View]:
        """By rack: its own links, between its hosts and the switches above it, and the tasks on them."""
        racks = crossings.rack[crossings.link]
        present = np.unique(np.stack([racks, crossings.owner]), axis=1)
        bounds = np.flatnonzero(np.diff(present[0], prepend=NO_RACK - 1))
        return {
            int(racks[0]): self._view(crossings, entities.tolist(), int(racks[0]), most, None)
            for racks, entities in np.split(present, bounds[1:], axis=1)
            if racks[0] != NO_RACK
        }

    def figures(self, crossings: Crossings, tasks: Sequence[int]) -> Figures:
        """Of some tasks; what they send alone is on these routes."""
        rate = np.minimum.reduceat(crossings.capacity[crossings.link] / crossings.usage, crossings.first[:-1])
        chosen = [self.tasks[number] for number in tasks]
        size = np.array([task.state.job.bytes for task in chosen], np.float64)
        with np.errstate(divide="ignore"):
            send_s = size * crossings.scale[list(tasks)] / rate[list(tasks)]
        return Figures(
            number=np.array(tasks, np.int64),
            compute_s=np.array([task.compute_s for task in chosen]),
            send_s=send_s,
            weight=np.array([task.weight for task in chosen]),
            iterations=np.array([task.iterations for task in chosen], np.int64),
            ranks=np.array([task.state.job.ranks for task in chosen], np.int64),
        )

    def crossing(self, tasks: Sequence[int]) -> list[int]:
        """Those of some tasks that leave their rack."""
        return [number for number in tasks if self._crosses[number]]

    def components(self, crossings: Crossings) -> list[list[int]]:
        """Tasks that share links, directly or through others: groups of two or more, in the order of their firsts."""
        leader = join_by_links(crossings.first[: len(self.tasks) + 1], crossings.link, len(crossings.capacity))
        order = np.argsort(leader, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(leader[order])) + 1)
        return sorted(group.tolist() for group in groups if len(group) > 1)

    def _view(self, c: Crossings, entities: Sequence[int], rack: int | None, most: int, draw: int | None) -> View:
        """Of one rack's links, or of all."""
        spans = [slice(c.first[entity], c.first[entity + 1]) for entity in entities]
        inside = [np.ones(s.stop - s.start, np.bool_) if rack is None else c.rack[c.link[s]] == rack for s in spans]
        contended = _contended(c, spans, inside)
        total = sum(self.tasks[entity].iterations for entity in entities if entity < len(self.tasks))
        part = min(1.0, most / total) if total else 1.0
        jobs: list[JobView] = []
        steady: list[JobView] = []
        used: set[int] = set()
        for entity, span, own in zip(entities, spans, inside, strict=True):
            link, usage = c.link[span], c.usage[span]
            named = own & np.array([number in contended for number in link.tolist()], np.bool_)
            cap = float((c.capacity[link] / usage)[~named].min(initial=math.inf))
            crossed = tuple(link[named].tolist()), tuple(usage[named].tolist())
            used.update(crossed[0])
            limit = self._entities[entity].limit
            if limit is not None:
                steady.append(JobView(-1, 0.0, 0, 0.0, (), (), (), *crossed, 1.0, min(cap, limit), 0, False))
            else:
                jobs.append(self._job_view(entity, part, draw, crossed, float(c.scale[entity]), cap))
        capacity = {link: float(c.capacity[link]) for link in sorted(used)}
        return View(self.snapshot.time_s, capacity, tuple(jobs), tuple(steady))

    def _job_view(
        self, number: int, part: float, draw: int | None, crossed: tuple[Links, Usage], scale: float, cap: float
    ) -> JobView:
        task = self.tasks[number]
        job = task.state.job
        iterations = max(1, math.ceil(task.iterations * part))
        return JobView(
            number=number,
            start_s=task.state.next_start_s,
            iterations=iterations,
            weight=task.weight * task.iterations / iterations,
            compute_s=self._compute_s(task, iterations, draw),
            bucket_ready=bucket_ready_fractions(len(job.bucket_bytes), job.overlap),
            bucket_bytes=tuple(float(size) for size in job.bucket_bytes),
            links=crossed[0],
            usage=crossed[1],
            scale=scale,
            cap=cap,
            ranks=job.ranks,
            crosses=bool(self._crosses[number]),
        )

    def _compute_s(self, task: Task, iterations: int, draw: int | None) -> tuple[float, ...]:
        job = task.state.job
        if draw is None or task.jitter_s == 0:
            return (task.compute_s,)
        key = job.index, iterations, draw
        if key not in self._draws:
            drawn_s = np.full(iterations, task.compute_s)
            if job.compute_cv > 0 and job.compute_s > 0:
                mean_s = iteration_compute_s(replace(task.state, compute_s=job.compute_s, iterations_done=0))
                drawn_s *= SlowestRank(job, draw).draw(iterations) * (job.compute_s / mean_s)
            if task.state.jitter_s > 0:
                noise = np.random.default_rng([draw, job.index]).standard_normal(iterations)
                drawn_s = np.maximum(drawn_s + task.state.jitter_s * noise, 0.0)
            self._draws[key] = tuple(drawn_s.tolist())
        return self._draws[key]


def _contended(c: Crossings, spans: Sequence[slice], inside: Sequence[NDArray[np.bool_]]) -> set[int]:
    """Links that two or more entities share, but for those that are never the first to be full."""
    loads: dict[int, dict[int, float]] = {}
    for entity, (span, own) in enumerate(zip(spans, inside, strict=True)):
        link = c.link[span][own]
        with np.errstate(divide="ignore"):
            load = c.usage[span][own] / c.capacity[link]
        for number, part in zip(link.tolist(), load.tolist(), strict=True):
            loads.setdefault(number, {})[entity] = part
    by_users: dict[tuple[int, ...], list[int]] = {}
    for number, users in loads.items():
        if len(users) > 1:
            by_users.setdefault(tuple(users), []).append(number)
    found: set[int] = set()
    for links in by_users.values():
        kept: list[int] = []
        for number in sorted(links, key=lambda link: (-sum(loads[link].values()), link)):
            own_loads = loads[number]
            if not any(all(loads[other][user] >= part for user, part in own_loads.items()) for other in kept):
                kept.append(number)
        found.update(kept)
    return found


def _without_cut_off(snapshot: Snapshot) -> Snapshot:
    """Without jobs of which one transfer, at least, has links down on all its paths."""
    router = Router(snapshot.fabric, snapshot.seed)
    router.down = snapshot.links_down

    def goes_on(state: JobState) -> bool:
        return all(router.down.isdisjoint(router.path(state.job.name, *pair)) for pair in state.transfers)

    return replace(snapshot, jobs=tuple(filter(goes_on, snapshot.jobs))) if router.down else snapshot


def _leaves_its_rack(entity: Entity, fabric: Fabric) -> bool:
    return any(fabric.rack_of[flow.src] != fabric.rack_of[flow.dst] for flow in entity.flows)


def _rack_of_link(name: str, fabric: Fabric, racks_of_leaves: Mapping[str, int]) -> int:
    """A rack owns the links of its leaf and its hosts. NO_RACK for links between the switches above."""
    if name not in fabric.links:
        return fabric.rack_of[name.split(":")[0]]
    link = fabric.links[name]
    return racks_of_leaves.get(link.src, racks_of_leaves.get(link.dst, NO_RACK))
