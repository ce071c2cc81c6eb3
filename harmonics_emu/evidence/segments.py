"""Times cut at every moment at which something begins or ends: what overlaps what, how long, with how many bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Intervals = NDArray[np.float64]
"""(n, 2): start and end of each, seconds; disjoint and in order where a function says so."""
Floats = NDArray[np.float64]


def union(intervals: Intervals, gap_s: float = 0.0) -> Intervals:
    """Disjoint intervals in order that cover the same, and pauses of up to `gap_s` between them as well."""
    if not len(intervals):
        return np.zeros((0, 2))
    rows = intervals[np.argsort(intervals[:, 0], kind="stable")]
    latest = np.maximum.accumulate(rows[:, 1])
    first = np.ones(len(rows), np.bool_)
    first[1:] = rows[1:, 0] > latest[:-1] + gap_s
    places = np.flatnonzero(first)
    return np.column_stack([rows[places, 0], np.maximum.reduceat(rows[:, 1], places)])


def edges_of(sets: Iterable[Intervals]) -> Floats:
    """Every start and end in the sets, in order and once each: segment i is from edge i to edge i + 1."""
    parts = [intervals.ravel() for intervals in sets]
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0)


def covers(intervals: Intervals, edges: Floats) -> NDArray[np.bool_]:
    """Of each segment between edges, whether it lies in the intervals (disjoint, their ends among the edges)."""
    count = max(0, len(edges) - 1)
    depth = np.zeros(count + 1, np.int64)
    np.add.at(depth, np.searchsorted(edges, intervals[:, 0]), 1)
    np.add.at(depth, np.searchsorted(edges, intervals[:, 1]), -1)
    inside: NDArray[np.bool_] = np.cumsum(depth)[:count] > 0
    return inside


def total(intervals: Intervals) -> float:
    """Seconds of disjoint intervals."""
    return float((intervals[:, 1] - intervals[:, 0]).sum())


def amounts(starts: Floats, ends: Floats, sizes: NDArray[Any], edges: Floats) -> Floats:
    """What falls into each segment between edges, of amounts that spread evenly from a start to an end (above it)."""
    if len(edges) < 2 or not len(starts):
        return np.zeros(max(0, len(edges) - 1))
    rates = sizes / (ends - starts)
    times = np.concatenate([starts, ends])
    changes = np.concatenate([rates, -rates])
    order = np.argsort(times, kind="stable")
    times, slope = times[order], np.cumsum(changes[order])
    so_far = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(times))])
    shares: Floats = np.maximum(np.diff(np.interp(edges, times, so_far)), 0.0)
    return shares
