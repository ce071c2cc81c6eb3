"""What is kept of a flow: the packets of one direction of one connection."""

from __future__ import annotations

import numpy as np

FLOW = np.dtype(
    [
        ("src_high", np.uint64),
        ("src_low", np.uint64),
        ("dst_high", np.uint64),
        ("dst_low", np.uint64),
        ("src_port", np.int64),
        ("dst_port", np.int64),
        ("protocol", np.int64),
        ("version", np.int64),
        ("source_mac", np.uint64),
        ("reverse", np.int64),
        ("packets", np.int64),
        ("wire_bytes", np.int64),
        ("payload_bytes", np.int64),
        ("first_ns", np.int64),
        ("last_ns", np.int64),
        ("super_segments", np.int64),
        ("retransmissions", np.int64),
        ("retransmitted_bytes", np.int64),
        ("out_of_order", np.int64),
        ("duplicate_acks", np.int64),
        ("repeated", np.int64),
        ("repeated_bytes", np.int64),
        ("late", np.int64),
        ("rtt_samples", np.int64),
        ("rtt_sum_ns", np.int64),
        ("rtt_least_ns", np.int64),
        ("rtt_most_ns", np.int64),
        # From here on: what the analysis remembers between two packets.
        ("segment_limit", np.int64),
        ("analysed", np.int64),
        ("next_seq", np.uint32),
        ("next_seq_ns", np.int64),
        ("last_ack", np.uint32),
        ("last_ack_ns", np.int64),
        ("last_window", np.int64),
        ("repeated_acks", np.int64),
        ("probe", np.int64),
        ("sacks", np.int64),
        ("sack_0", np.uint64),
        ("sack_1", np.uint64),
        ("sack_2", np.uint64),
        ("sack_3", np.uint64),
        ("syn_ns", np.int64),
        ("handshake_ns", np.int64),
        ("newest_stamp", np.int64),
        ("has_data", np.int64),
        ("data_start", np.uint32),
        ("data_end", np.uint32),
        ("holes", np.int64),
        ("bin", np.int64),
        ("bin_bytes", np.int64),
        ("burst_start_ns", np.int64),
        ("burst_end_ns", np.int64),
        ("burst_bytes", np.int64),
        ("burst_packets", np.int64),
    ]
)
"""reverse: number of the flow in the other direction, -1 if none was seen. super_segments: packets that carry more than
one segment, which the NIC (or nobody, between namespaces) is still to cut. Retransmissions, packets out of order and
duplicate acknowledgements are told as Wireshark does. repeated: segments with payload that was seen before,
repeated_bytes of it; late: segments that only fill what was missing. RTT: from the capture point to
the receiver and back, by TCP timestamps, of the data of this flow."""

HOLES = 16
"""Ranges of each flow's payload that are remembered as missing."""

STAMPS = 32
"""Timestamps of each flow that are remembered until they are echoed."""

RTT_BINS, RTT_BINS_PER_OCTAVE, RTT_LEAST_NS = 256, 8, 1000
"""Bins of a flow's RTT histogram: an eighth of an octave each, from 1 us on; the last one, from 3,900 s, is open."""

DSCPS = 64

CELL = np.dtype([("flow", np.int64), ("bin", np.int64), ("bytes", np.int64)])
"""Bytes on the wire of a flow in one bin of time, whose number is its start over the bins' width."""

BURST = np.dtype(
    [
        ("flow", np.int64),
        ("start_ns", np.int64),
        ("end_ns", np.int64),
        ("bytes", np.int64),
        ("packets", np.int64),
    ]
)
"""Packets with payload of one flow, none later than a gap after the one before: first and last one's time, payload."""
