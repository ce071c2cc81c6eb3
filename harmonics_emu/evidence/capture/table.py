"""All flows of one capture file, with their series, bursts, round trips and DSCP marks, in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence.capture.compaction import merge_bursts, merge_cells
from harmonics_emu.evidence.capture.flow import (
    BURST,
    CELL,
    DSCPS,
    FLOW,
    HOLES,
    RTT_BINS,
    STAMPS,
)
from harmonics_emu.evidence.capture.kernel.accounting import (
    ALL_DONE,
    BURSTS_FULL,
    CELLS_FULL,
    COUNTERS,
    EMPTY,
    FLOWS_FULL,
    account,
    rehash,
)
from harmonics_emu.evidence.capture.packet import NO_TIME

FEWEST_FLOWS, MOST_FLOWS = 1024, 65_536
"""Room for flows at first and at most (some 200 MB), whatever the file's size. Packets of others are only counted."""
MOST_CELLS = MOST_BURSTS = 1_000_000
WIDTH_NS = 10_000_000
GAP_NS = 1_000_000
LONGEST_GAP_NS = 2**61


class FlowTable:
    """Takes packets in; `finish` before reading. width_ns and gap_ns grow, by doubling, when there are too many bins or
    bursts to keep.

    flows: rows of FLOW. cells: rows of CELL with bytes on the wire in bins of width_ns. bursts: rows of BURST, split
    where a flow paused for more than gap_ns. dscp_bytes: (flows, DSCPS). rtt_bins: (flows, RTT_BINS). totals: places of
    kernel.accounting.
    """

    def __init__(
        self,
        width_ns: int = WIDTH_NS,
        gap_ns: int = GAP_NS,
        *,
        most_flows: int = MOST_FLOWS,
        most_rows: int = MOST_CELLS,
    ) -> None:
        self.width_ns, self.gap_ns = width_ns, gap_ns
        self.totals = np.zeros(COUNTERS, np.int64)
        # However wide bins and gaps become, a flow keeps up to four rows: one each side of 1970 and of long silences.
        self._most_flows, self._most_rows = most_flows, max(most_rows, 8 * most_flows)
        self._used = 0
        self._cells_used = self._bursts_used = 0
        self._cells = np.zeros(self._most_rows, CELL)
        self._bursts = np.zeros(self._most_rows, BURST)
        self._make_room(min(FEWEST_FLOWS, most_flows))

    @property
    def flows(self) -> NDArray[Any]:
        return self._flows[: self._used]

    @property
    def cells(self) -> NDArray[Any]:
        return self._cells[: self._cells_used]

    @property
    def bursts(self) -> NDArray[Any]:
        return self._bursts[: self._bursts_used]

    @property
    def dscp_bytes(self) -> NDArray[np.int64]:
        return self._dscp_bytes[: self._used]

    @property
    def rtt_bins(self) -> NDArray[np.uint32]:
        return self._rtt_bins[: self._used]

    def add(self, packets: NDArray[Any]) -> None:
        """Account for rows of PACKET."""
        at = 0
        while True:
            at, self._used, self._cells_used, self._bursts_used, why = account(
                packets,
                at,
                self.totals,
                self._flows,
                self._used,
                len(self._flows) < self._most_flows,
                self._table,
                self._stamps,
                self._stamped_ns,
                self._rtt_bins,
                self._dscp_bytes,
                self._holes,
                self._cells,
                self._cells_used,
                self.width_ns,
                self._bursts,
                self._bursts_used,
                self.gap_ns,
            )
            if why == ALL_DONE:
                return
            if why == FLOWS_FULL:
                self._make_room(min(2 * len(self._flows), self._most_flows))
            elif why == CELLS_FULL:
                self._squeeze_cells()
            elif why == BURSTS_FULL:
                self._squeeze_bursts()

    def finish(self) -> None:
        """Close the bins and bursts that are open, and put all in order by flow and time."""
        flows = self.flows
        open_bins = np.flatnonzero(flows["bin"] != NO_TIME)
        last = np.zeros(len(open_bins), CELL)
        last["flow"], last["bin"], last["bytes"] = open_bins, flows["bin"][open_bins], flows["bin_bytes"][open_bins]
        open_bursts = np.flatnonzero(flows["burst_start_ns"] != NO_TIME)
        ends = np.zeros(len(open_bursts), BURST)
        ends["flow"] = open_bursts
        for name in ("start_ns", "end_ns", "bytes", "packets"):
            ends[name] = flows[f"burst_{name}"][open_bursts]
        flows["bin"] = flows["burst_start_ns"] = NO_TIME
        self._cells = merge_cells(np.concatenate([self.cells, last]))
        self._bursts = merge_bursts(np.concatenate([self.bursts, ends]), self.gap_ns)
        self._cells_used, self._bursts_used = len(self._cells), len(self._bursts)

    def _make_room(self, count: int) -> None:
        self._flows = self._grown("_flows", count, (), FLOW)
        self._stamps = self._grown("_stamps", count, (STAMPS,), np.uint32)
        self._stamped_ns = self._grown("_stamped_ns", count, (STAMPS,), np.int64)
        self._rtt_bins = self._grown("_rtt_bins", count, (RTT_BINS,), np.uint32)
        self._dscp_bytes = self._grown("_dscp_bytes", count, (DSCPS,), np.int64)
        self._holes = self._grown("_holes", count, (HOLES, 2), np.uint32)
        # Never more than half full, so that a search ends soon.
        self._table = np.full(1 << (2 * count - 1).bit_length(), EMPTY, np.int64)
        rehash(self._flows, self._used, self._table)

    def _grown(self, name: str, count: int, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        grown = np.zeros((count, *shape), dtype)
        if self._used:
            grown[: self._used] = getattr(self, name)[: self._used]
        return grown

    def _squeeze_cells(self) -> None:
        merged = merge_cells(self.cells)
        while len(merged) > self._most_rows // 2:
            merged = merge_cells(merged, 2)
            self.width_ns *= 2
            # Bins that are open go on in the wider ones that they are part of.
            flows = self.flows
            flows["bin"] = np.where(flows["bin"] == NO_TIME, NO_TIME, flows["bin"] // 2)
        self._cells[: len(merged)] = merged
        self._cells_used = len(merged)

    def _squeeze_bursts(self) -> None:
        merged = merge_bursts(self.bursts, self.gap_ns)
        while len(merged) > self._most_rows // 2 and self.gap_ns < LONGEST_GAP_NS:
            self.gap_ns *= 2
            merged = merge_bursts(merged, self.gap_ns)
        self._bursts[: len(merged)] = merged
        self._bursts_used = len(merged)
