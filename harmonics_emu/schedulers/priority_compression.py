"""Many priorities in few levels: the heaviest cut of a contention graph, after Crux (SIGCOMM 2024, section 4.3).

Jobs are numbered in falling priority. An edge from u to v says that the two share a link and u has the higher
priority; its weight is what is lost if both land in one level. A valid assignment never puts u in a lower level than
v. Cuts of topological orders into consecutive segments are just the valid assignments, so the best segments of some
random orders, each found exactly, come near the best assignment.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ORDERS = 10
"""Topological orders that are sampled: the paper's m."""

Edges = NDArray[np.bool_]
"""[jobs, jobs]: element (u, v) says that there is an edge from u to v; only for u < v."""
Weights = NDArray[np.float64]
"""[jobs, jobs]: weight of each edge, not below zero; 0 where there is none."""


def compress(edges: Edges, weights: Weights, levels: int, seed: int, orders: int = ORDERS) -> tuple[int, ...]:
    """The level of each job, 0 first: a valid assignment that uses exactly min(levels, jobs) levels.

    The same seed gives the same assignment. ValueError for less than one level.
    """
    if levels < 1:
        raise ValueError(f"levels is {levels} but must be at least 1")
    count = len(edges)
    sampled = random.Random(seed)
    best: tuple[int, ...] = (0,) * count
    best_weight = -1.0
    for _ in range(orders if min(levels, count) > 1 else 0):
        order = random_topological_order(edges, sampled)
        starts, weight = best_segments(weights[np.ix_(order, order)], min(levels, count))
        if weight > best_weight:
            level = np.empty(count, np.int64)
            level[order] = np.searchsorted(starts, np.arange(count), side="right") - 1
            best, best_weight = tuple(level.tolist()), weight
    return best


def best_segments(weights: Weights, segments: int) -> tuple[list[int], float]:
    """The heaviest cut of a topological order into `segments` consecutive, non-empty ones: their starts, the weight.

    weights: in the topological order, so that nothing lies below the diagonal; 1 <= segments <= jobs.
    """
    count = len(weights)
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = weights.cumsum(axis=0).cumsum(axis=1)
    # gain[i, j]: weight from the first j jobs to those after them up to i, which a cut at j adds; none unless j < i.
    gain = sums.T - np.diag(sums)
    gain[np.triu_indices(count + 1)] = -np.inf
    # best[i]: weight of the best cut of the first i jobs into the segments so far.
    best = np.full(count + 1, -np.inf)
    best[1:] = 0.0
    chosen = []
    for _ in range(segments - 1):
        candidates = gain + best
        chosen.append(candidates.argmax(axis=1))
        best = candidates.max(axis=1)
    starts, end = [], count
    for last_starts in reversed(chosen):
        end = int(last_starts[end])
        starts.append(end)
    return [0, *reversed(starts)], float(best[count])


def random_topological_order(edges: Edges, sampled: random.Random) -> list[int]:
    """Jobs one by one, each drawn from those whose predecessors have all been drawn."""
    missing = edges.sum(axis=0)
    ready = np.flatnonzero(missing == 0).tolist()
    order: list[int] = []
    while ready:
        drawn = sampled.randrange(len(ready))
        ready[drawn], ready[-1] = ready[-1], ready[drawn]
        order.append(ready.pop())
        later = np.flatnonzero(edges[order[-1]])
        missing[later] -= 1
        ready.extend(later[missing[later] == 0].tolist())
    return order


def cut_weight(weights: Weights, levels: Sequence[int]) -> float:
    """Weight of the edges whose ends are in different levels."""
    level = np.asarray(levels)
    return float(weights[level[:, None] != level[None, :]].sum())
