"""What captures show, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harmonics_emu.evidence.examine import Examined
from harmonics_emu.evidence.series import binned_bytes
from harmonics_emu.evidence.traffic import CaptureFile, JobTraffic, Traffic
from harmonics_emu.results.tables import NOTHING, seconds

SPARKS = " ▁▂▃▄▅▆▇█"
SPARK_WIDTH = 50
MOST_PAIRS = 12
MOST_LINES = 16
GUESSED = {
    "grouping": "Jobs are guessed: addresses that send each other payload. Name them with --job or --run.",
    "directions": "Directions are guessed from who sends to whom; --run tells them.",
}


def traffic_table(examined: Examined) -> RenderableType:
    """Files, jobs, how they share each link, and what must be known before the figures are trusted."""
    shown = examined.traffic
    return Group(
        _files(shown.files),
        Text(),
        _jobs(shown.jobs) if shown.jobs else Text("No TCP or UDP payload between two addresses of one job."),
        *(Text(f"{job.name}: ring {' > '.join(job.ring)}") for job in shown.jobs if job.ring),
        Text(),
        *_throughput(examined),
        *_contention(shown),
        *_doubts(shown),
    )


def _table(*columns: str, names: int = 1) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < names else "right", overflow="fold", no_wrap=place >= names)
    return table


def _files(files: Sequence[CaptureFile]) -> Table:
    table = _table("capture", "format", "packets", "on the wire", "from", "for", names=2)
    for file in files:
        about = f"{file.format}, {', '.join(file.link_types)}"
        times = [seconds([time])[0] for time in (file.start_s, file.seconds)]
        table.add_row(Text(file.link), about, f"{file.packets:,}", size(file.bytes), *times)
    return table


def _jobs(jobs: Sequence[JobTraffic]) -> Table:
    table = _table("job", "payload", "collec-\ntives", "each", "every", "sent\nagain", "late", "dup.\nACKs", "RTT")
    for job in jobs:
        counts, trips = job.counts, job.counts.round_trips
        table.add_row(
            Text(job.name),
            size(counts.payload_bytes),
            str(job.collectives),
            seconds([job.mean_collective_s])[0],
            seconds([job.mean_period_s])[0],
            str(counts.repeated),
            str(counts.late),
            str(counts.duplicate_acks),
            seconds([trips.median_s if trips else None])[0],
        )
    return table


def _throughput(examined: Examined) -> Iterator[RenderableType]:
    """A line for each job on each direction of a link: darker where it sends more."""
    end_s = max((file.start_s + file.seconds for file in examined.traffic.files), default=0.0)
    table = _table("link", "job", f"0 to {seconds([end_s])[0]}", names=3)
    table.columns[2].no_wrap = True
    lines = 0
    for link in examined.links:
        cells = link.table.cells
        way, job = link.directions[cells["flow"]], link.jobs[cells["flow"]]
        rows = []
        for direction in range(2):
            for number, name in enumerate(examined.groups.names):
                its = cells[(way == direction) & (job == number)]
                if len(its):
                    rows.append((link.ways[direction], name, binned_bytes(examined, link, its, SPARK_WIDTH, end_s)))
        most = max((float(sizes.max()) for _, _, sizes in rows), default=0.0)
        for named, name, sizes in rows:
            lines += 1
            if lines <= MOST_LINES:
                levels = np.ceil(sizes / most * (len(SPARKS) - 1)).astype(int)
                table.add_row(Text(named), Text(name), "".join(SPARKS[level] for level in levels))
    if lines:
        yield table
        if lines > MOST_LINES:
            yield Text(f"{lines - MOST_LINES} more lines: --out DIR writes all series.")
        yield Text()


def _contention(shown: Traffic) -> Iterator[RenderableType]:
    pairs = []
    for link in shown.links:
        for a, first in enumerate(link.jobs):
            for b in range(a + 1, len(link.jobs)):
                if link.pairs_s[a][b] > 0:
                    both = link.pairs_bytes[a][b] + link.pairs_bytes[b][a]
                    pairs.append((link.pairs_s[a][b], link.link, first, link.jobs[b], both))
    if not pairs:
        if len(shown.jobs) > 1:
            yield Text("No two jobs were at work on one direction of a link at once.")
        return
    table = _table("link", "jobs at once", "contended", "bytes meanwhile", names=2)
    for contended_s, link_name, first, second, both in sorted(pairs, reverse=True)[:MOST_PAIRS]:
        table.add_row(Text(link_name), Text(f"{first}, {second}"), seconds([contended_s])[0], size(both))
    yield table
    if len(pairs) > MOST_PAIRS:
        yield Text(f"{len(pairs) - MOST_PAIRS} more pairs: --json prints all.")


def _doubts(shown: Traffic) -> Iterator[RenderableType]:
    if shown.grouping == "guessed":
        yield Text(GUESSED["grouping"], style="dim")
    if shown.directions == "guessed":
        yield Text(GUESSED["directions"], style="dim")
    for file in shown.files:
        if file.damage:
            yield Text(f"{file.file}: {file.damage}; what came before it is counted", style="yellow")
        if file.incomplete:
            yield Text(f"{file.file} is incomplete: {file.incomplete}", style="yellow")
        elif file.reported_drops:
            yield Text(f"{file.file}: the capture lost {file.reported_drops} packets: incomplete", style="yellow")
        if passed := passed_over(file):
            yield Text(f"{file.file}: {passed}", style="dim")


def passed_over(file: CaptureFile) -> str:
    """What of a file's packets could not be used to the full, in words; empty if nothing."""
    passed = file.passed
    told = (
        (passed.cut_short, "cut off within their headers (snaplen)"),
        (passed.malformed, "with headers that contradict themselves"),
        (passed.other_network, "that are not IP"),
        (passed.unread_link, "of a link layer that is not read"),
        (passed.zero_length, "of zero length"),
        (passed.untimed, "without a time"),
        (passed.backwards, "earlier than the one before"),
        (passed.beyond_table, "of flows beyond those there was room for"),
        (file.skipped_blocks, "in blocks of unknown types"),
    )
    return ", ".join(f"{count:,} {what}" for count, what in told if count)


def size(count: float) -> str:
    """Bytes with three digits in a decimal unit: 1.23 GB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            value = count / scale
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{count:.0f} B" if count == count else NOTHING
