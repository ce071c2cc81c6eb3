"""The figures of jobs that rules sort them by, and the orders that follow without a search."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from harmonics_emu.schedulers.harmonics.messages import JobView, View
from harmonics_emu.simulate.kernel.sharing import Floats, Ints

Order = tuple[int, ...]
"""Positions of jobs, the first to be served first."""


@dataclass(frozen=True)
class Figures:
    """What rules look at, all [jobs]. send_s: what a collective takes if the job is alone. weight: of each second."""

    number: Ints
    compute_s: Floats
    send_s: Floats
    weight: Floats
    iterations: Ints
    ranks: Ints


RULES: Mapping[str, Callable[[Figures], Floats]] = {
    "weight-of-wait": lambda of: -of.weight / of.send_s,
    "weight": lambda of: -of.weight,
    "remaining": lambda of: of.iterations * (of.compute_s + of.send_s),
    "short": lambda of: of.send_s,
    "intensity": lambda of: -of.compute_s * of.ranks / of.send_s,
    "duty": lambda of: of.send_s / (of.compute_s + of.send_s),
}
"""What jobs are sorted by: the least is served first. Each is best somewhere.

A collective makes others wait as long as it takes. So 'weight-of-wait' has the least weight wait (Smith's rule for one
machine), 'short' the least time; 'weight' serves those first whose every second counts most; 'remaining' those that
will soon be gone; 'intensity' is the work for each second of link of Crux; 'duty' those that leave links free for long.
"""


def figures_of(view: View) -> Figures:
    """Of the jobs of a view."""
    return Figures(
        number=np.array([job.number for job in view.jobs], np.int64),
        compute_s=np.array([sum(job.compute_s) / len(job.compute_s) for job in view.jobs], np.float64),
        send_s=np.array([alone_s(job, view.capacity) for job in view.jobs], np.float64),
        weight=np.array([job.weight for job in view.jobs], np.float64),
        iterations=np.array([job.iterations for job in view.jobs], np.int64),
        ranks=np.array([job.ranks for job in view.jobs], np.int64),
    )


def alone_s(job: JobView, capacity: Mapping[int, float]) -> float:
    """Seconds that a collective takes if nobody shares the job's links."""
    pace = min((capacity[link] / use for link, use in zip(job.links, job.usage, strict=True)), default=math.inf)
    rate = min(job.cap, pace)
    return sum(job.bucket_bytes) * job.scale / rate if rate > 0 else math.inf


def rule_orders(figures: Figures) -> list[Order]:
    """In the order of RULES."""
    return [rule_order(figures, name) for name in RULES]


def rule_order(figures: Figures, rule: str) -> Order:
    """Equal jobs come in the order of their numbers, everywhere."""
    return tuple(np.lexsort((figures.number, RULES[rule](figures))).tolist())
