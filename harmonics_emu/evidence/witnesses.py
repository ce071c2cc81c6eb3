"""Contention of a run as three independent witnesses tell it: iteration spans, link counters, and packets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harmonics_emu.evidence.address_groups import Groups, groups_of_run
from harmonics_emu.evidence.contention import LinkContention, Use, contention_on
from harmonics_emu.evidence.counters import sending_by_counters
from harmonics_emu.evidence.examine import Examined, examine
from harmonics_emu.evidence.link_spans import spans_on_links
from harmonics_emu.evidence.recorded_run import RecordedRun
from harmonics_emu.evidence.segments import Floats, covers, edges_of
from harmonics_emu.evidence.traffic import Traffic

SAMPLES_WANTED = 2
"""Samples of a link's counters that a typical contended time must hold for them to say anything of it."""


@dataclass(frozen=True)
class LinkWitness:
    """One directed link on which jobs communicated at once.

    spans: by iteration spans. counters_s: contended seconds by the counters of links that one job has to itself, None
    where they can't tell. packets_s: the same by packets, None where the link was not captured.
    used: what the link's own counters say of the contended time, as part of its rate. None where they were not read
    often enough to tell that time from the rest.
    """

    spans: LinkContention
    counters_s: float | None
    packets_s: float | None
    used: float | None


def captured_traffic(recorded: RecordedRun) -> Traffic | None:
    """What the run's captures show, None if it has none."""
    examined = captured(recorded)
    return None if examined is None else examined.traffic


def captured(recorded: RecordedRun) -> Examined | None:
    """The run's captures, its jobs and collectives told apart as the run knows them; None if it has none."""
    files = capture_files(recorded.directory)
    if not files:
        return None
    return examine(
        files, groups=captured_groups(recorded), fabric=recorded.fabric, between_s=between_collectives(recorded)
    )


def between_collectives(recorded: RecordedRun) -> dict[str, Floats]:
    """Of each job, seconds since time zero at which one of its collectives is over and the next has not begun."""
    return {name: rows.between_s for name, rows in recorded.iterations.items()}


def captured_groups(recorded: RecordedRun) -> Groups:
    """The run's jobs as their packets tell them."""
    return groups_of_run(recorded.fabric, recorded.jobs)


def capture_files(directory: Path) -> tuple[str, ...]:
    """The captures in a run's directory."""
    return tuple(str(path) for path in sorted((directory / "captures").glob("*.pcap*")))


def witnesses(recorded: RecordedRun, traffic: Traffic | None = None) -> tuple[LinkWitness, ...]:
    """Links on which jobs communicated at once, the most contended first."""
    packets = {link.link: link.contended_s for link in traffic.links} if traffic is not None else {}
    found = []
    for link, uses in spans_on_links(recorded).items():
        if len(uses) < 2:
            continue
        contention = contention_on(link, uses)
        if contention.contended_s > 0:
            used = _used(recorded, link, uses)
            found.append(LinkWitness(contention, _by_counters(recorded, link, uses), packets.get(link), used))
    return tuple(sorted(found, key=lambda witness: (-witness.spans.contended_s, witness.spans.link)))


def _by_counters(recorded: RecordedRun, link: str, uses: Mapping[str, Use]) -> float | None:
    """Contended seconds as counters tell them, None where typical contended times are too short for them."""
    counters = recorded.run.records.link_bytes
    lengths = _contended_lengths(uses)
    if counters is None or not len(lengths) or len(counters.time_s) < 3:
        return None
    if np.median(np.diff(counters.time_s)) * SAMPLES_WANTED > np.median(lengths):
        return None
    sending = sending_by_counters(recorded, link, list(uses))
    if sending is None:
        return None
    edges = edges_of(sending.values())
    several = np.sum([covers(busy, edges) for busy in sending.values()], axis=0) >= 2
    return float(np.diff(edges)[several].sum())


def _contended_lengths(uses: Mapping[str, Use]) -> Floats:
    """How long each stretch of time is in which two jobs or more are at work."""
    edges = edges_of(use.busy for use in uses.values())
    several = np.sum([covers(use.busy, edges) for use in uses.values()], axis=0) >= 2
    lengths: Floats = np.diff(edges)[several]
    return lengths


def _used(recorded: RecordedRun, link: str, uses: Mapping[str, Use]) -> float | None:
    """Part of a link's rate that was carried while two jobs or more communicated on it, between samples evenly."""
    time_s, so_far = _counter_of(recorded, link)
    if len(time_s) < 2:
        return None
    edges = edges_of(use.busy for use in uses.values())
    several = np.sum([covers(use.busy, edges) for use in uses.values()], axis=0) >= 2
    lengths = np.diff(edges)[several]
    if not len(lengths) or np.median(np.diff(time_s)) * SAMPLES_WANTED > np.median(lengths):
        return None
    carried = np.diff(np.interp(edges, time_s, so_far))[several].sum()
    return float(carried / (recorded.fabric.links[link].rate_bps / 8 * lengths.sum()))


def _counter_of(recorded: RecordedRun, link: str) -> tuple[Floats, Floats]:
    """Times at which a link's byte counter was read, as often as it was, and bytes until then; empty if it was not."""
    often = recorded.run.records.link_bytes
    if often is not None and link in often.links:
        return often.time_s, often.bytes[:, often.links.index(link)].astype(np.float64)
    rows = recorded.run.records.links.get(link)
    if rows is None:
        return np.zeros(0), np.zeros(0)
    return rows["time_s"], rows["bytes"].astype(np.float64)
