"""What a TCP segment says at a point on its way: sent again, out of order, a repeated acknowledgement, a round trip.

The rules are those that Wireshark documents for its TCP analysis, so that both count the same. They judge from one
point in the network, by sequence numbers and times, and can't know what the sender meant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harmonics_emu.evidence.capture.flow import RTT_BINS, RTT_BINS_PER_OCTAVE, RTT_LEAST_NS, STAMPS
from harmonics_emu.evidence.capture.kernel.coverage import _cover, _is_after
from harmonics_emu.evidence.capture.packet import ACK, FIN, RST, SYN
from harmonics_emu.simulate.kernel.jit import compiled

SOON_AFTER_ACK_NS = 20_000_000
"""Within this time of acknowledgements that ask for it, a segment is taken for a retransmission."""
REORDERING_NS = 3_000_000
"""Within this time of the newest segment (the handshake's time, if that is known) an old one is out of order."""
LARGEST_FRAME = 9_200
"""Payload above which a packet holds several segments for sure; where a SYN was seen, above the MSS it announced."""
NOT_PROBE, KEEP_ALIVE, ZERO_WINDOW_PROBE = range(3)


@compiled
def _is_sacked(flow: Any, seq: Any, end: Any) -> Any:
    """Whether [seq, end) was acknowledged selectively by the last segment of `flow`."""
    for i in range(flow.sacks):
        block = flow.sack_0 if i == 0 else flow.sack_1 if i == 1 else flow.sack_2 if i == 2 else flow.sack_3
        left, right = np.uint32(block >> np.uint64(32)), np.uint32(block & np.uint64(0xFFFFFFFF))
        if not _is_after(left, seq) and not _is_after(end, right):
            return True
    return False


@compiled
def _analyse(
    packet: Any, now: Any, flows: Any, number: Any, stamps: Any, stamped_ns: Any, rtt_bins: Any, holes: Any
) -> None:
    flow = flows[number]
    other = flows[flow.reverse] if flow.reverse >= 0 else flows[number]
    has_other = flow.reverse >= 0
    flags = packet.tcp_flags
    marks = flags & (SYN | FIN | RST)
    payload = packet.payload_bytes
    occupied = payload + (1 if flags & (SYN | FIN) else 0)
    end = np.uint32(packet.seq + occupied)
    if packet.segment_limit and flags & SYN:
        flow.segment_limit = packet.segment_limit
    limit = other.segment_limit if has_other and other.segment_limit else LARGEST_FRAME
    if payload > limit:
        flow.super_segments += 1
    _round_trip(packet, now, flows, number, stamps, stamped_ns, rtt_bins)
    _handshake(packet, now, flow)
    _cover(packet, flow, holes[number])

    known = flow.analysed > 0
    new_ack = not known or packet.ack != flow.last_ack
    probe = NOT_PROBE
    if known:
        at_next = packet.seq == flow.next_seq
        if payload == 1 and at_next and has_other and other.analysed and other.last_window == 0:
            probe = ZERO_WINDOW_PROBE
        elif payload <= 1 and np.uint32(packet.seq + 1) == flow.next_seq and not marks:
            probe = KEEP_ALIVE
        same = payload == 0 and at_next and not new_ack and not marks and packet.window == flow.last_window
        answers_probe = has_other and other.probe != NOT_PROBE
        if same and packet.window and not answers_probe and flags & ACK:
            flow.duplicate_acks += 1
            flow.repeated_acks += 1
        if payload > 0 and has_other and other.analysed and not _is_after(end, other.last_ack):
            _count_retransmission(flow, payload)  # all of it had been acknowledged, even if it was not seen before
        elif (
            probe == NOT_PROBE
            and occupied > 0
            and _is_after(flow.next_seq, packet.seq)
            and not (payload > 1 and np.uint32(packet.seq + 1) == flow.next_seq)
        ):
            asked_for = has_other and other.analysed and _is_asked_for(packet, now, end, other)
            if not asked_for and end != flow.next_seq and _is_reordered(now, flow, other):
                flow.out_of_order += 1
            else:
                _count_retransmission(flow, payload)
    if new_ack:
        flow.repeated_acks = 0
    if (not known or _is_after(end, flow.next_seq)) and probe != ZERO_WINDOW_PROBE:
        flow.next_seq = end
        flow.next_seq_ns = now
    flow.analysed += 1
    flow.probe = probe
    flow.last_ack, flow.last_ack_ns = packet.ack, now
    flow.last_window = packet.window
    flow.sacks = packet.sacks
    flow.sack_0, flow.sack_1, flow.sack_2, flow.sack_3 = packet.sack_0, packet.sack_1, packet.sack_2, packet.sack_3


@compiled
def _count_retransmission(flow: Any, payload: Any) -> None:
    flow.retransmissions += 1
    flow.retransmitted_bytes += payload


@compiled
def _is_asked_for(packet: Any, now: Any, end: Any, other: Any) -> Any:
    """Whether the other side has just asked for an old segment by acknowledging what is before it again and again."""
    if other.repeated_acks < 2 or now - other.last_ack_ns >= SOON_AFTER_ACK_NS:
        return False
    return other.last_ack == packet.seq or (other.sacks > 0 and not _is_sacked(other, packet.seq, end))


@compiled
def _is_reordered(now: Any, flow: Any, other: Any) -> Any:
    handshake_ns = max(flow.handshake_ns, other.handshake_ns)
    return now - flow.next_seq_ns < (handshake_ns if handshake_ns > 0 else REORDERING_NS)


@compiled
def _handshake(packet: Any, now: Any, flow: Any) -> None:
    """Note, at the side that began, the time from its SYN to its acknowledgement of the answer."""
    flags = packet.tcp_flags
    if flags & SYN:
        if not flags & ACK:
            flow.syn_ns = now
    elif flags & ACK and flow.syn_ns and not flow.handshake_ns:
        flow.handshake_ns = max(1, now - flow.syn_ns)


@compiled
def _round_trip(packet: Any, now: Any, flows: Any, number: Any, stamps: Any, stamped_ns: Any, rtt_bins: Any) -> None:
    """Note a new timestamp of data; take a sample where the packet echoes one of the other direction the first time."""
    if not packet.has_timestamps:
        return
    flow = flows[number]
    if (packet.payload_bytes > 0 or packet.tcp_flags & SYN) and flow.newest_stamp != packet.ts_value:
        flow.newest_stamp = packet.ts_value
        place = packet.ts_value % STAMPS
        stamps[number, place], stamped_ns[number, place] = packet.ts_value, now
    if flow.reverse < 0 or not packet.tcp_flags & ACK:
        return
    place = packet.ts_echo % STAMPS
    sent_ns = stamped_ns[flow.reverse, place]
    if sent_ns == 0 or stamps[flow.reverse, place] != packet.ts_echo or now < sent_ns:
        return
    stamped_ns[flow.reverse, place] = 0
    rtt = now - sent_ns
    sender = flows[flow.reverse]
    sender.rtt_least_ns = rtt if sender.rtt_samples == 0 else min(sender.rtt_least_ns, rtt)
    sender.rtt_most_ns = max(sender.rtt_most_ns, rtt)
    sender.rtt_samples += 1
    sender.rtt_sum_ns += rtt
    octaves = np.log2(max(rtt, RTT_LEAST_NS) / RTT_LEAST_NS)
    rtt_bins[flow.reverse, min(RTT_BINS - 1, int(octaves * RTT_BINS_PER_OCTAVE))] += 1
