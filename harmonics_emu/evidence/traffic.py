"""The types of what captures show: seconds since the first packet, bytes; None where there is nothing."""

from __future__ import annotations

from typing import Literal

import msgspec

from harmonics_emu.evidence.capture.round_trips import RoundTrips


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """Packets of a file that count in its totals but in less than all else.

    cut_short: the capture ends before ports or sequence numbers. malformed: headers contradict themselves.
    other_network: not IP. unread_link: a link layer not read here. zero_length: empty frames. untimed: without a time.
    backwards: earlier than the packet before. beyond_table: of flows for which there was no room.
    """

    cut_short: int
    malformed: int
    other_network: int
    unread_link: int
    zero_length: int
    untimed: int
    backwards: int
    beyond_table: int


class CaptureFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file. bytes: on the wire. complete: neither damaged nor with drops that the capturing system reports.

    incomplete: why the run that made it says that it lacks packets.
    start_s and seconds: from the first packet of all files, and how long this one goes on.
    """

    file: str
    link: str
    format: str
    link_types: tuple[str, ...]
    packets: int
    bytes: int
    start_s: float
    seconds: float
    complete: bool
    damage: str | None
    incomplete: str | None = None
    reported_drops: int | None
    skipped_blocks: int
    passed: Passed


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Of one flow or several. bytes: on the wire; payload_bytes: of TCP and UDP.

    super_segments: packets of several segments that no NIC had cut yet. retransmissions, out_of_order, duplicate_acks:
    by Wireshark's rules. repeated: segments with payload that was seen before (repeated_bytes of it); late: those that
    only fill what was missing. dscp_bytes: bytes on the wire by DSCP value.
    """

    packets: int
    bytes: int
    payload_bytes: int
    super_segments: int
    retransmissions: int
    retransmitted_bytes: int
    out_of_order: int
    duplicate_acks: int
    repeated: int
    repeated_bytes: int
    late: int
    dscp_bytes: dict[int, int]
    round_trips: RoundTrips | None


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of one connection on one link. job: None unless both ends are of one job."""

    link: str
    job: str | None
    protocol: int
    src: str
    src_port: int
    dst: str
    dst_port: int
    start_s: float
    end_s: float
    counts: Counts


class JobTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """One job. counts: of each of its flows on the link that saw most of it, so that no byte counts twice.

    gap_s: the pause that tells its collectives apart, None where the run's iterations do. mean_*: of its collectives,
    without the first and the last, which the capture may have cut. ring: hosts in order, of all its traffic together;
    None if it forms none.
    """

    name: str
    hosts: tuple[str, ...]
    counts: Counts
    gap_s: float | None
    collectives: int
    mean_collective_s: float | None
    mean_collective_bytes: float | None
    mean_period_s: float | None
    ring: tuple[str, ...] | None


class CollectiveBurst(msgspec.Struct, frozen=True, kw_only=True):
    """One collective of a job, as far as the captured links show it. bytes: payload. ring: None if it forms none."""

    job: str
    start_s: float
    end_s: float
    bytes: int
    participants: tuple[str, ...]
    ring: tuple[str, ...] | None


class LinkOverlap(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of a link, as evidence.contention.LinkContention."""

    link: str
    jobs: tuple[str, ...]
    busy_s: tuple[float, ...]
    contended_s: float
    contended_bytes: int
    pairs_s: tuple[tuple[float, ...], ...]
    pairs_bytes: tuple[tuple[int, ...], ...]


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """All links together, as evidence.contention.ContentionMatrix."""

    jobs: tuple[str, ...]
    seconds: tuple[tuple[float, ...], ...]
    bytes: tuple[tuple[int, ...], ...]


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """What a set of captures shows. origin_s: time of the first packet, seconds since 1970.

    grouping: where the jobs come from. directions: whether those of links are known from a fabric, or guessed.
    """

    schema: Literal[1] = 1
    origin_s: float
    grouping: Literal["run", "given", "guessed"]
    directions: Literal["run", "guessed"]
    files: tuple[CaptureFile, ...]
    jobs: tuple[JobTraffic, ...]
    links: tuple[LinkOverlap, ...]
    contention: Matrix
    collectives: tuple[CollectiveBurst, ...]
    flows: tuple[Flow, ...]
