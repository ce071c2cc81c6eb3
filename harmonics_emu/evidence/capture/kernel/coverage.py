"""Which bytes of a flow a capture has seen: told from sequence ranges of payload alone, whatever overtook what."""

from __future__ import annotations

from typing import Any

import numpy as np

from harmonics_emu.evidence.capture.flow import HOLES
from harmonics_emu.evidence.capture.packet import SYN
from harmonics_emu.simulate.kernel.jit import compiled


@compiled
def _is_after(a: Any, b: Any) -> Any:
    """Whether sequence number `a` is beyond `b`, on their circle."""
    return np.int32(np.uint32(a) - np.uint32(b)) > 0


@compiled
def _add_hole(flow: Any, holes: Any, left: Any, right: Any) -> None:
    """Note that [left, right) is still to come; the oldest hole is forgotten where there are too many."""
    if flow.holes == HOLES:
        for i in range(HOLES - 1):
            holes[i, 0], holes[i, 1] = holes[i + 1, 0], holes[i + 1, 1]
        flow.holes -= 1
    holes[flow.holes, 0], holes[flow.holes, 1] = left, right
    flow.holes += 1


@compiled
def _fill(flow: Any, holes: Any, left: Any, right: Any) -> Any:
    """Take [left, right) out of the holes; returns how many bytes of it were missing."""
    filled = np.int64(0)
    i = 0
    while i < flow.holes:
        begin, end = holes[i, 0], holes[i, 1]
        first = left if _is_after(left, begin) else begin
        last = right if _is_after(end, right) else end
        if not _is_after(last, first):
            i += 1
            continue
        filled += np.int64(np.uint32(last - first))
        if _is_after(first, begin):
            holes[i, 1] = first
            if _is_after(end, last):
                _add_hole(flow, holes, last, end)
            i += 1
        elif _is_after(end, last):
            holes[i, 0] = last
            i += 1
        else:
            flow.holes -= 1
            holes[i, 0], holes[i, 1] = holes[flow.holes, 0], holes[flow.holes, 1]
    return filled


@compiled
def _cover(packet: Any, flow: Any, holes: Any) -> None:
    """Account for a segment's payload: bytes seen before count as repeated, a segment that only fills holes as late."""
    if packet.tcp_flags & SYN:
        flow.has_data = flow.holes = 0  # the ports are used again
        return
    size = packet.payload_bytes
    if size == 0:
        return
    start, end = np.uint32(packet.seq), np.uint32(packet.seq + size)
    if flow.has_data == 0:
        flow.has_data, flow.data_start, flow.data_end = 1, start, end
        return
    if size == 1 and np.uint32(start + 1) == flow.data_end:
        return  # a keep-alive
    if not _is_after(flow.data_end, start):
        if start != flow.data_end:
            _add_hole(flow, holes, flow.data_end, start)
        flow.data_end = end
        return
    until = end
    if _is_after(end, flow.data_end):
        until = flow.data_end
        flow.data_end = end
    missing = _fill(flow, holes, start, until)
    if _is_after(flow.data_start, start):
        before = flow.data_start if _is_after(until, flow.data_start) else until
        missing += np.int64(np.uint32(before - start))
        if _is_after(flow.data_start, until):
            _add_hole(flow, holes, until, flow.data_start)
        flow.data_start = start
    again = np.int64(np.uint32(until - start)) - missing
    if again > 0:
        flow.repeated += 1
        flow.repeated_bytes += again
    elif missing > 0:
        flow.late += 1
