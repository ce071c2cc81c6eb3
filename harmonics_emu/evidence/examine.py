"""Capture files to Traffic: reads each, tells jobs and directions, and lays all files on one clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence import traffic
from harmonics_emu.evidence.address_groups import Groups, addresses_of, guess_groups, jobs_of_flows
from harmonics_emu.evidence.capture.kernel import accounting as places
from harmonics_emu.evidence.capture.reader import Capture, read_capture
from harmonics_emu.evidence.capture.round_trips import round_trips
from harmonics_emu.evidence.capture.source import STANDARD_INPUT, UnreadableCapture, link_of
from harmonics_emu.evidence.capture.table import WIDTH_NS, FlowTable
from harmonics_emu.evidence.collectives import (
    Activity,
    Collective,
    choose_gap_s,
    collectives_between,
    find_collectives,
    ring_order,
    spans_of,
    traffic_matrix,
)
from harmonics_emu.evidence.contention import Use, contention_matrix, contention_on
from harmonics_emu.evidence.directions import Directions, directions_on_cable, guess_directions
from harmonics_emu.evidence.segments import Floats, union
from harmonics_emu.results.captures import CaptureAccount, read_accounts
from topologies.fabric import Fabric

LEAST_S = 1e-6
"""What a burst of one packet is taken to last."""


@dataclass(frozen=True)
class CapturedLink:
    """One file as read. directions and jobs: of each flow in the table, -1 where it is not known.

    account: what the run that made the file says of it.
    """

    link: str
    capture: Capture
    table: FlowTable
    directions: Directions
    jobs: NDArray[np.int64]
    ways: tuple[str, str, str]
    """Names of directions 0 and 1, and of the unknown one."""
    account: CaptureAccount | None = None

    def way(self, flow: int) -> str:
        return self.ways[self.directions[flow]]


@dataclass(frozen=True)
class Examined:
    """What captures show, and the tables that it is drawn from, for series. Times of tables are nanoseconds since 1970.

    counted: for each link, the flows that no other link saw more of.
    """

    traffic: traffic.Traffic
    groups: Groups
    links: tuple[CapturedLink, ...]
    counted: tuple[NDArray[np.int64], ...]
    origin_ns: int


def examine(
    paths: Sequence[str],
    *,
    groups: Groups | None = None,
    fabric: Fabric | None = None,
    gap_s: float | None = None,
    width_s: float = WIDTH_NS * 1e-9,
    between_s: Mapping[str, Floats] | None = None,
) -> Examined:
    """Read captures, each of one link, into what they show together.

    groups: the jobs; None guesses them. fabric: tells the directions on links that files are named after. gap_s: the
    pause between two collectives, None chooses one for each job. width_s: bins of the series. between_s: for jobs of
    the run that made the captures, seconds since its time zero at which one collective is over and the next has not
    begun; used where gap_s is None and the files tell when time zero was. UnreadableCapture.
    """
    tables = []
    for path in paths:
        capture, table = Capture(path), FlowTable(max(1, round(width_s * 1e9)))
        for packets in read_capture(path, capture):
            table.add(packets)
        table.finish()
        if table.totals[places.PACKETS] == 0 and capture.damage:
            raise UnreadableCapture(f"{path} holds no packet: {capture.damage}")
        tables.append((capture, table, _account_of(path)))
    guessing = groups is None
    groups = groups if groups is not None else guess_groups(table.flows for _, table, _ in tables)
    links = tuple(_placed(*entry, groups, fabric) for entry in tables)
    timed = [int(table.totals[places.FIRST_NS]) for _, table, _ in tables if table.totals[places.TIMED]]
    origin_ns = min(timed, default=0)
    counted = _counted_once(links)
    names = groups.names
    activities = {name: _activity(number, links, counted, groups, origin_ns) for number, name in enumerate(names)}
    active = {name: activity for name, activity in activities.items() if len(activity.size)}
    zero_s = _time_zero_s(links, origin_ns)
    known = between_s if between_s is not None and zero_s is not None and gap_s is None else {}
    gaps: dict[str, float | None] = {}
    found: dict[str, list[Collective]] = {}
    for name, activity in active.items():
        if name in known and zero_s is not None:
            gaps[name], found[name] = None, collectives_between(activity, known[name] + zero_s)
        else:
            gap = choose_gap_s(activity) if gap_s is None else gap_s
            gaps[name], found[name] = gap, find_collectives(activity, gap)
    uses = _uses(links, names, found, origin_ns)
    matrix = contention_matrix(tuple(active), uses)
    shown = traffic.Traffic(
        origin_s=origin_ns * 1e-9,
        grouping="guessed" if guessing else "run" if groups.hosts else "given",
        directions="run" if fabric is not None and all(link.link in fabric.cables for link in links) else "guessed",
        files=tuple(_file(link, origin_ns) for link in links),
        jobs=tuple(
            _job(name, names.index(name), active[name], gaps[name], found[name], links, counted) for name in active
        ),
        links=tuple(
            traffic.LinkOverlap(
                link=c.link,
                jobs=c.jobs,
                busy_s=c.busy_s,
                contended_s=c.contended_s,
                contended_bytes=c.contended_bytes,
                pairs_s=_rows(c.pairs_s),
                pairs_bytes=_whole_rows(c.pairs_bytes),
            )
            for c in (contention_on(way, used) for way, used in uses.items())
        ),
        contention=traffic.Matrix(jobs=matrix.jobs, seconds=_rows(matrix.seconds), bytes=_whole_rows(matrix.bytes)),
        collectives=tuple(
            sorted(
                (
                    traffic.CollectiveBurst(
                        job=name,
                        start_s=c.start_s,
                        end_s=c.end_s,
                        bytes=c.bytes,
                        participants=c.participants,
                        ring=c.ring,
                    )
                    for name, collectives in found.items()
                    for c in collectives
                ),
                key=lambda c: c.start_s,
            )
        ),
        flows=tuple(
            _flow(link, number, groups, origin_ns) for link in links for number in range(len(link.table.flows))
        ),
    )
    return Examined(shown, groups, links, counted, origin_ns)


def _account_of(path: str) -> CaptureAccount | None:
    """What the run that made a capture says of it, None where no run does."""
    where = Path(path)
    return None if path == STANDARD_INPUT else read_accounts(where.parent).get(where.name)


def _time_zero_s(links: Sequence[CapturedLink], origin_ns: int) -> float | None:
    """The run's time zero, seconds since the first packet; None unless all files are of one run that tells it."""
    told = {None if link.account is None else link.account.zero_unix_s for link in links}
    (zero_s,) = told if len(told) == 1 else (None,)
    return None if zero_s is None else zero_s - origin_ns * 1e-9


def _placed(
    capture: Capture, table: FlowTable, account: CaptureAccount | None, groups: Groups, fabric: Fabric | None
) -> CapturedLink:
    link = link_of(capture.path) if account is None else account.link
    if fabric is not None and link in fabric.cables:
        directions = directions_on_cable(table.flows, fabric, link, groups)
        ways = (fabric.cables[link].up, fabric.cables[link].down, f"{link} (direction unknown)")
    else:
        directions = guess_directions(table.flows)
        ways = (f"{link} a>b", f"{link} b>a", f"{link} (direction unknown)")
    return CapturedLink(link, capture, table, directions, jobs_of_flows(table.flows, groups), ways, account)


def _counted_once(links: Sequence[CapturedLink]) -> tuple[NDArray[np.int64], ...]:
    """Flows of each link that no other link saw more of: a packet crosses several links, and is captured on each."""
    best: dict[tuple[Any, ...], tuple[int, int, int]] = {}
    for place, link in enumerate(links):
        for number, flow in enumerate(link.table.flows):
            key = (*addresses_of(flow), int(flow["src_port"]), int(flow["dst_port"]), int(flow["protocol"]))
            size = int(flow["wire_bytes"])
            if key not in best or size > best[key][0]:
                best[key] = (size, place, number)
    chosen: list[list[int]] = [[] for _ in links]
    for _, place, number in best.values():
        chosen[place].append(number)
    return tuple(np.array(sorted(numbers), np.int64) for numbers in chosen)


def _bursts(link: CapturedLink, flows: NDArray[np.int64], origin_ns: int) -> tuple[NDArray[Any], Floats, Floats]:
    """Rows of BURST of some flows, and their starts and ends in seconds."""
    rows = link.table.bursts[np.isin(link.table.bursts["flow"], flows)]
    start_s = (rows["start_ns"] - origin_ns) * 1e-9
    return rows, start_s, np.maximum((rows["end_ns"] - origin_ns) * 1e-9, start_s + LEAST_S)


def _activity(
    job: int, links: Sequence[CapturedLink], counted: Sequence[NDArray[np.int64]], groups: Groups, origin_ns: int
) -> Activity:
    hosts: dict[str, int] = {}
    parts = []
    for link, numbers in zip(links, counted, strict=True):
        flows = numbers[link.jobs[numbers] == job]
        ends = {
            int(number): [
                hosts.setdefault(groups.host_name(address), len(hosts))
                for address in addresses_of(link.table.flows[number])
            ]
            for number in flows
        }
        rows, start_s, end_s = _bursts(link, flows, origin_ns)
        pairs = np.array([ends[number] for number in rows["flow"].tolist()], np.int64).reshape(-1, 2)
        parts.append((pairs, start_s, end_s, rows["bytes"].astype(np.float64)))
    pairs, start_s, end_s, size = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(start_s, kind="stable")
    pairs = pairs[order]
    return Activity(tuple(hosts), pairs[:, 0], pairs[:, 1], start_s[order], end_s[order], size[order])


def _uses(
    links: Sequence[CapturedLink],
    names: Sequence[str],
    collectives: Mapping[str, Sequence[Collective]],
    origin_ns: int,
) -> dict[str, dict[str, Use]]:
    """Each direction of each link to the jobs at work on it: from first to last packet of each collective there.

    Pauses within one count: while its ring waits for another link, the job has work for this one yet.
    """
    found: dict[str, dict[str, Use]] = {}
    for link in links:
        for direction in range(2):
            for job, name in enumerate(names):
                flows = np.flatnonzero((link.jobs == job) & (link.directions == direction))
                rows, start_s, end_s = _bursts(link, flows, origin_ns)
                if len(rows):
                    busy = union(spans_of(collectives[name], start_s, end_s))
                    use = Use(busy, start_s, end_s, rows["bytes"].astype(np.float64))
                    found.setdefault(link.ways[direction], {})[name] = use
    return found


def _counts(parts: Iterator[tuple[FlowTable, NDArray[np.int64]]]) -> traffic.Counts:
    chosen = list(parts)
    flows = np.concatenate([table.flows[numbers] for table, numbers in chosen])
    bins = np.concatenate([table.rtt_bins[numbers] for table, numbers in chosen])
    dscp = sum(table.dscp_bytes[numbers].sum(axis=0) for table, numbers in chosen)
    return traffic.Counts(
        packets=int(flows["packets"].sum()),
        bytes=int(flows["wire_bytes"].sum()),
        payload_bytes=int(flows["payload_bytes"].sum()),
        super_segments=int(flows["super_segments"].sum()),
        retransmissions=int(flows["retransmissions"].sum()),
        retransmitted_bytes=int(flows["retransmitted_bytes"].sum()),
        out_of_order=int(flows["out_of_order"].sum()),
        duplicate_acks=int(flows["duplicate_acks"].sum()),
        repeated=int(flows["repeated"].sum()),
        repeated_bytes=int(flows["repeated_bytes"].sum()),
        late=int(flows["late"].sum()),
        dscp_bytes={int(value): int(np.asarray(dscp)[value]) for value in np.flatnonzero(dscp)},
        round_trips=round_trips(flows, bins),
    )


def _job(
    name: str,
    number: int,
    activity: Activity,
    gap_s: float | None,
    collectives: Sequence[Any],
    links: Sequence[CapturedLink],
    counted: Sequence[NDArray[np.int64]],
) -> traffic.JobTraffic:
    whole = collectives[1:-1]
    starts = np.array([c.start_s for c in whole])
    return traffic.JobTraffic(
        name=name,
        hosts=tuple(sorted(activity.hosts)),
        counts=_counts(
            (link.table, numbers[link.jobs[numbers] == number]) for link, numbers in zip(links, counted, strict=True)
        ),
        gap_s=gap_s,
        collectives=len(collectives),
        mean_collective_s=float(np.mean([c.end_s - c.start_s for c in whole])) if whole else None,
        mean_collective_bytes=float(np.mean([c.bytes for c in whole])) if whole else None,
        mean_period_s=float(np.diff(starts).mean()) if len(whole) > 1 else None,
        ring=ring_order(traffic_matrix(activity), activity.hosts),
    )


def _file(link: CapturedLink, origin_ns: int) -> traffic.CaptureFile:
    totals, capture, account = link.table.totals.tolist(), link.capture, link.account
    drops = capture.reported_drops if account is None else account.drops
    incomplete = None if account is None else account.incomplete
    timed = totals[places.TIMED] > 0
    return traffic.CaptureFile(
        file=capture.path,
        link=link.link,
        format=capture.format,
        link_types=tuple(sorted(capture.link_types)),
        packets=totals[places.PACKETS],
        bytes=totals[places.WIRE_BYTES],
        start_s=(totals[places.FIRST_NS] - origin_ns) * 1e-9 if timed else 0.0,
        seconds=(totals[places.END_NS] - totals[places.FIRST_NS]) * 1e-9 if timed else 0.0,
        complete=capture.damage is None and not drops and incomplete is None,
        damage=capture.damage,
        incomplete=incomplete,
        reported_drops=drops,
        skipped_blocks=capture.skipped_blocks,
        passed=traffic.Passed(
            cut_short=totals[places.CUT],
            malformed=totals[places.BROKEN_HEADERS],
            other_network=totals[places.OTHER_NETWORK],
            unread_link=totals[places.UNREAD_LINK],
            zero_length=totals[places.ZERO_LENGTH],
            untimed=totals[places.UNTIMED],
            backwards=totals[places.BACKWARDS],
            beyond_table=totals[places.BEYOND_TABLE],
        ),
    )


def _flow(link: CapturedLink, number: int, groups: Groups, origin_ns: int) -> traffic.Flow:
    flow = link.table.flows[number]
    src, dst = addresses_of(flow)
    job = int(link.jobs[number])
    return traffic.Flow(
        link=link.way(number),
        job=groups.names[job] if job >= 0 else None,
        protocol=int(flow["protocol"]),
        src=str(src),
        src_port=int(flow["src_port"]),
        dst=str(dst),
        dst_port=int(flow["dst_port"]),
        start_s=(int(flow["first_ns"]) - origin_ns) * 1e-9,
        end_s=(int(flow["last_ns"]) - origin_ns) * 1e-9,
        counts=_counts(iter([(link.table, np.array([number]))])),
    )


def _rows(matrix: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())


def _whole_rows(matrix: Floats) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(round(value) for value in row) for row in matrix.tolist())
