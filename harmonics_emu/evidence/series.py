"""Throughput over time of links, jobs and flows, and files for other programs: units stand in the columns' names."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence.examine import CapturedLink, Examined
from harmonics_emu.ownership import Owner
from harmonics_emu.results.run_directory import replacing

SERIES_COLUMNS = ("link", "job", "src", "src_port", "dst", "dst_port", "time_s", "width_s", "bytes", "bits_per_s")
COLLECTIVE_COLUMNS = ("job", "start_s", "end_s", "bytes", "participants", "ring")
FLOW_COLUMNS = (
    "link",
    "job",
    "protocol",
    "src",
    "src_port",
    "dst",
    "dst_port",
    "start_s",
    "end_s",
    "packets",
    "bytes",
    "payload_bytes",
    "super_segments",
    "retransmissions",
    "retransmitted_bytes",
    "out_of_order",
    "duplicate_acks",
    "repeated",
    "repeated_bytes",
    "late",
    "rtt_samples",
    "rtt_least_s",
    "rtt_median_s",
    "rtt_p99_s",
)


def write_tables(directory: Path, examined: Examined, owner: Owner | None) -> tuple[str, ...]:
    """Write series.csv, flows.csv and collectives.csv, and return their names.

    series.csv holds one row for each bin in which something was sent, of each flow, each job and each direction of a
    link: src and dst are empty for a job or a link, job for a link. bytes: on the wire.
    """
    files: dict[str, tuple[tuple[str, ...], Iterable[tuple[object, ...]]]] = {
        "series.csv": (SERIES_COLUMNS, series_rows(examined)),
        "flows.csv": (FLOW_COLUMNS, _flow_rows(examined)),
        "collectives.csv": (COLLECTIVE_COLUMNS, _collective_rows(examined)),
    }
    for name, (columns, rows) in files.items():
        with replacing(directory, name, owner) as sink:
            writer = csv.writer(sink, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
    return tuple(files)


def series_rows(examined: Examined) -> Iterator[tuple[object, ...]]:
    """Rows of SERIES_COLUMNS, links first, then jobs, then flows, each in order of time."""
    flows = iter(examined.traffic.flows)
    for link in examined.links:
        labels = [next(flows) for _ in range(len(link.table.flows))]
        cells, width_s = link.table.cells, link.table.width_ns * 1e-9
        direction = link.directions[cells["flow"]]
        job = link.jobs[cells["flow"]]
        for way in range(-1, 2):
            here = cells[direction == way]
            yield from _rows_of(examined, link, here, (link.ways[way], "", "", "", "", ""), width_s)
            for number, name in enumerate(examined.groups.names):
                its = cells[(direction == way) & (job == number)]
                yield from _rows_of(examined, link, its, (link.ways[way], name, "", "", "", ""), width_s)
        for number, flow in enumerate(labels):
            about = (flow.link, flow.job or "", flow.src, flow.src_port, flow.dst, flow.dst_port)
            yield from _rows_of(examined, link, cells[cells["flow"] == number], about, width_s)


def binned_bytes(examined: Examined, link: CapturedLink, cells: NDArray[Any], bins: int, end_s: float) -> NDArray[Any]:
    """Bytes of some cells in `bins` equal parts of the time from the first packet of all files to `end_s`."""
    middle_s = ((cells["bin"] + 0.5) * link.table.width_ns - examined.origin_ns) * 1e-9
    place = np.clip((middle_s / max(end_s, 1e-9) * bins).astype(np.int64), 0, bins - 1)
    return np.bincount(place, cells["bytes"], minlength=bins)


def _rows_of(
    examined: Examined, link: CapturedLink, cells: NDArray[Any], about: tuple[object, ...], width_s: float
) -> Iterator[tuple[object, ...]]:
    bins, inverse = np.unique(cells["bin"], return_inverse=True)
    sizes = np.bincount(inverse, cells["bytes"], minlength=len(bins)).astype(np.int64)
    # In whole nanoseconds: seconds since 1970 as a float would lose the digits that count.
    starts_s = (bins * link.table.width_ns - examined.origin_ns) * 1e-9
    for start_s, size in zip(starts_s.tolist(), sizes.tolist(), strict=True):
        yield (*about, round(start_s, 9), width_s, size, round(8 * size / width_s))


def _flow_rows(examined: Examined) -> Iterator[tuple[object, ...]]:
    for flow in examined.traffic.flows:
        counts, trips = flow.counts, flow.counts.round_trips
        yield (
            flow.link,
            flow.job or "",
            flow.protocol,
            flow.src,
            flow.src_port,
            flow.dst,
            flow.dst_port,
            flow.start_s,
            flow.end_s,
            counts.packets,
            counts.bytes,
            counts.payload_bytes,
            counts.super_segments,
            counts.retransmissions,
            counts.retransmitted_bytes,
            counts.out_of_order,
            counts.duplicate_acks,
            counts.repeated,
            counts.repeated_bytes,
            counts.late,
            *((trips.samples, trips.least_s, trips.median_s, trips.p99_s) if trips else (0, "", "", "")),
        )


def _collective_rows(examined: Examined) -> Iterator[tuple[object, ...]]:
    for c in examined.traffic.collectives:
        yield (c.job, c.start_s, c.end_s, c.bytes, " ".join(c.participants), " ".join(c.ring or ()))
