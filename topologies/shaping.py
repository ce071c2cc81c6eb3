"""How every egress of a fabric is shaped: a pure plan, which harmonics_emu.emulate.tc applies and checks.

Each interface that sends on a link has an HTB class of the link's rate with eight bands under it, one a priority
level. A band may use the whole link (its ceil), but its own rate is next to nothing, so what HTB hands out is what
bands borrow, and it lends in order of `prio`: strict priority. Filters, asked in order, choose the band:

1. TCP segments without payload (pure ACKs, handshakes), ARP and ICMP go to band 0: a job's ACKs queue with the data of
   whatever runs the other way, and would starve with it. A short segment that carries payload must not: it would
   overtake the data before it, and the receiver would take that for loss;
2. on a switch the DSCP decides (the ingress leaf's rules set it), on a host's own NIC, which no switch rule reaches,
   the source address: each job has a subnet;
3. all else is in the default band.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from topologies.addressing import NIC, job_interface, port_name
from topologies.fabric import Fabric

LEVELS = 8
"""Priority levels of the fabric: 0 is served first, 7 last. HTB has exactly eight."""
DEFAULT_LEVEL = 4
"""The level of traffic that no plan gave another one."""

HOST_MTU_BYTES = 1498
"""What hosts send at most in a packet. With TCP timestamps that makes full segments of 1446 bytes.

Open vSwitch 3.1 cuts the segments that its userspace datapath passes on to 1446 bytes, whatever the sender had cut
them to: a port's MTU of 1500 less Ethernet's, IP's and TCP's headers, of which it takes TCP's to have no options. If
hosts cut them larger, each offloaded segment leaves a switch with one more frame than it came with, 1 to 2 % of the
rate at 50 to 200 Mbit/s. If they cut them smaller, an offloaded segment with a payload between the two sizes is sent
on as one that need not be cut, which the kernel drops without counting it as a queue's drop.
"""
FRAME_BYTES = HOST_MTU_BYTES + 14
"""A full Ethernet frame as the kernel counts it: no preamble, check sequence or gap."""
SEGMENT_PAYLOAD_BYTES = HOST_MTU_BYTES - 20 - 20 - 12
"""TCP payload of a full frame: what IP, TCP and its timestamp option leave."""

BAND_SHARE = 10_000
"""A band's own rate is this small a part of the link: small enough not to blur the priorities."""
BAND_FLOOR_BPS = 8_000
QUANTUM_BYTES = 60_000
"""What classes of equal prio send in turn. No two bands are equal, so any value does that HTB does not warn of; left
to itself HTB derives it from the rate, and warns of it outside 1,000 to 200,000."""
BURST_S = 0.001
"""What an idle link may send at once: it covers late timers, and is little against a collective."""
SEGMENT_S = 0.001
"""The longest time that one offloaded segment may hold a link: longer makes sharing jumpy and lets a low level hold up
a high one, shorter costs the datapath more wake-ups."""
LARGEST_SEGMENT_BYTES = 65_536
QUEUED_WINDOWS = 32
"""TCP windows that one band's queue holds: nothing is dropped while no more connections than this share it."""
LARGEST_QUEUE_BYTES = 16 * 2**20
"""Queues of a userspace switch also count against its socket's send buffer, which must hold several of them."""

_DSCP = {0: 56, 1: 48, 2: 40, 3: 32, 4: 0, 5: 24, 6: 16, 7: 8}
CLASSES_PRIORITY = 4
"""The priority of the filters that tell levels apart; those before it pick what rides in band 0."""


def dscp_of_level(level: int) -> int:
    """The DSCP of a priority level: the eight class selectors, higher for more urgent levels.

    The default level has 0, the code point of unmarked traffic, so that both share a band; the levels above it have
    CS7 to CS4, those below it CS3 to CS1. KeyError unless 0 <= level < LEVELS.
    """
    return _DSCP[level]


@dataclass(frozen=True, slots=True)
class Match:
    """The 32-bit word at byte `offset` of the network header equals `value` in the bits of `mask`."""

    value: int
    mask: int
    offset: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Packets of `protocol` that meet every match go to the band of `level`.

    Filters are asked by priority, then by number, which is unique within a priority.
    """

    priority: int
    number: int
    protocol: str
    matches: tuple[Match, ...]
    level: int


@dataclass(frozen=True, slots=True)
class Band:
    """One of the eight HTB classes of an egress, `prio` its level, and the byte limit of its queue."""

    level: int
    rate_bps: int
    ceil_bps: int
    burst_bytes: int
    cburst_bytes: int
    quantum_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class EgressShape:
    """What shapes one directed link at the interface that sends on it.

    rate_bps, burst_bytes and quantum_bytes are the parent class's, whose ceil and cburst are equal to its rate and
    burst. mtu_bytes and segment_bytes, the bound on offloaded segments (gso_max_size), are set on a host's NIC and None
    on a switch's port.
    delay_s and loss ask for netem in place of each band's queue.
    """

    link: str
    node: str
    interface: str
    rate_bps: int
    burst_bytes: int
    quantum_bytes: int
    bands: tuple[Band, ...]
    filters: tuple[Filter, ...]
    mtu_bytes: int | None = None
    segment_bytes: int | None = None
    delay_s: float = 0.0
    loss: float = 0.0

    @property
    def on_host(self) -> bool:
        return self.segment_bytes is not None


def plan_shaping(fabric: Fabric, host_levels: Mapping[str, Mapping[int, int]] | None = None) -> tuple[EgressShape, ...]:
    """The shape of every egress, in the order of the fabric's links.

    host_levels: for each host, the level of each job (by index) that has ranks on it.
    """
    host_levels = host_levels or {}
    slowest = _slowest_rates(fabric)
    queue = queue_bytes(tcp_window_bytes(fabric))
    shapes = []
    for link in fabric.links.values():
        on_host = link.src in fabric.host_index
        rate = link.rate_bps
        shapes.append(
            EgressShape(
                link=link.name,
                node=link.src,
                interface=NIC if on_host else port_name(link.src, link.dst),
                rate_bps=rate,
                burst_bytes=burst_bytes(rate),
                quantum_bytes=QUANTUM_BYTES,
                bands=_bands(rate, queue),
                filters=(
                    *URGENT_FILTERS,
                    *(host_filters(host_levels.get(link.src, {})) if on_host else SWITCH_FILTERS),
                ),
                mtu_bytes=HOST_MTU_BYTES if on_host else None,
                segment_bytes=segment_bytes(slowest[link.src]) if on_host else None,
                delay_s=link.delay_s,
                loss=link.loss,
            )
        )
    return tuple(shapes)


def with_rate(shape: EgressShape, rate_bps: int) -> EgressShape:
    """The same egress after its link's rate changed. Queue limits and a host's segment size stay."""
    return replace(
        shape,
        rate_bps=rate_bps,
        burst_bytes=burst_bytes(rate_bps),
        quantum_bytes=QUANTUM_BYTES,
        bands=_bands(rate_bps, shape.bands[0].limit_bytes),
    )


def _bands(rate_bps: int, limit_bytes: int) -> tuple[Band, ...]:
    return tuple(
        Band(
            level=level,
            rate_bps=band_rate_bps(rate_bps),
            ceil_bps=rate_bps,
            burst_bytes=FRAME_BYTES,
            cburst_bytes=burst_bytes(rate_bps),
            quantum_bytes=QUANTUM_BYTES,
            limit_bytes=limit_bytes,
        )
        for level in range(LEVELS)
    )


def band_rate_bps(link_bps: int) -> int:
    """A band's own rate: link / 10,000, at least 8 kbit/s, but all bands together at most half of a very slow link."""
    return max(8, min(max(link_bps // BAND_SHARE, BAND_FLOOR_BPS), link_bps // (2 * LEVELS)))


def burst_bytes(rate_bps: int) -> int:
    """1 ms of the rate, at least two frames."""
    return max(int(rate_bps * BURST_S / 8), 2 * FRAME_BYTES)


def segment_bytes(rate_bps: int) -> int:
    """The largest offloaded segment for a link of this rate: 1 ms of it, from one frame to 64 KiB."""
    return min(max(int(rate_bps * SEGMENT_S / 8), FRAME_BYTES), LARGEST_SEGMENT_BYTES)


def tcp_window_bytes(fabric: Fabric) -> int:
    """The bound on each TCP connection's buffers with which an uncontended job keeps links busy and drops nothing.

    10 ms of the slowest link (64 to 256 KiB), at least 1 ms of the fastest, and the round trip where links delay.
    """
    rates = [link.rate_bps for link in fabric.links.values()]
    slow = min(max(min(rates) * 0.010 / 8, 2**16), 2**18)
    return int(max(slow, max(rates) * (0.001 + _round_trip_s(fabric)) / 8))


def queue_bytes(window_bytes: int) -> int:
    """A band's queue limit for connections whose windows are bounded so."""
    return min(QUEUED_WINDOWS * window_bytes, max(LARGEST_QUEUE_BYTES, 2 * window_bytes))


def _round_trip_s(fabric: Fabric) -> float:
    """The longest sum of the links' delays, there and back, over the shortest paths of the fabric."""
    if not any(link.delay_s for link in fabric.links.values()):
        return 0.0
    paths = (path for src in fabric.host_index for dst in fabric.host_index for path in fabric.paths(src, dst))
    return 2 * max((sum(fabric.links[name].delay_s for name in path) for path in paths), default=0.0)


def _slowest_rates(fabric: Fabric) -> dict[str, int]:
    """For each host, the rate of the slowest link that traffic from it can cross."""
    links = fabric.links.values()
    between = [
        link.rate_bps for link in links if link.src not in fabric.host_index and link.dst not in fabric.host_index
    ]
    into_hosts = sorted((link.rate_bps, link.dst) for link in links if link.dst in fabric.host_index)
    slowest = {}
    for host in fabric.host_index:
        own = fabric.links[f"{host}>{fabric.leaf_of(host)}"].rate_bps
        others = [rate for rate, dst in into_hosts[:2] if dst != host]
        slowest[host] = min([own, *others, *between])
    return slowest


def _ip(*matches: Match, priority: int, number: int, level: int) -> Filter:
    return Filter(priority, number, "ip", matches, level)


def _bare_segment(words: int) -> Filter:
    """TCP segments as long as their headers: 20 bytes of IP and `words` of TCP. No FIN: it ends the data before it."""
    length = 20 + 4 * words
    return _ip(
        Match(0x45 << 24 | length, 0xFF00FFFF, 0),
        Match(6 << 16, 0xFF0000, 8),
        Match(words << 28, 0xF0010000, 32),
        priority=1,
        number=words,
        level=0,
    )


URGENT_FILTERS = (
    *(_bare_segment(words) for words in range(5, 16)),
    Filter(2, 1, "arp", (Match(0, 0, 0),), 0),
    _ip(Match(1 << 16, 0xFF0000, 8), priority=3, number=1, level=0),
)
SWITCH_FILTERS = tuple(
    _ip(Match(dscp_of_level(level) << 18, 0xFC0000, 0), priority=CLASSES_PRIORITY, number=level + 1, level=level)
    for level in range(LEVELS)
    if level != DEFAULT_LEVEL
)


def host_filters(levels: Mapping[int, int]) -> tuple[Filter, ...]:
    """The filters of a host's NIC for its jobs: job index to level."""
    return tuple(job_filter(job, level) for job, level in sorted(levels.items()))


def job_filter(job_index: int, level: int) -> Filter:
    """Packets from a job's subnet to the band of its level."""
    subnet = job_interface(job_index, 0).network
    match = Match(int(subnet.network_address), int(subnet.netmask), 12)
    return _ip(match, priority=CLASSES_PRIORITY, number=job_index + 1, level=level)


def goodput_bps(rate_bps: float) -> float:
    """What a link shaped to `rate_bps` carries as TCP payload, in full segments with timestamps.

    HTB counts whole Ethernet frames. It counts an offloaded segment of many frames with the headers of each of them,
    whether a host's TCP made it or a userspace switch passed it on, so the size of segments makes no difference.
    """
    return rate_bps * SEGMENT_PAYLOAD_BYTES / FRAME_BYTES
