"""One decoded packet as a fixed row, and the numbers that stand in it."""

from __future__ import annotations

import numpy as np

PACKET = np.dtype(
    [
        ("time_ns", np.int64),
        ("source_mac", np.uint64),
        ("src_high", np.uint64),
        ("src_low", np.uint64),
        ("dst_high", np.uint64),
        ("dst_low", np.uint64),
        ("sack_0", np.uint64),
        ("sack_1", np.uint64),
        ("sack_2", np.uint64),
        ("sack_3", np.uint64),
        ("wire_bytes", np.int64),
        ("captured_bytes", np.int64),
        ("payload_bytes", np.int64),
        ("interface", np.int32),
        ("seq", np.uint32),
        ("ack", np.uint32),
        ("ts_value", np.uint32),
        ("ts_echo", np.uint32),
        ("window", np.uint16),
        ("src_port", np.uint16),
        ("dst_port", np.uint16),
        ("vlan", np.uint16),
        ("segment_limit", np.uint16),
        ("status", np.uint8),
        ("version", np.uint8),
        ("protocol", np.uint8),
        ("dscp", np.uint8),
        ("tcp_flags", np.uint8),
        ("has_tcp", np.uint8),
        ("has_timestamps", np.uint8),
        ("sacks", np.uint8),
    ]
)
"""time_ns: since 1970, as the file says, NO_TIME where it says none. wire_bytes: the frame's length on the wire, of
which captured_bytes are in the file. payload_bytes: of TCP or UDP, behind their headers, by the lengths that headers
state, so a captured head of a packet is enough; 0 for what is neither. Addresses: 128 bits, IPv4 in the lower 32.
source_mac: 0 where the link layer has none. version: 4, 6, or 0 for what is not IP. interface: of the file, from 0.
has_tcp: whether seq, ack, tcp_flags and window could be read; has_timestamps: whether ts_value and ts_echo could.
segment_limit: the MSS that a SYN announces, else 0.
sack_i: the i-th of `sacks` blocks, left edge in the upper 32 bits, right edge in the lower."""

NO_TIME = np.iinfo(np.int64).min

WHOLE, CUT_SHORT, MALFORMED, NOT_IP, UNKNOWN_LINK = range(5)
"""status: CUT_SHORT if the capture ends before the ports (of TCP: before its fixed header), MALFORMED if headers
contradict themselves, NOT_IP for other network protocols and empty frames, UNKNOWN_LINK for other link layers."""

TCP, UDP = 6, 17
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

ETHERNET, LINUX_COOKED, LINUX_COOKED_2, NULL, LOOP, RAW, IPV4, IPV6 = 1, 113, 276, 0, 108, 101, 228, 229
OLD_RAW = (12, 14)
"""Link types (LINKTYPE_* of the capture formats). Raw IP has had other numbers on some systems."""
LINK_TYPES = {
    ETHERNET: "Ethernet",
    LINUX_COOKED: "Linux cooked",
    LINUX_COOKED_2: "Linux cooked v2",
    NULL: "BSD loopback",
    LOOP: "OpenBSD loopback",
    RAW: "raw IP",
    IPV4: "raw IPv4",
    IPV6: "raw IPv6",
    **dict.fromkeys(OLD_RAW, "raw IP"),
}
