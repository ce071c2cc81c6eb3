"""A run's series as tables for other programs: units stand in the columns' names, and what is not known is empty.

Times are seconds since time zero (of packets: since the first one in the captures, which begin just before it), sizes
bytes, rates bits per second, ratios from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harmonics_emu.evidence.link_spans import spans_on_links
from harmonics_emu.evidence.recorded_run import RecordedRun
from harmonics_emu.evidence.segments import covers, edges_of
from harmonics_emu.evidence.series import SERIES_COLUMNS, series_rows
from harmonics_emu.evidence.witnesses import capture_files, captured
from harmonics_emu.results.series_files import Batch, Kind, Series

ITERATION_TIMES = ("iteration_s", "compute_s", "straggler_s", "gate_s", "communication_s")
PACKET_KINDS = {"src_port": int, "dst_port": int, "time_s": float, "width_s": float, "bytes": int, "bits_per_s": float}
ROWS = 50_000
"""Of packets' bins, handed on at once."""


def run_series(recorded: RecordedRun) -> Iterator[Series]:
    """All series of a run, of either engine; those of packets where it has captures."""
    times: dict[str, Kind] = dict.fromkeys(("start_s", "end_s", *ITERATION_TIMES), float)
    yield Series("iterations", {"job": str, "iteration": int, **times}, _iterations(recorded))
    yield Series("links", LINK_COLUMNS, _links(recorded))
    yield Series("contention", CONTENTION_COLUMNS, _contention(recorded))
    yield Series("decisions", DECISION_COLUMNS, _decisions(recorded))
    yield Series("plans", PLAN_COLUMNS, _plans(recorded))
    if capture_files(recorded.directory):
        yield Series("packets", {name: PACKET_KINDS.get(name, str) for name in SERIES_COLUMNS}, _packets(recorded))


def _iterations(recorded: RecordedRun) -> Iterator[Batch]:
    """Whole iterations of each job, all ranks together, warm-up included."""
    for job, rows in recorded.iterations.items():
        parts = [getattr(rows.times, name) for name in ITERATION_TIMES]
        yield [[job] * len(rows.end_s), rows.times.number, rows.start_s, rows.end_s, *parts]


LINK_COLUMNS: dict[str, Kind] = {
    "link": str,
    "start_s": float,
    "end_s": float,
    "carried_bytes": int,
    "carried_bits_per_s": float,
    "utilization_ratio": float,
    "dropped_packets": int,
    "backlog_bytes": int,
    "delay_s": float,
}


def _links(recorded: RecordedRun) -> Iterator[Batch]:
    """What each directed link carried and dropped between two readings of its counters, and what waited at the end."""
    for name, rows in recorded.run.records.links.items():
        if len(rows) < 2:
            continue
        start_s, end_s = rows["time_s"][:-1], rows["time_s"][1:]
        carried = np.diff(rows["bytes"])
        bits_per_s = 8 * carried / np.maximum(end_s - start_s, 1e-9)
        rate_bps = recorded.fabric.links[name].rate_bps if name in recorded.fabric.links else np.nan
        dropped = np.diff(rows["drops"])
        waiting = (rows["backlog_bytes"][1:], rows["delay_s"][1:])
        yield [[name] * len(carried), start_s, end_s, carried, bits_per_s, bits_per_s / rate_bps, dropped, *waiting]


CONTENTION_COLUMNS: dict[str, Kind] = {"link": str, "start_s": float, "end_s": float, "jobs": int, "names": str}


def _contention(recorded: RecordedRun) -> Iterator[Batch]:
    """Each stretch of time in which two jobs or more communicated on a directed link, by iteration spans."""
    for link, uses in spans_on_links(recorded).items():
        edges = edges_of(use.busy for use in uses.values())
        if len(uses) < 2 or len(edges) < 2:
            continue
        active = np.array([covers(use.busy, edges) for use in uses.values()])
        several = np.flatnonzero(active.sum(axis=0) >= 2)
        names = [" ".join(job for job, on in zip(uses, active[:, place], strict=True) if on) for place in several]
        counts = active.sum(axis=0)[several]
        yield [[link] * len(several), edges[several], edges[several + 1], counts, names]


DECISION_COLUMNS: dict[str, Kind] = {
    "decision": int,
    "policy": str,
    "time_s": float,
    "in_force_s": float,
    "solve_s": float,
    "critical_path_s": float,
    "fallback": bool,
    "why": str,
}


def _decisions(recorded: RecordedRun) -> Iterator[Batch]:
    found = recorded.run.records.decisions
    columns = [[getattr(one, name) for one in found] for name in list(DECISION_COLUMNS)[1:]]
    yield [list(range(1, len(found) + 1)), *columns]


PLAN_COLUMNS: dict[str, Kind] = {
    "decision": int,
    "job": str,
    "level": int,
    "rate_bits_per_s": float,
    "predicted_iteration_s": float,
    "measured_iteration_s": float,
}


def _plans(recorded: RecordedRun) -> Iterator[Batch]:
    """What each decision laid down for each job, with its iteration as predicted and then measured."""
    rows: list[tuple[Any, ...]] = []
    for number, decision in enumerate(recorded.run.records.decisions, start=1):
        jobs = decision.plan.get("jobs")
        for name, plan in jobs.items() if isinstance(jobs, dict) else ():
            if isinstance(plan, dict):
                told = (plan.get("level"), plan.get("rate_bps"))
                rows.append((number, name, *told, decision.predicted.get(name), decision.measured.get(name)))
    if rows:
        yield list(zip(*rows, strict=True))


def _packets(recorded: RecordedRun) -> Iterator[Batch]:
    """Bytes on the wire in each bin in which something was sent, of each link's directions, jobs and flows there."""
    examined = captured(recorded)
    assert examined is not None
    rows: list[tuple[object, ...]] = []
    for row in series_rows(examined):
        rows.append(tuple(None if cell == "" else cell for cell in row))
        if len(rows) == ROWS:
            yield list(zip(*rows, strict=True))
            rows.clear()
    if rows:
        yield list(zip(*rows, strict=True))
