"""A run directory to a Perfetto trace: a track for each rank, a counter for each link, the scheduler's decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence.recorded_run import RecordedRun
from harmonics_emu.records import Decision
from harmonics_emu.results.statistics import ended
from harmonics_emu.timeline.perfetto import TraceBuilder
from harmonics_emu.timeline.protobuf import Value
from workloads.job import Job

BYTES_TO_MBIT = 8e-6


def trace(recorded: RecordedRun) -> Iterator[bytes]:
    """The trace in parts, to be written one after the other.

    Jobs are groups of ranks; a rank's iteration holds compute, gate and communication. Rates of links are means between
    two readings of their counters. A decision lasts as long as its plan was waited for.
    """
    builder = TraceBuilder()
    yield from _decisions(builder, recorded.run.records.decisions)
    for job in recorded.jobs:
        rows = recorded.run.records.iterations.get(job.name)
        if rows is not None and len(ended(rows)):
            yield from _job(builder, job, ended(rows), recorded.run.result.engine == "simulate")
    yield from _links(builder, recorded)


def _decisions(builder: TraceBuilder, decisions: list[Decision]) -> Iterator[bytes]:
    if not decisions:
        return
    track, described = builder.track("scheduler")
    yield described
    for decision in sorted(decisions, key=lambda decision: decision.time_s):
        notes: dict[str, Value] = {"solve_s": decision.solve_s, "why": decision.why, "fallback": int(decision.fallback)}
        jobs = decision.plan.get("jobs")
        for name, plan in jobs.items() if isinstance(jobs, dict) else ():
            if isinstance(plan, dict) and "level" in plan:
                notes[f"level of {name}"] = int(plan["level"])
        yield builder.instant(track, decision.policy, decision.time_s, notes)


def _job(builder: TraceBuilder, job: Job, rows: NDArray[Any], ranks_as_one: bool) -> Iterator[bytes]:
    group, described = builder.track(job.name)
    yield described
    for rank in np.unique(rows["rank"]).tolist():
        name = f"all {job.ranks} ranks" if ranks_as_one else f"rank {rank} on {job.hosts[rank]}"
        track, described = builder.track(name, group)
        yield described
        mine = rows[rows["rank"] == rank]
        for row in mine[np.argsort(mine["iteration"])]:
            yield from _iteration(builder, track, row)


def _iteration(builder: TraceBuilder, track: int, row: Any) -> Iterator[bytes]:
    start_s, end_s = float(row["start_s"]), float(row["end_s"])
    yield builder.begin(track, f"iteration {row['iteration']}", start_s)
    at_s = start_s
    for what in ("compute", "gate"):
        length_s = float(row[f"{what}_s"])
        if length_s > 0:  # NaN where it was not measured
            until_s = min(at_s + length_s, end_s)
            yield builder.slice(track, what, at_s, until_s)
            at_s = until_s
    if at_s < end_s:
        yield builder.slice(track, "communication", at_s, end_s)
    yield builder.end(track, end_s)


def _links(builder: TraceBuilder, recorded: RecordedRun) -> Iterator[bytes]:
    group, described = builder.track("links")
    yield described
    for name, rows in recorded.run.records.links.items():
        if len(rows) < 2 or rows["bytes"][-1] == 0:
            continue
        track, described = builder.track(f"{name} Mbit/s", group, unit="Mbit/s")
        yield described
        rates = np.diff(rows["bytes"]) / np.maximum(np.diff(rows["time_s"]), 1e-9) * BYTES_TO_MBIT
        for at_s, rate in zip(rows["time_s"][:-1].tolist(), rates.tolist(), strict=True):
            yield builder.counter(track, at_s, rate)
        yield builder.counter(track, float(rows["time_s"][-1]), 0.0)
