"""One frame's bytes to a row of PACKET: link layer, VLAN tags, IPv4 or IPv6, TCP or UDP."""

from __future__ import annotations

from typing import Any

import numpy as np

from harmonics_emu.evidence.capture.packet import (
    CUT_SHORT,
    ETHERNET,
    IPV4,
    IPV6,
    LINUX_COOKED,
    LINUX_COOKED_2,
    LOOP,
    MALFORMED,
    NOT_IP,
    NULL,
    OLD_RAW,
    RAW,
    TCP,
    UDP,
    UNKNOWN_LINK,
    WHOLE,
)
from harmonics_emu.simulate.kernel.jit import compiled

RAW_TYPES = (RAW, IPV4, IPV6, *OLD_RAW)
VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60
EXTENSIONS = (HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION)
MOST_EXTENSIONS = 8
OPTION_END, OPTION_NOP, OPTION_MSS, OPTION_SACK, OPTION_TIMESTAMPS = 0, 1, 2, 5, 8


@compiled
def _u16(data: Any, at: Any) -> Any:
    return (np.int64(data[at]) << 8) | np.int64(data[at + 1])


@compiled
def _u32(data: Any, at: Any) -> Any:
    return (_u16(data, at) << 16) | _u16(data, at + 2)


@compiled
def _u64(data: Any, at: Any) -> Any:
    return (np.uint64(_u32(data, at)) << np.uint64(32)) | np.uint64(_u32(data, at + 4))


@compiled
def _hardware_address(data: Any, at: Any, length: Any) -> Any:
    value = np.uint64(0)
    for i in range(length):
        value = (value << np.uint64(8)) | np.uint64(data[at + i])
    return value


@compiled
def _decode_frame(data: Any, at: Any, captured: int, wire: Any, link_type: int, packet: Any) -> None:
    """Decode data[at : at + captured], `wire` bytes long before it was cut, into all fields of `packet` but its time.

    Nothing beyond `captured` is read, whatever lengths the headers claim.
    """
    end = at + captured
    packet.wire_bytes = wire
    packet.captured_bytes = captured
    packet.source_mac = 0
    packet.src_high = packet.src_low = packet.dst_high = packet.dst_low = 0
    packet.payload_bytes = 0
    packet.src_port = packet.dst_port = 0
    packet.vlan = 0
    packet.seq = packet.ack = packet.ts_value = packet.ts_echo = 0
    packet.window = packet.segment_limit = 0
    packet.version = packet.protocol = packet.dscp = 0
    packet.tcp_flags = packet.has_tcp = packet.has_timestamps = packet.sacks = 0
    packet.sack_0 = packet.sack_1 = packet.sack_2 = packet.sack_3 = 0
    network = at
    ethertype = -1
    if link_type == ETHERNET:
        network, typed = at + 14, at + 12
        if captured >= 14:
            packet.source_mac = _hardware_address(data, at + 6, 6)
    elif link_type == LINUX_COOKED:
        network, typed = at + 16, at + 14
        if captured >= 16:
            packet.source_mac = _hardware_address(data, at + 6, min(8, _u16(data, at + 4)))
    elif link_type == LINUX_COOKED_2:
        network, typed = at + 20, at
        if captured >= 20:
            packet.source_mac = _hardware_address(data, at + 12, min(8, data[at + 11]))
    elif link_type in (NULL, LOOP):
        # Four bytes name the address family, in the byte order of the machine that captured.
        network, typed, ethertype = at + 4, at, 0
    elif link_type in RAW_TYPES:
        typed, ethertype = at, 0
    else:
        packet.status = UNKNOWN_LINK
        return
    if network > end:
        packet.status = NOT_IP if wire < network - at else CUT_SHORT
        return
    if ethertype < 0:
        ethertype = _u16(data, typed)
        while ethertype in VLAN_TAGS:
            if network + 4 > end:
                packet.status = CUT_SHORT
                return
            packet.vlan = _u16(data, network) & 0xFFF
            ethertype = _u16(data, network + 2)
            network += 4
    elif network < end:
        ethertype = ETHERTYPE_IPV6 if data[network] >> 4 == 6 else ETHERTYPE_IPV4 if data[network] >> 4 == 4 else 0
    if ethertype == ETHERTYPE_IPV4:
        _decode_ipv4(data, network, end, wire - (network - at), packet)
    elif ethertype == ETHERTYPE_IPV6:
        _decode_ipv6(data, network, end, wire - (network - at), packet)
    else:
        packet.status = NOT_IP


@compiled
def _decode_ipv4(data: Any, at: Any, end: Any, wire: Any, packet: Any) -> None:
    if at + 20 > end:
        packet.status = MALFORMED if wire < 20 else CUT_SHORT
        return
    header = (data[at] & 15) * 4
    length = _u16(data, at + 2)
    # Segments that the NIC is still to cut may be longer than the field can say: then it is 0.
    if length == 0 or length > wire:
        length = wire
    if data[at] >> 4 != 4 or header < 20 or length < header:
        packet.status = MALFORMED
        return
    packet.version = 4
    packet.dscp = data[at + 1] >> 2
    packet.src_low = _u32(data, at + 12)
    packet.dst_low = _u32(data, at + 16)
    packet.protocol = data[at + 9]
    if _u16(data, at + 6) & 0x1FFF:
        packet.status = WHOLE  # a later fragment: its ports are in the first one
        return
    _decode_transport(data, at + header, end, length - header, packet)


@compiled
def _decode_ipv6(data: Any, at: Any, end: Any, wire: Any, packet: Any) -> None:
    if at + 40 > end:
        packet.status = MALFORMED if wire < 40 else CUT_SHORT
        return
    if data[at] >> 4 != 6:
        packet.status = MALFORMED
        return
    packet.version = 6
    packet.dscp = (_u16(data, at) >> 6) & 63
    packet.src_high, packet.src_low = _u64(data, at + 8), _u64(data, at + 16)
    packet.dst_high, packet.dst_low = _u64(data, at + 24), _u64(data, at + 32)
    length = _u16(data, at + 4)
    if length == 0 or length > wire - 40:
        length = wire - 40
    kind = np.int64(data[at + 6])
    at += 40
    for _ in range(MOST_EXTENSIONS):
        if kind not in EXTENSIONS:
            break
        packet.protocol = kind
        if at + 8 > end:
            packet.status = MALFORMED if length < 8 else CUT_SHORT
            return
        if kind == FRAGMENT:
            size: Any = 8
            if _u16(data, at + 2) >> 3:
                packet.protocol = data[at]
                packet.status = WHOLE
                return
        elif kind == AUTHENTICATION:
            size = (np.int64(data[at + 1]) + 2) * 4
        else:
            size = (np.int64(data[at + 1]) + 1) * 8
        kind = np.int64(data[at])
        at += size
        length -= size
        if length < 0:
            packet.status = MALFORMED
            return
    packet.protocol = kind
    _decode_transport(data, at, end, length, packet)


@compiled
def _decode_transport(data: Any, at: Any, end: Any, length: Any, packet: Any) -> None:
    """Ports, and of TCP the fields that its analysis needs. `length`: of header and payload together, as IP says."""
    tcp = packet.protocol == TCP
    if not tcp and packet.protocol != UDP:
        packet.status = WHOLE
        return
    least = 20 if tcp else 8
    if length < least:
        packet.status = MALFORMED
        return
    if at + 4 > end:
        packet.status = CUT_SHORT
        return
    packet.src_port, packet.dst_port = _u16(data, at), _u16(data, at + 2)
    if not tcp:
        packet.payload_bytes = length - 8
        packet.status = WHOLE
        return
    if at + 16 > end:
        packet.status = CUT_SHORT
        return
    header = np.int64(data[at + 12] >> 4) * 4
    if header < 20 or header > length:
        packet.status = MALFORMED
        return
    packet.seq, packet.ack = _u32(data, at + 4), _u32(data, at + 8)
    packet.tcp_flags = data[at + 13]
    packet.window = _u16(data, at + 14)
    packet.payload_bytes = length - header
    packet.has_tcp = 1
    packet.status = WHOLE
    _decode_options(data, at + 20, min(at + header, end), packet)


@compiled
def _decode_options(data: Any, at: Any, end: Any, packet: Any) -> None:
    while at < end:
        kind = data[at]
        if kind == OPTION_NOP:
            at += 1
            continue
        if kind == OPTION_END or at + 1 >= end:
            return
        size = np.int64(data[at + 1])
        if size < 2 or at + size > end:
            return
        if kind == OPTION_TIMESTAMPS and size == 10:
            packet.ts_value, packet.ts_echo = _u32(data, at + 2), _u32(data, at + 6)
            packet.has_timestamps = 1
        elif kind == OPTION_MSS and size == 4:
            packet.segment_limit = _u16(data, at + 2)
        elif kind == OPTION_SACK:
            blocks: Any = min(4, (size - 2) // 8)
            packet.sacks = blocks
            if blocks > 0:
                packet.sack_0 = _u64(data, at + 2)
            if blocks > 1:
                packet.sack_1 = _u64(data, at + 10)
            if blocks > 2:
                packet.sack_2 = _u64(data, at + 18)
            if blocks > 3:
                packet.sack_3 = _u64(data, at + 26)
        at += size
