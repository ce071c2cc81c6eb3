"""Fewer bins of time and bursts: rows that belong together become one, over wider bins and longer gaps if need be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence.capture.flow import BURST, CELL


def merge_cells(cells: NDArray[Any], coarser: int = 1) -> NDArray[Any]:
    """Rows of CELL by flow and bin, one for each, in bins `coarser` times as wide."""
    bins = cells["bin"] // coarser
    order = np.lexsort((bins, cells["flow"]))
    flow, bins = cells["flow"][order], bins[order]
    first = _begins(flow, bins)
    merged = np.zeros(int(first.sum()), CELL)
    merged["flow"], merged["bin"] = flow[first], bins[first]
    if len(merged):
        merged["bytes"] = np.add.reduceat(cells["bytes"][order], np.flatnonzero(first))
    return merged


def merge_bursts(bursts: NDArray[Any], gap_ns: int) -> NDArray[Any]:
    """Rows of BURST by flow and start; those of a flow that are no more than `gap_ns` apart become one."""
    order = np.lexsort((bursts["start_ns"], bursts["flow"]))
    rows = bursts[order]
    if not len(rows):
        return rows
    new_flow = _begins(rows["flow"])
    # The latest end so far within each flow. Setting flows apart by adding to their times could overflow.
    latest = rows["end_ns"].copy()
    starts = np.flatnonzero(new_flow)
    for begin, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        np.maximum.accumulate(latest[begin:end], out=latest[begin:end])
    apart = np.ones(len(rows), np.bool_)
    apart[1:] = rows["start_ns"][1:] - latest[:-1] > gap_ns
    first = new_flow | apart
    places = np.flatnonzero(first)
    merged = np.zeros(len(places), BURST)
    merged["flow"], merged["start_ns"] = rows["flow"][places], rows["start_ns"][places]
    merged["end_ns"] = np.maximum.reduceat(rows["end_ns"], places)
    merged["bytes"] = np.add.reduceat(rows["bytes"], places)
    merged["packets"] = np.add.reduceat(rows["packets"], places)
    return merged


def _begins(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Where, in sorted rows, a new combination of keys begins."""
    first = np.ones(len(keys[0]), np.bool_)
    if len(first):
        first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return first
