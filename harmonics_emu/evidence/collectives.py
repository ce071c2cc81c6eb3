"""Collectives as bursts of a job's packets: when, how many bytes, between whom, and around which ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence.segments import Floats, Intervals, union

GAPS_S = (0.002, 0.003, 0.005, 0.008, 0.012, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5, 0.8, 1.2)
"""Pauses that are tried as the least one between two collectives."""
DEFAULT_GAP_S = 0.02
FEWEST_TO_JUDGE = 4
SLACK = 0.03
"""Pauses come into question if the collectives' sizes then scatter by at most this more than with the best one."""
MOST_SCATTER = 0.5
"""Bursts that scatter more than this (standard deviation over mean) with every pause are no iterations' collectives."""
STRONG_EDGE = 0.2
"""Part of a job's busiest pair that a pair must carry to count as an edge of its ring."""


@dataclass(frozen=True)
class Activity:
    """A job's payload as it was sent: the i-th part goes from hosts[sender[i]] to hosts[receiver[i]].

    start_s and end_s in seconds, size in bytes; all arrays of one length. hosts: names.
    """

    hosts: tuple[str, ...]
    sender: NDArray[np.int64]
    receiver: NDArray[np.int64]
    start_s: Floats
    end_s: Floats
    size: Floats

    @property
    def intervals(self) -> Intervals:
        return np.column_stack([self.start_s, self.end_s])


@dataclass(frozen=True)
class Collective:
    """One collective, or several that follow each other without a pause. ring: hosts in order, None if it is none."""

    start_s: float
    end_s: float
    bytes: int
    participants: tuple[str, ...]
    ring: tuple[str, ...] | None


def spans_of(collectives: Sequence[Collective], start_s: Floats, end_s: Floats) -> Intervals:
    """From the first to the last of some parts of a job's payload in each collective, in order.

    Parts are those seen in one place, whose times may differ a little from where the collectives were: one belongs to
    the collective that is nearest to it.
    """
    if not len(start_s):
        return np.zeros((0, 2))
    between = [(one.end_s + other.start_s) / 2 for one, other in pairwise(collectives)]
    order = np.argsort(start_s, kind="stable")
    start_s, end_s = start_s[order], end_s[order]
    number = np.searchsorted(between, start_s)
    first = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]]))
    return np.column_stack([start_s[first], np.maximum.reduceat(end_s, first)])


def choose_gap_s(activity: Activity) -> float:
    """The pause that tells one collective of a job from the next.

    Iterations of training send the same bytes each, so only pauses that leave bursts about as alike as any pause does
    come into question. Of these the one is taken that best divides short pauses from long ones: those just below and
    just above it differ most. DEFAULT_GAP_S if no pause makes enough bursts that are alike.
    """
    spans = union(activity.intervals)
    pauses = spans[1:, 0] - spans[:-1, 1]
    scatter: dict[float, float] = {}
    divides: dict[float, float] = {}
    for gap_s in GAPS_S:
        sizes = _sizes(activity, union(spans, gap_s))[1:-1]  # the capture may have cut the ends
        if len(sizes) >= FEWEST_TO_JUDGE:
            scatter[gap_s] = float(sizes.std() / sizes.mean())
            longer, shorter = pauses[pauses > gap_s], pauses[pauses <= gap_s]
            divides[gap_s] = float(longer.min()) / max(GAPS_S[0] / 2, float(shorter.max(initial=0.0)))
    least = min(scatter.values(), default=np.inf)
    if least > MOST_SCATTER:
        return DEFAULT_GAP_S
    return max((gap_s for gap_s, value in scatter.items() if value <= least + SLACK), key=divides.__getitem__)


def find_collectives(activity: Activity, gap_s: float) -> list[Collective]:
    """The job's collectives in order of time, told apart by pauses of more than `gap_s`."""
    spans = union(activity.intervals, gap_s)
    return _collectives(activity, np.searchsorted(spans[:, 0], activity.start_s, side="right"))


def collectives_between(activity: Activity, between_s: Floats) -> list[Collective]:
    """The job's collectives in order of time, told apart by moments at which none goes on, in order.

    A pause within a collective, in which one of its hosts has no processor to run on, does not divide it.
    """
    return _collectives(activity, np.searchsorted(between_s, activity.start_s, side="right"))


def _collectives(activity: Activity, number: NDArray[np.int64]) -> list[Collective]:
    """number: of each part of the activity, which collective it belongs to."""
    order = np.argsort(number, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else []
    found = []
    for part in parts:
        traffic = traffic_matrix(activity, part)
        taking_part = np.flatnonzero(traffic.sum(axis=0) + traffic.sum(axis=1))
        found.append(
            Collective(
                start_s=float(activity.start_s[part].min()),
                end_s=float(activity.end_s[part].max()),
                bytes=round(float(activity.size[part].sum())),
                participants=tuple(activity.hosts[host] for host in taking_part),
                ring=ring_order(traffic, activity.hosts),
            )
        )
    return found


def traffic_matrix(activity: Activity, part: NDArray[np.int64] | slice = slice(None)) -> Floats:
    """(hosts, hosts): bytes from each to each, over some of the activity."""
    matrix = np.zeros((len(activity.hosts), len(activity.hosts)))
    np.add.at(matrix, (activity.sender[part], activity.receiver[part]), activity.size[part])
    return matrix


def ring_order(traffic: Floats, hosts: Sequence[str]) -> tuple[str, ...] | None:
    """Hosts around the one ring that the busy pairs form, from the first in `hosts` on; None if they form none.

    Two hosts that send to each other are no ring.
    """
    if not traffic.size or traffic.max() <= 0:
        return None
    edges = traffic > STRONG_EDGE * traffic.max()
    members = np.flatnonzero(edges.any(axis=0) | edges.any(axis=1))
    if len(members) < 3 or (edges.sum(axis=0)[members] != 1).any() or (edges.sum(axis=1)[members] != 1).any():
        return None
    around = [int(members[0])]
    while (onward := int(np.argmax(edges[around[-1]]))) != around[0]:
        around.append(onward)
        if len(around) > len(members):
            return None
    return tuple(hosts[host] for host in around) if len(around) == len(members) else None


def _sizes(activity: Activity, spans: Intervals) -> Floats:
    number = np.searchsorted(spans[:, 0], activity.start_s, side="right") - 1
    return np.bincount(number, activity.size, minlength=len(spans)).astype(np.float64)
