"""Packets to flows: a hash table by addresses, ports and protocol, and each flow's counts, time bins and bursts."""

from __future__ import annotations

from typing import Any

import numpy as np

from harmonics_emu.evidence.capture.kernel.tcp import _analyse
from harmonics_emu.evidence.capture.packet import CUT_SHORT, MALFORMED, NO_TIME, NOT_IP, UNKNOWN_LINK
from harmonics_emu.simulate.kernel.jit import compiled

(
    PACKETS,
    WIRE_BYTES,
    CUT,
    BROKEN_HEADERS,
    OTHER_NETWORK,
    UNREAD_LINK,
    ZERO_LENGTH,
    UNTIMED,
    BACKWARDS,
    BEYOND_TABLE,
    LAST_NS,
    TIMED,
    FIRST_NS,
    END_NS,
    COUNTERS,
) = range(15)
"""Places in the totals of a file. BACKWARDS: packets earlier than the one before; BEYOND_TABLE: packets of flows for
which there was no room; TIMED: packets with a time, of which FIRST_NS and END_NS are the extremes."""

ALL_DONE, FLOWS_FULL, CELLS_FULL, BURSTS_FULL = range(4)
"""Why accounting stopped before a packet."""

EMPTY = -1
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@compiled
def _mixed(value: Any, more: Any) -> Any:
    value = (value ^ more) * MULTIPLIER
    return value ^ (value >> np.uint64(29))


@compiled
def _slot(flows: Any, table: Any, sh: Any, sl: Any, dh: Any, dl: Any, sp: Any, dp: Any, protocol: Any) -> Any:
    """Where in the table the flow with these addresses and ports is, or would be."""
    ports = (np.uint64(sp) << np.uint64(32)) | (np.uint64(dp) << np.uint64(8)) | np.uint64(protocol)
    value = _mixed(_mixed(_mixed(_mixed(_mixed(MULTIPLIER, sh), sl), dh), dl), ports)
    mask = len(table) - 1
    slot = np.int64(value & np.uint64(mask))
    while table[slot] != EMPTY:
        flow = flows[table[slot]]
        if (
            flow.src_low == sl
            and flow.dst_low == dl
            and flow.src_port == sp
            and flow.dst_port == dp
            and flow.protocol == protocol
            and flow.src_high == sh
            and flow.dst_high == dh
        ):
            return slot
        slot = (slot + 1) & mask
    return slot


@compiled
def rehash(flows: Any, used: int, table: Any) -> None:
    """Enter flows[:used] in an empty table, whose length is a power of two above `used`."""
    for number in range(used):
        f = flows[number]
        slot = _slot(flows, table, f.src_high, f.src_low, f.dst_high, f.dst_low, f.src_port, f.dst_port, f.protocol)
        table[slot] = number


@compiled
def _new_flow(flows: Any, number: int, table: Any, packet: Any, now: Any) -> None:
    flow = flows[number]
    flow.src_high, flow.src_low = packet.src_high, packet.src_low
    flow.dst_high, flow.dst_low = packet.dst_high, packet.dst_low
    flow.src_port, flow.dst_port = packet.src_port, packet.dst_port
    flow.protocol, flow.version = packet.protocol, packet.version
    flow.source_mac = packet.source_mac
    flow.first_ns = flow.last_ns = now
    flow.bin = NO_TIME
    flow.burst_start_ns = NO_TIME
    flow.newest_stamp = -1
    other = table[
        _slot(
            flows,
            table,
            packet.dst_high,
            packet.dst_low,
            packet.src_high,
            packet.src_low,
            packet.dst_port,
            packet.src_port,
            packet.protocol,
        )
    ]
    flow.reverse = other
    if other >= 0:
        flows[other].reverse = number


@compiled
def account(
    packets: Any,
    start: int,
    totals: Any,
    flows: Any,
    used: int,
    grow: bool,
    table: Any,
    stamps: Any,
    stamped_ns: Any,
    rtt_bins: Any,
    dscp_bytes: Any,
    holes: Any,
    cells: Any,
    cells_used: int,
    width_ns: int,
    bursts: Any,
    bursts_used: int,
    gap_ns: int,
) -> Any:
    """Add packets[start:] to the tables. grow: whether the caller will make room for more flows.

    Shapes: stamps and stamped_ns (flows, STAMPS), rtt_bins (flows, RTT_BINS), dscp_bytes (flows, DSCPS), holes
    (flows, HOLES, 2), totals (COUNTERS). Returns (packets accounted for, flows, cells and bursts in use, why it
    stopped).
    """
    last = -1
    for index in range(start, len(packets)):
        packet = packets[index]
        if cells_used + 1 > len(cells):
            return index, used, cells_used, bursts_used, CELLS_FULL
        if bursts_used + 1 > len(bursts):
            return index, used, cells_used, bursts_used, BURSTS_FULL
        number = -1
        if packet.version != 0:
            if (
                last >= 0
                and flows[last].src_low == packet.src_low
                and flows[last].dst_low == packet.dst_low
                and flows[last].src_port == packet.src_port
                and flows[last].dst_port == packet.dst_port
                and flows[last].protocol == packet.protocol
                and flows[last].src_high == packet.src_high
                and flows[last].dst_high == packet.dst_high
            ):
                number = last
            else:
                slot = _slot(
                    flows,
                    table,
                    packet.src_high,
                    packet.src_low,
                    packet.dst_high,
                    packet.dst_low,
                    np.int64(packet.src_port),
                    np.int64(packet.dst_port),
                    np.int64(packet.protocol),
                )
                number = table[slot]
                if number == EMPTY:
                    if used < len(flows):
                        number = used
                        _new_flow(flows, number, table, packet, _time(packet, totals))
                        table[slot] = number
                        used += 1
                    elif grow:
                        return index, used, cells_used, bursts_used, FLOWS_FULL
        _count(packet, totals)
        if number < 0:
            if packet.version != 0:
                totals[BEYOND_TABLE] += 1
            continue
        last = number
        flow = flows[number]
        now = totals[LAST_NS]
        flow.packets += 1
        flow.wire_bytes += packet.wire_bytes
        flow.payload_bytes += packet.payload_bytes
        flow.first_ns = min(flow.first_ns, now)
        flow.last_ns = max(flow.last_ns, now)
        dscp_bytes[number, packet.dscp] += packet.wire_bytes
        if packet.has_tcp:
            _analyse(packet, now, flows, number, stamps, stamped_ns, rtt_bins, holes)
        if packet.time_ns == NO_TIME:
            continue
        this_bin = now // width_ns
        if flow.bin != this_bin:
            if flow.bin != NO_TIME:
                cell = cells[cells_used]
                cell.flow, cell.bin, cell.bytes = number, flow.bin, flow.bin_bytes
                cells_used += 1
            flow.bin, flow.bin_bytes = this_bin, 0
        flow.bin_bytes += packet.wire_bytes
        if packet.payload_bytes > 0:
            if flow.burst_start_ns == NO_TIME or now - flow.burst_end_ns > gap_ns or now < flow.burst_start_ns:
                if flow.burst_start_ns != NO_TIME:
                    burst = bursts[bursts_used]
                    burst.flow, burst.start_ns, burst.end_ns = number, flow.burst_start_ns, flow.burst_end_ns
                    burst.bytes, burst.packets = flow.burst_bytes, flow.burst_packets
                    bursts_used += 1
                flow.burst_start_ns = flow.burst_end_ns = now
                flow.burst_bytes = flow.burst_packets = 0
            flow.burst_end_ns = max(flow.burst_end_ns, now)
            flow.burst_bytes += packet.payload_bytes
            flow.burst_packets += 1
    return len(packets), used, cells_used, bursts_used, ALL_DONE


@compiled
def _time(packet: Any, totals: Any) -> Any:
    """A packet's time; that of the one before where it has none."""
    return totals[LAST_NS] if packet.time_ns == NO_TIME else packet.time_ns


@compiled
def _count(packet: Any, totals: Any) -> None:
    totals[PACKETS] += 1
    totals[WIRE_BYTES] += packet.wire_bytes
    if packet.status == CUT_SHORT:
        totals[CUT] += 1
    elif packet.status == MALFORMED:
        totals[BROKEN_HEADERS] += 1
    elif packet.status == NOT_IP:
        totals[OTHER_NETWORK] += 1
    elif packet.status == UNKNOWN_LINK:
        totals[UNREAD_LINK] += 1
    if packet.wire_bytes == 0:
        totals[ZERO_LENGTH] += 1
    if packet.time_ns == NO_TIME:
        totals[UNTIMED] += 1
        return
    now = packet.time_ns
    if totals[TIMED] == 0:
        totals[FIRST_NS] = totals[END_NS] = now
    elif now < totals[LAST_NS]:
        totals[BACKWARDS] += 1
    totals[TIMED] += 1
    totals[LAST_NS] = now
    totals[FIRST_NS] = min(totals[FIRST_NS], now)
    totals[END_NS] = max(totals[END_NS], now)
