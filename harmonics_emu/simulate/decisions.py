"""What a policy is shown of the simulated jobs, and its plan: checked, and as the values that go on record."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import msgspec
import numpy as np

from harmonics_emu.errors import RunFailed
from harmonics_emu.records import Decision
from harmonics_emu.results.rows import as_builtin
from harmonics_emu.schedulers.interface import JobPlan, JobState, Plan, Policy, Snapshot
from harmonics_emu.simulate.kernel.loop import ABSENT, DONE, SENDING, WAITING, Jobs, Progress
from harmonics_emu.simulate.kernel.queue import EventQueue
from harmonics_emu.simulate.kernel.sharing import Floats
from topologies.fabric import Fabric, Path
from workloads.collectives import job_transfers
from workloads.job import LEVELS, Job


class Observer:
    """Turns the engine's arrays into the JobStates of a snapshot; remembers what was measured last."""

    def __init__(self, jobs: Sequence[Job], fabric: Fabric) -> None:
        self._specs = list(jobs)
        self._fabric = fabric
        self._transfers = [job_transfers(job, fabric.rack_of) for job in jobs]
        self._measured: list[tuple[float, float | None]] = [(job.compute_s, None) for job in jobs]

    def moved(self, index: int, job: Job) -> None:
        """A job that has not begun yet is on other hosts than it was."""
        self._specs[index] = job
        self._transfers[index] = job_transfers(job, self._fabric.rack_of)

    def look(
        self, jobs: Jobs, queue: EventQueue, progress: Progress, arriving: Sequence[int], now: float
    ) -> tuple[JobState, ...]:
        """The jobs that are there, with those that arrive now. Times are means over the iterations since the last look.

        next_start_s is when the iteration begins, or began, whose collective is the next that has not begun: the one
        that the first of a plan's starts_s is for. Where that is not known yet, it is what present rates lead to.
        """
        for index in np.flatnonzero(jobs.spent_iterations):
            count, compute = jobs.spent_iterations[index], jobs.spent_compute[index]
            self._measured[index] = (float(compute / count), float((jobs.spent_total[index] - compute) / count))
        for sums in (jobs.spent_iterations, jobs.spent_compute, jobs.spent_total):
            sums[:] = 0
        present = (jobs.phase != ABSENT) & (jobs.phase != DONE)
        present[list(arriving)] = True
        next_start = self._next_starts(jobs, queue, progress, now)
        return tuple(
            JobState(
                job=self._specs[index],
                transfers=self._transfers[index],
                compute_s=self._measured[index][0],
                communication_s=self._measured[index][1],
                iterations_done=int(jobs.done[index]),
                next_start_s=float(next_start[index]),
            )
            for index in np.flatnonzero(present).tolist()
        )

    @staticmethod
    def _next_starts(jobs: Jobs, queue: EventQueue, progress: Progress, now: float) -> Floats:
        sent = np.full(len(jobs.phase), now)
        due = queue.time[: len(progress.job)]
        sending = np.isfinite(due)
        np.maximum.at(sent, progress.job[sending], due[sending])
        # Whom earlier levels starve would never be done at present rates. It has begun: what comes next is later.
        np.maximum(sent, np.nextafter(now, np.inf), out=sent, where=jobs.phase == SENDING)
        after_this = np.maximum(sent, jobs.began + jobs.computing)
        not_begun = (jobs.phase == WAITING) & (jobs.next_bucket == jobs.bucket[:-1])
        return np.where(not_begun, jobs.began, np.where(jobs.phase == ABSENT, now, after_this))


def decide(policy: Policy, snapshot: Snapshot) -> tuple[Plan, Decision]:
    """Ask a policy for its plan and time it. RunFailed if the plan can't be carried out on this fabric or recorded.

    A job's last start times are left out where they are over before it can come to them: they hold nobody.
    """
    began = time.perf_counter()
    plan = policy.plan(snapshot)
    solve_s = time.perf_counter() - began
    where = f"policy {policy.name}, plan at {snapshot.time_s:g} s"
    if not isinstance(plan, Plan):
        raise RunFailed(f"{where}: it is no Plan but of type {type(plan).__name__}")
    names = {state.job.name for state in snapshot.jobs}
    for name, job in plan.jobs.items():
        problem = "the snapshot has no such job" if name not in names else _problem(job, snapshot.fabric)
        if problem:
            raise RunFailed(f"{where}, job {name}: {problem}")
    plan = _without_idle_starts(plan, snapshot)
    try:
        values = plan_values(plan)
        critical_path_s = float(plan.facts.get("critical_path_s", solve_s))
    except (TypeError, ValueError, NotImplementedError) as error:
        raise RunFailed(f"{where}: its facts must be JSON values, and critical_path_s a number: {error}") from None
    fallback = bool(plan.facts.get("fallback", False))
    return plan, Decision(snapshot.time_s, policy.name, solve_s, critical_path_s, values, fallback)


def _without_idle_starts(plan: Plan, snapshot: Snapshot) -> Plan:
    trimmed = {}
    for state in snapshot.jobs:
        starts_s = plan.of(state.job.name).starts_s
        needed = len(starts_s)
        while needed and starts_s[needed - 1] <= state.next_start_s:
            needed -= 1
        if needed < len(starts_s):
            trimmed[state.job.name] = replace(plan.of(state.job.name), starts_s=starts_s[:needed])
    return replace(plan, jobs={**plan.jobs, **trimmed}) if trimmed else plan


def plan_values(plan: Plan) -> dict[str, Any]:
    """A plan as JSON values; NaN and infinities among its facts become null. NotImplementedError for what is none."""
    jobs = {
        name: {
            "level": int(job.level),
            "rate_bps": job.rate_bps,
            "starts_s": list(job.starts_s),
            "paths": [{"src": src, "dst": dst, "links": list(path)} for (src, dst), path in job.paths.items()],
        }
        for name, job in plan.jobs.items()
    }
    facts = msgspec.json.decode(msgspec.json.encode(plan.facts, enc_hook=as_builtin))
    return {"policy": plan.policy, "jobs": jobs, "facts": facts}


def _problem(job: JobPlan, fabric: Fabric) -> str | None:
    if not isinstance(job.level, Integral) or not 0 <= job.level < LEVELS:
        return f"level {job.level!r} is none of 0 to {LEVELS - 1}"
    if job.rate_bps is not None and not 0 < job.rate_bps < math.inf:
        return f"the rate {job.rate_bps} is not above zero; no cap is None"
    if not all(math.isfinite(start) for start in job.starts_s):
        return "a start time is not a finite number"
    for (src, dst), path in job.paths.items():
        if not _joins(path, src, dst, fabric):
            return f"its path from {src} to {dst} is no chain of links from the one to the other"
    return None


def _joins(path: Path, src: str, dst: str, fabric: Fabric) -> bool:
    node = src
    for name in path:
        link = fabric.links.get(name)
        if link is None or link.src != node:
            return False
        node = link.dst
    return node == dst
