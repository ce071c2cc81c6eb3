"""Contention of a run as three independent witnesses tell it: iteration spans, link counters, and packets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harmonics_emu.evidence.address_groups import Groups, groups_of_run
from harmonics_emu.evidence.contention import LinkContention, Use, contention_on
from harmonics_emu.evidence.examine import examine
from harmonics_emu.evidence.paces import Paces
from harmonics_emu.evidence.recorded_run import RecordedRun
from harmonics_emu.evidence.segments import covers, edges_of, union
from harmonics_emu.evidence.traffic import Traffic
from harmonics_emu.simulate.entities import job_flows
from harmonics_emu.simulate.routing import Router

SAMPLES_WANTED = 2
"""Samples of a link's counters that a typical contended time must hold for them to say anything of it."""


@dataclass(frozen=True)
class LinkWitness:
    """One directed link on which jobs communicated at once.

    spans: by iteration spans. used: what the link's counters say of that time, as part of its rate; None where they
    were not read often enough to tell that time from the rest.
    packets_s: contended seconds by packets, None where the link was not captured.
    """

    spans: LinkContention
    used: float | None
    packets_s: float | None


def captured_traffic(recorded: RecordedRun) -> Traffic | None:
    """What the run's captures show, None if it has none."""
    files = capture_files(recorded.directory)
    if not files:
        return None
    return examine(files, groups=captured_groups(recorded), fabric=recorded.fabric).traffic


def captured_groups(recorded: RecordedRun) -> Groups:
    """The run's jobs as their packets tell them."""
    return groups_of_run(recorded.fabric, recorded.jobs)


def capture_files(directory: Path) -> tuple[str, ...]:
    """The captures in a run's directory."""
    return tuple(str(path) for path in sorted((directory / "captures").glob("*.pcap*")))


def spans_on_links(recorded: RecordedRun) -> dict[str, dict[str, Use]]:
    """Each directed link to the jobs that crossed it, with when they communicated: bytes as the scenario has them.

    Where plans moved a job between paths, it counts on all of them at all times.
    """
    paces, found = Paces(recorded), {}  # type: tuple[Paces, dict[str, dict[str, Use]]]
    router = Router(recorded.fabric, recorded.run.result.seed)
    for job in recorded.jobs:
        if job.name not in recorded.iterations or job.name not in paces.senders:
            continue
        windows = recorded.iterations[job.name].windows
        windows = windows[np.isfinite(windows[:, 0]) & (windows[:, 1] > windows[:, 0])]
        carried: dict[str, float] = {}
        for flow in job_flows(job, recorded.fabric):
            for link in router.path(job.name, flow.src, flow.dst):
                carried[link] = carried.get(link, 0.0) + flow.share * job.bytes
        for link in sorted(paces.links_of(job.name) & recorded.fabric.links.keys()):
            size = np.full(len(windows), carried.get(link, 0.0))
            found.setdefault(link, {})[job.name] = Use(union(windows), windows[:, 0], windows[:, 1], size)
    return found


def witnesses(recorded: RecordedRun, traffic: Traffic | None = None) -> tuple[LinkWitness, ...]:
    """Links on which jobs communicated at once, the most contended first."""
    packets = {link.link: link.contended_s for link in traffic.links} if traffic is not None else {}
    found = []
    for link, uses in spans_on_links(recorded).items():
        if len(uses) < 2:
            continue
        contention = contention_on(link, uses)
        if contention.contended_s > 0:
            found.append(LinkWitness(contention, _used(recorded, link, uses), packets.get(link)))
    return tuple(sorted(found, key=lambda witness: (-witness.spans.contended_s, witness.spans.link)))


def _used(recorded: RecordedRun, link: str, uses: Mapping[str, Use]) -> float | None:
    """Part of a link's rate that was carried while two jobs or more communicated on it, between samples evenly."""
    rows = recorded.run.records.links.get(link)
    if rows is None or len(rows) < 2:
        return None
    edges = edges_of(use.busy for use in uses.values())
    several = np.sum([covers(use.busy, edges) for use in uses.values()], axis=0) >= 2
    lengths = np.diff(edges)[several]
    if not len(lengths) or np.median(np.diff(rows["time_s"])) * SAMPLES_WANTED > np.median(lengths):
        return None
    carried = np.diff(np.interp(edges, rows["time_s"], rows["bytes"]))[several].sum()
    return float(carried / (recorded.fabric.links[link].rate_bps / 8 * lengths.sum()))
