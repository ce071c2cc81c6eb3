"""The geometry of CASSINI: periodic demand rolled on a circle, and the rotations under which it fits a link.

A job that repeats every T seconds is an arc on a circle of perimeter T. Jobs with different periods share a unified
circle on which each appears a whole number of times. Rotating a job is delaying it. The score says how much of the
demand fits under the link's capacity: 1 is all of it; what is hopeless can score below 0.

The abstract of CASSINI (NSDI 2024) names the idea; the formulas are reconstructed from general knowledge of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EQUAL_PERIODS = 0.02
"""Periods are taken as equal, and may be stretched to fit a circle, within this fraction."""
MAX_LAPS = 16
"""A unified circle is at most this many times as long as the longest period on it."""
FAST = 64
"""A job that repeats so often while the slowest one does once fits on any circle within EQUAL_PERIODS."""
ANGLES = 72
"""Samples of a circle: 5 degrees each, as CASSINI is recollected to use. Where a job appears several times: more."""
ANGLES_PER_PERIOD = 24
MAX_ANGLES = 720
MAX_COMBINATIONS = 6_000
"""Up to so many combinations of rotations are searched exactly: three jobs at 5 degrees make 5,184."""
RESTARTS = 8
MAX_SWEEPS = 20
NEGLIGIBLE = 1e-9
"""What is rounding: of excess, in fractions of the capacity; of times, in fractions of the period."""


@dataclass(frozen=True, slots=True)
class Arc:
    """Demand of `height` (any unit of rate) from `start_s` on, for `length_s` of every period."""

    start_s: float
    length_s: float
    height: float


@dataclass(frozen=True)
class Circle:
    """perimeter_s, and how often each job appears on it: the job's period on it is perimeter_s / repeats.

    stretch: the largest factor by which that is longer than a job's own period. repeats: int64 [jobs].
    """

    perimeter_s: float
    repeats: NDArray[np.int64]
    stretch: float

    @property
    def exact(self) -> bool:
        """Whether every period fits within EQUAL_PERIODS; if not, phases drift apart over a lap."""
        return self.stretch <= (1 + EQUAL_PERIODS) * (1 + NEGLIGIBLE)


@dataclass(frozen=True)
class Rotations:
    """steps: by how many samples each job is delayed. score: what they reach. exact: whether no better one exists."""

    steps: tuple[int, ...]
    score: float
    exact: bool


def unify(periods_s: Sequence[float]) -> Circle:
    """The shortest circle on which every period appears a whole number of times, stretched by 2 % at most.

    Where least common multiples explode (999.7 ms and 1001.3 ms), this rounds instead: circles are tried at the whole
    multiples of each period, up to MAX_LAPS of the longest, and a period is rounded up to the next whole part of the
    circle. If none fits within 2 %, the one that stretches least is taken. ValueError for a period that is not above
    zero.
    """
    periods = np.asarray(periods_s, np.float64)
    if not len(periods) or not np.all((periods > 0) & np.isfinite(periods)):
        raise ValueError("periods must be above zero and finite, and there must be at least one")
    longest = periods.max()
    shaping = np.unique(periods[periods > longest / FAST])
    laps = [period * np.arange(1, math.floor(MAX_LAPS * longest / period) + 1) for period in shaping]
    perimeters = np.unique(np.concatenate(laps))
    perimeters = perimeters[perimeters >= longest * (1 - NEGLIGIBLE)]
    stretch = np.ones(len(perimeters))
    for period in shaping:
        np.maximum(stretch, perimeters / period / _whole(perimeters / period), out=stretch)
    enough = max(1 + EQUAL_PERIODS, float(stretch.min()))
    perimeter_s = float(perimeters[np.flatnonzero(stretch <= enough * (1 + NEGLIGIBLE))[0]])
    repeats = _whole(perimeter_s / periods)
    return Circle(perimeter_s, repeats, float((perimeter_s / periods / repeats).max()))


def _whole(ratio: Floats) -> NDArray[np.int64]:
    """Whole parts, at least 1; what is a whole number but for rounding counts as one."""
    return np.maximum(np.floor(ratio * (1 + NEGLIGIBLE)), 1).astype(np.int64)


def angles_for(repeats: Sequence[int]) -> int:
    """How many samples a circle gets so that its most frequent job is still seen as arcs."""
    return min(max(ANGLES, ANGLES_PER_PERIOD * max(repeats)), MAX_ANGLES)


def sample(arcs: Sequence[Arc], repeats: int, perimeter_s: float, angles: int) -> Floats:
    """Demand at the middle of each of `angles` samples of the circle, float64 [angles], in the unit of the arcs.

    Where a job repeats within a few samples, its mean stands for its arcs.
    """
    period_s = perimeter_s / repeats
    if angles < 4 * repeats:
        return np.full(angles, sum(arc.length_s * arc.height for arc in arcs) / period_s)
    at = (np.arange(angles) + 0.5) * (perimeter_s / angles)
    demand = np.zeros(angles)
    for arc in arcs:
        # A sample at an arc's beginning is in it and one at its end is not, whichever way the two were rounded.
        since = (at - arc.start_s + NEGLIGIBLE * period_s) % period_s
        demand += np.where(since < arc.length_s, arc.height, 0.0)
    return demand


def score(demand: Floats, steps: Sequence[int], capacity: float) -> float:
    """1 - sum of excess / (samples * capacity) of jobs delayed by `steps` samples. demand: float64 [jobs, angles]."""
    total = np.sum([np.roll(row, step) for row, step in zip(demand, steps, strict=True)], axis=0)
    excess = float(np.maximum(total - capacity, 0.0).sum())
    angles: int = demand.shape[1]
    return 1.0 - excess / (angles * capacity)


def best_rotations(
    demand: Floats, repeats: Sequence[int], capacity: float, seed: int, start: Sequence[int] | None = None
) -> Rotations:
    """Delays of the jobs on one link that reach the best score. Nobody moves from `start` for nothing.

    demand: float64 [jobs, angles]; job j repeats `repeats[j]` times, so it has angles / repeats[j] different delays.
    Exact up to MAX_COMBINATIONS, with the job of most delays fixed, since only relative delays count. Beyond that,
    coordinate descent: one job after the other takes the delay that is best for it, until none moves, from `start`
    and from RESTARTS - 1 random delays drawn by `seed`.
    """
    jobs, angles = demand.shape
    begin = np.zeros(jobs, np.int64) if start is None else np.asarray(start, np.int64)
    choices = [math.ceil(angles / count) for count in repeats]
    search = _Search(demand / capacity, choices)
    order = sorted(range(jobs), key=lambda job: (-choices[job], -float(demand[job].sum())))
    exact = math.prod(choices[job] for job in order[1:]) <= MAX_COMBINATIONS
    found, excess = begin, search.excess(begin)
    if excess > NEGLIGIBLE:
        candidate = search.exhaust(begin, order, excess) if exact else search.descend(begin, seed)
        if search.excess(candidate) < excess - NEGLIGIBLE:
            found, excess = candidate, search.excess(candidate)
    steps = tuple(int(step) % angles for step in found)
    return Rotations(steps, 1.0 - excess / angles, exact or excess <= NEGLIGIBLE)


class _Search:
    """Rotations of demand float64 [jobs, angles], in fractions of the capacity; job j has choices[j] delays."""

    def __init__(self, demand: Floats, choices: Sequence[int]) -> None:
        self._demand, self._choices = demand, choices
        # Row s of delayed[j] is job j delayed by s samples: a view, not a copy.
        angles = demand.shape[1]
        self._delayed = [
            np.lib.stride_tricks.sliding_window_view(np.concatenate([row, row]), angles)[angles:0:-1] for row in demand
        ]

    def excess(self, steps: NDArray[np.int64]) -> float:
        """Sum over samples of what is above the capacity."""
        angles = self._demand.shape[1]
        total = np.sum([own[step % angles] for own, step in zip(self._delayed, steps, strict=True)], axis=0)
        return float(np.maximum(total - 1.0, 0.0).sum())

    def exhaust(self, begin: NDArray[np.int64], order: Sequence[int], excess: float) -> NDArray[np.int64]:
        """The best of all delays, with the first job of `order` where it is."""
        self._best, self._least = begin.copy(), excess
        self._extend(begin.copy(), order, 1, self._at(order[0], int(begin[order[0]])))
        return self._best

    def _extend(self, steps: NDArray[np.int64], order: Sequence[int], depth: int, total: Floats) -> None:
        # Demand only adds up, so what exceeds already is a lower bound for all that follows.
        if depth == len(order) or float(np.maximum(total - 1.0, 0.0).sum()) >= self._least - NEGLIGIBLE:
            return
        job = order[depth]
        if depth == len(order) - 1:
            step, excess = self._best_step(job, total, int(steps[job]))
            if excess < self._least - NEGLIGIBLE:
                steps[job] = step
                self._best, self._least = steps.copy(), excess
            return
        for step in range(self._choices[job]):
            steps[job] = step
            self._extend(steps, order, depth + 1, total + self._at(job, step))
            if self._least <= NEGLIGIBLE:
                return

    def descend(self, begin: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """The best that coordinate descent finds from `begin` and from random delays."""
        random = np.random.default_rng(seed)
        best, least = begin, self.excess(begin)
        for restart in range(RESTARTS):
            steps = begin.copy() if restart == 0 else random.integers(0, self._choices)
            excess = self._settle(steps)
            if excess < least - NEGLIGIBLE:
                best, least = steps, excess
            if least <= NEGLIGIBLE:
                break
        return best

    def _settle(self, steps: NDArray[np.int64]) -> float:
        total = np.sum([self._at(job, int(step)) for job, step in enumerate(steps)], axis=0)
        excess = float(np.maximum(total - 1.0, 0.0).sum())
        for _ in range(MAX_SWEEPS):
            before = excess
            for job in range(len(steps)):
                others = total - self._at(job, int(steps[job]))
                steps[job], excess = self._best_step(job, others, int(steps[job]))
                total = others + self._at(job, int(steps[job]))
            if excess >= before - NEGLIGIBLE:
                break
        return excess

    def _best_step(self, job: int, others: Floats, now: int) -> tuple[int, float]:
        """The delay of one job that is best beside the others, and the excess; `now` unless another one is better."""
        each = np.maximum(others + self._delayed[job][: self._choices[job]] - 1.0, 0.0).sum(axis=1)
        stay = float(np.maximum(others + self._at(job, now) - 1.0, 0.0).sum())
        step = int(each.argmin())
        return (step, float(each[step])) if each[step] < stay - NEGLIGIBLE else (now, stay)

    def _at(self, job: int, step: int) -> Floats:
        row: Floats = self._delayed[job][step % self._demand.shape[1]]
        return row
