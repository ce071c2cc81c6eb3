"""From what one rank was seen to do, the compute and the collectives of one iteration."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.collectives import (
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE_SCATTER,
    RING_ALL_REDUCE,
)

_HALF_OF_ALL_REDUCE = {ALL_GATHER, REDUCE_SCATTER}
KINDS = (RING_ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BROADCAST)
SHORTEST_S = 1e-9
"""What takes less was not measured."""
MAX_STEPS = 1000
"""Iterations that are looked at; more would tell no more."""
MIN_REPEATS = 3
"""How often a sequence of collectives must come before it counts as an iteration."""


class Unusable(ValueError):
    """Why no iteration can be derived."""


class Collective(NamedTuple):
    """kind: one of KINDS. size: bytes of each rank's whole buffer."""

    kind: str
    start_s: float
    end_s: float
    size: int


@dataclass(frozen=True)
class Recording:
    """What a trace says of one rank, seconds on its clock.

    steps: begin and end of each iteration, where the trace marks them. computing, float64[k, 2]: begin and end of
    what was no communication; they may overlap. ranks: of the job, None if not said.
    """

    collectives: tuple[Collective, ...]
    computing: NDArray[np.float64]
    steps: tuple[tuple[float, float], ...] = ()
    ranks: int | None = None


@dataclass(frozen=True)
class Phases:
    """One iteration, as a job has it: medians over the recorded ones.

    period_s: all of it. compute_s: without the communication that nothing hides. overlap: the part of compute_s, from
    its end, that communication runs beside. sizes: bytes of each collective. communication_s: time in which any ran.
    link_Bps: what each rank sent while one ran, in a ring.
    """

    period_s: float
    compute_s: float
    overlap: float
    kind: str
    sizes: tuple[int, ...]
    communication_s: float
    link_Bps: float
    ranks: int
    iterations: int

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


def phases_of(recording: Recording, ranks: int | None = None) -> Phases:
    """The phases of one iteration. Unusable, in a plain sentence, where the trace holds none.

    An iteration is what the trace marks as one, else the shortest sequence of collectives that repeats itself. The
    first is left out if there are others, as warm-up. ranks: instead of what the trace says.
    """
    count = ranks or recording.ranks
    if not recording.collectives:
        raise Unusable("it holds no collective with a size")
    if count is None:
        raise Unusable("it does not say how many ranks there are: give --workers")
    if count < 2:
        raise Unusable("it is of a job with a single rank, which sends nothing")
    collectives = sorted(recording.collectives, key=lambda each: each.start_s)
    steps = sorted(recording.steps) or _repeating(collectives)
    steps = (steps[1:] if len(steps) > 1 else steps)[:MAX_STEPS]
    starts = [each.start_s for each in collectives]
    inside = [collectives[bisect_left(starts, begin) : bisect_left(starts, end)] for begin, end in steps]
    if not any(inside):
        raise Unusable("no collective lies in any of its iterations")
    kind, sizes = _typical(inside)
    busy = _union(np.array([(each.start_s, each.end_s) for each in collectives]))
    exposed = _without(busy, _union(recording.computing))
    periods = np.array([end - begin for begin, end in steps])
    sent_s = np.array([_covered(busy, begin, end) for begin, end in steps])
    exposed_s = np.array([_covered(exposed, begin, end) for begin, end in steps])
    period, communication = float(np.median(periods)), float(np.median(sent_s))
    if communication < SHORTEST_S:
        raise Unusable("its collectives take no time: it holds no durations")
    compute = float(np.median(periods - exposed_s))
    hidden = max(0.0, communication - float(np.median(exposed_s)))
    return Phases(
        period_s=period,
        compute_s=compute,
        overlap=min(1.0, hidden / compute) if compute > 0 else 0.0,
        kind=kind,
        sizes=sizes,
        communication_s=communication,
        link_Bps=sum(sizes) * _sent_share(kind, count) / communication,
        ranks=count,
        iterations=len(steps),
    )


def _sent_share(kind: str, ranks: int) -> float:
    """Bytes that a link of the ring carries, or a rank sends, for each byte of a collective's size."""
    if kind == RING_ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    return 1.0 if kind == BROADCAST else (ranks - 1) / ranks


def _repeating(collectives: Sequence[Collective]) -> list[tuple[float, float]]:
    """Begin and end of each full repetition of the shortest sequence that makes up all of them; one span if none does.

    That length is how many there are less the longest beginning that is their end too (Knuth, Morris and Pratt 1977).
    """
    pattern = [(each.kind, each.size) for each in collectives]
    borders = [0] * len(pattern)
    for index in range(1, len(pattern)):
        border = borders[index - 1]
        while border and pattern[index] != pattern[border]:
            border = borders[border - 1]
        borders[index] = border + (pattern[index] == pattern[border])
    length = len(pattern) - borders[-1]
    if length * MIN_REPEATS <= len(pattern):
        return list(pairwise(each.start_s for each in collectives[::length]))
    return [(collectives[0].start_s, max(each.end_s for each in collectives))]


def _typical(inside: Sequence[Sequence[Collective]]) -> tuple[str, tuple[int, ...]]:
    """The kind and sizes that most iterations have; of all kinds in them, one that puts the same bytes on a ring.

    An all-gather and a reduce-scatter of the same bytes are what an all-reduce of them consists of.
    """
    common, _ = Counter(tuple((each.kind, each.size) for each in step) for step in inside if step).most_common(1)[0]
    kinds = {kind for kind, _ in common}
    if len(kinds) == 1:
        return kinds.pop(), tuple(size for _, size in common)
    ringed = {RING_ALL_REDUCE, *_HALF_OF_ALL_REDUCE}
    if kinds <= ringed:
        halved = (size // 2 if kind in _HALF_OF_ALL_REDUCE else size for kind, size in common)
        return RING_ALL_REDUCE, tuple(max(1, size) for size in halved)
    most = max(kinds, key=lambda kind: sum(size for other, size in common if other == kind))
    return most, tuple(size for kind, size in common if kind == most)


def _union(spans: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same time as spans that neither touch nor overlap, in order: float64[k, 2]."""
    spans = spans.reshape(-1, 2)
    spans = spans[spans[:, 1] > spans[:, 0]]
    if len(spans) == 0:
        return spans
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    first = np.concatenate([[True], spans[1:, 0] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([spans[first, 0], reach[last]], axis=1)


def _without(spans: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """The time in `spans` but not in `others`; both are unions."""
    if len(spans) == 0 or len(others) == 0:
        return spans
    edges = np.concatenate([[-np.inf], others.ravel(), [np.inf]]).reshape(-1, 2)
    found = [
        (max(begin, gap_begin), min(end, gap_end))
        for begin, end in spans
        for gap_begin, gap_end in edges[
            np.searchsorted(edges[:, 1], begin, "right") : np.searchsorted(edges[:, 0], end, "left")
        ]
    ]
    return _union(np.array(found, np.float64))


def _covered(spans: NDArray[np.float64], begin: float, end: float) -> float:
    """How much of the time from begin to end lies in a union."""
    if len(spans) == 0:
        return 0.0
    clipped = np.clip(spans, begin, end)
    return float((clipped[:, 1] - clipped[:, 0]).sum())
