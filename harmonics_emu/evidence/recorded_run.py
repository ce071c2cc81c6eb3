"""A run directory with everything that explanations and reports need: what ran, when each job sent, which plan held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence.segments import Floats
from harmonics_emu.records import Decision
from harmonics_emu.results.run_directory import MANIFEST
from harmonics_emu.results.schema import JobResult, UnreadableResult
from harmonics_emu.results.statistics import IterationTimes, ended, iteration_times
from harmonics_emu.results.store import Run, load_run
from harmonics_emu.scenario import Scenario, load_scenario
from harmonics_emu.schedulers.interface import JobPlan, Plan
from topologies.fabric import Fabric
from workloads.job import Job


@dataclass(frozen=True)
class Iterations:
    """A job's whole iterations in order, seconds since time zero.

    times: what each took and where it went. start_s: when the first rank began it. ready_by_rank_s, end_by_rank_s: from
    when each rank could send until it was done, (iterations, ranks) each, with one column for all ranks where they move
    together, and NaN for a rank's readiness where its program does not report its compute.
    """

    times: IterationTimes
    start_s: Floats
    ready_by_rank_s: Floats
    end_by_rank_s: Floats

    @cached_property
    def sending_s(self) -> Floats:
        """When all ranks could send."""
        found: Floats = self.ready_by_rank_s.max(axis=1)
        return found

    @cached_property
    def end_s(self) -> Floats:
        """When the last rank was done."""
        found: Floats = self.end_by_rank_s.max(axis=1)
        return found

    @property
    def windows(self) -> NDArray[np.float64]:
        """(iterations, 2): from when to when the job communicates; empty windows are of no length."""
        return np.column_stack([np.minimum(self.sending_s, self.end_s), self.end_s])

    @property
    def between_s(self) -> Floats:
        """(iterations + 1,): before, between and after the collectives: when no rank is known to send."""
        ready_s = self.ready_by_rank_s.min(axis=1)
        ready_s = np.where(np.isfinite(ready_s), ready_s, self.start_s)
        return np.concatenate([self.start_s[:1], (self.end_s[:-1] + ready_s[1:]) / 2, self.end_s[-1:]])


@dataclass(frozen=True)
class RecordedRun:
    """A run with its scenario resolved, and its iterations."""

    run: Run
    scenario: Scenario

    @property
    def fabric(self) -> Fabric:
        return self.scenario.fabric()

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """On the hosts that they ran on: the manifest tells those of jobs that waited for GPUs."""
        if self.scenario.queue is None:
            return self.scenario.jobs()
        settings = self.run.manifest.get("settings")
        placed = settings.get("hosts") if isinstance(settings, dict) else None
        if not isinstance(placed, dict):
            raise UnreadableResult(f"{self.directory / MANIFEST} does not tell the hosts of jobs (settings.hosts)")
        return tuple(self._on_its_hosts(job, placed.get(job.name, job.hosts)) for job in self.scenario.jobs())

    def _on_its_hosts(self, job: Job, hosts: Any) -> Job:
        known = self.fabric.host_index
        if not isinstance(hosts, (list, tuple)) or len(hosts) != job.ranks or not all(map(known.__contains__, hosts)):
            raise UnreadableResult(f"{self.directory / MANIFEST}: settings.hosts.{job.name} is no list of its hosts")
        return replace(job, hosts=tuple(hosts))

    @property
    def directory(self) -> Path:
        return self.run.directory

    def result(self, job: str) -> JobResult:
        return self.run.result.job(job)

    @cached_property
    def iterations(self) -> Mapping[str, Iterations]:
        """Of each job that has any."""
        found = {}
        for job in self.jobs:
            rows = self.run.records.iterations.get(job.name)
            if rows is not None and len(ended(rows)):
                found[job.name] = _iterations(rows, job, self.directory)
        return found

    @cached_property
    def plans(self) -> tuple[tuple[float, Plan], ...]:
        """When each plan came into force, in order; of one that lays no new levels, rates or paths, the first only."""
        found: list[tuple[float, Plan]] = [(0.0, Plan("fair"))]
        for decision in self.run.records.decisions:
            plan = plan_of(decision)
            if plan is not None and plan.jobs != found[-1][1].jobs:
                at_s = decision.time_s if decision.in_force_s is None else decision.in_force_s
                found.append((at_s, plan))
        return tuple(sorted(found, key=lambda entry: entry[0]))


def load_recorded_run(directory: Path) -> RecordedRun:
    """UnreadableResult (or a ScenarioError) names the file that is missing or does not fit."""
    if not (directory / "result.json").is_file():
        compared = (directory / "comparison.json").is_file()
        what = "a comparison: name one of the runs in it" if compared else "no whole run (result.json is missing)"
        raise UnreadableResult(f"{directory} holds {what}")
    return RecordedRun(load_run(directory), load_scenario(directory / "scenario.yaml"))


def plan_of(decision: Decision) -> Plan | None:
    """The plan on record, without its start times; None for a decision of another kind, as where jobs are placed."""
    jobs = decision.plan.get("jobs")
    if not isinstance(jobs, dict) or not all(isinstance(job, dict) and "level" in job for job in jobs.values()):
        return None
    return Plan(decision.policy, {name: _job_plan(job) for name, job in jobs.items()})


def _job_plan(values: Mapping[str, Any]) -> JobPlan:
    paths = {(path["src"], path["dst"]): tuple(path["links"]) for path in values.get("paths", ())}
    return JobPlan(level=values["level"], paths=paths, rate_bps=values.get("rate_bps"))


def _iterations(rows: NDArray[Any], job: Job, directory: Path) -> Iterations:
    try:
        times = iteration_times(rows)
    except ValueError as error:
        raise UnreadableResult(f"{directory / 'iterations.csv'}, job {job.name}: {error}") from None
    rows = ended(rows)
    rows = rows[np.isin(rows["iteration"], times.number)]
    rows = rows[np.lexsort((rows["rank"], rows["iteration"]))]
    table = rows.reshape(len(times.number), -1)
    # The first bucket is ready before all is computed where the two overlap; the gate comes before it.
    ready = table["start_s"] + table["compute_s"] * (1 - job.overlap) + table["gate_s"]
    return Iterations(times, table["start_s"].min(axis=1), ready, table["end_s"])
