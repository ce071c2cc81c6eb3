"""cassini: start times that interleave jobs on the links they share, after CASSINI (Rajasekaran et al., NSDI 2024).

Each job is an arc on a circle; on each link the circles of its jobs are rotated until their demands fit; the affinity
graph makes one time-shift a job of the rotations on all links. Paths, levels and rates stay as under fair sharing.
Where jobs may be moved, the placement under which they fit their links best is taken first (cassini_placement).
docs/schedulers/cassini.md tells what of this the paper's abstract says, what is reconstructed, and what is our choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harmonics_emu.schedulers.affinity_graph import LinkVertex, break_loops, trees, unique_shifts
from harmonics_emu.schedulers.cassini_placement import choose_placement
from harmonics_emu.schedulers.interface import JobPlan, PlacementChoice, Plan, Snapshot
from harmonics_emu.schedulers.job_rhythm import Rhythm
from harmonics_emu.schedulers.link_fit import LinkFit, fit_link, meetings
from harmonics_emu.schedulers.options import check_options, epoch_option
from harmonics_emu.schedulers.unified_circle import Circle, unify

COMPATIBLE = 0.98
"""Jobs on a link are compatible from this score on: what does not fit is at most 2 % of what the link carries."""
DRIFT = 0.05
"""A running job is re-timed when it is off its phase by more than this fraction of its period."""
MAX_STARTS = 1000
EPOCHS_AHEAD = 2
"""With an epoch, start times reach this many epochs ahead, so that a late re-plan finds jobs still held."""
ROUNDING = 1e-6


@dataclass(frozen=True)
class TreePlan:
    """Jobs that shared links join, with the delay of each one's next collective.

    circle: of all these jobs. periods_s: the pace at which they are held from then on; None where they are not.
    """

    fits: tuple[LinkFit, ...]
    circle: Circle
    delays_s: Mapping[str, float]
    periods_s: Mapping[str, float] | None

    @property
    def compatible(self) -> bool:
        """Whether these jobs can be kept apart on all links of the tree."""
        return self.circle.exact and all(fit.found.score >= COMPATIBLE for fit in self.fits)


def plan_cassini(snapshot: Snapshot) -> Plan:
    """Start times for all jobs that share a link which they overfill; the others are not gated.

    The only option is `epoch`, the engine's interval between plans. UsageError for any other.
    """
    check_options("cassini", snapshot.options)
    epoch_s = epoch_option(snapshot.options)
    jobs, vertices = meetings(snapshot)
    kept, dropped = break_loops(vertices)
    planned = [_plan_tree(tree, jobs, snapshot) for tree in trees(kept)]
    plans = {
        name: JobPlan(starts_s=_starts(jobs[name], delay_s, tree.periods_s, epoch_s))
        for tree in planned
        for name, delay_s in tree.delays_s.items()
    }
    return Plan(policy="cassini", jobs=plans, facts=_facts(planned, dropped))


def _plan_tree(tree: Sequence[LinkVertex], every: Mapping[str, Rhythm], snapshot: Snapshot) -> TreePlan:
    jobs = {name: every[name] for vertex in tree for name in vertex.jobs}
    circle = unify([job.period_s for job in jobs.values()])
    repeats = dict(zip(jobs, circle.repeats.tolist(), strict=True))
    periods_s = {name: circle.perimeter_s / count for name, count in repeats.items()}
    fits = [fit_link(vertex, jobs, repeats, circle.perimeter_s, snapshot) for vertex in tree]
    shifts_s = unique_shifts(tree, [fit.shifts_s for fit in fits], periods_s)
    delays_s = _least_delays(jobs, shifts_s, periods_s)
    held = circle.exact and all(fit.found.score >= COMPATIBLE for fit in fits)
    # Jobs that fit stay apart for the rest of their run, others meet again within a lap: at any time if there is none.
    ahead_s = max(job.period_s * _iterations_left(job) for job in jobs.values())
    if not held:
        ahead_s = min(ahead_s, circle.perimeter_s if circle.exact else 0.0)
    if 2 * sum(fit.gain for fit in fits) * ahead_s <= sum(delays_s.values()):
        # What does not fit makes two jobs wait at least. If delays cost more than that, nobody is delayed.
        delays_s = dict.fromkeys(jobs, 0.0)
        held = circle.exact and all(fit.present >= COMPATIBLE for fit in fits)
    return TreePlan(tuple(fits), circle, delays_s, periods_s if held else None)


def _least_delays(
    jobs: Mapping[str, Rhythm], shifts_s: Mapping[str, float], periods_s: Mapping[str, float]
) -> dict[str, float]:
    """How long each job's next collective must wait to be in phase, with the least waiting in all.

    Only relative shifts count, so the circle is turned to where one of the jobs need not wait. A running job that is
    off by DRIFT at most is left alone.
    """
    ready = np.array([job.ready_s for job in jobs.values()])
    shift = np.array([shifts_s[name] for name in jobs])
    period = np.array([periods_s[name] for name in jobs])
    running = np.array([job.state.iterations_done > 0 for job in jobs.values()])
    tolerated = np.where(running, DRIFT, ROUNDING) * period
    wait = ((ready - shift)[:, None] + shift - ready) % period
    wait[(wait <= tolerated) | (wait >= period - tolerated)] = 0.0
    return dict(zip(jobs, wait[wait.sum(axis=1).argmin()].tolist(), strict=True))


def _starts(
    job: Rhythm, delay_s: float, periods_s: Mapping[str, float] | None, epoch_s: float | None
) -> tuple[float, ...]:
    """Release times: all that come before the next plan, or where jobs don't fit anyway, only one that delays.

    When a job will be ready is a guess while it sends beside others; a gate that is to delay nobody could still do so.
    """
    first = job.ready_s + delay_s
    if periods_s is None:
        return (first,) if delay_s > 0 else ()
    period_s = periods_s[job.state.job.name]
    count = min(_iterations_left(job), MAX_STARTS)
    if epoch_s is not None:
        count = min(count, math.ceil(EPOCHS_AHEAD * epoch_s / period_s) + 1)
    return tuple(first + number * period_s for number in range(count))


def _iterations_left(job: Rhythm) -> int:
    return max(job.state.job.iterations - job.state.iterations_done, 1)


def _facts(planned: Sequence[TreePlan], dropped: Sequence[LinkVertex]) -> dict[str, Any]:
    """What goes on record. score: the mean over link vertices, 1 where no link is contended."""
    scores = [fit.found.score for tree in planned for fit in tree.fits]
    return {
        "score": float(np.mean(scores)) if scores else 1.0,
        "compatible": not dropped and all(tree.compatible for tree in planned),
        "compatible_from": COMPATIBLE,
        "links": [
            {
                "links": list(fit.vertex.links),
                "jobs": list(fit.vertex.jobs),
                "score": fit.found.score,
                "score_without_delays": fit.present,
                "exact": fit.found.exact,
            }
            for tree in planned
            for fit in tree.fits
        ],
        "dropped_links": [{"links": list(vertex.links), "jobs": list(vertex.jobs)} for vertex in dropped],
        "circles": [
            {
                "jobs": list(tree.delays_s),
                "perimeter_s": tree.circle.perimeter_s,
                "stretch": tree.circle.stretch,
                "held": tree.periods_s is not None,
                "delays_s": list(tree.delays_s.values()),
            }
            for tree in planned
        ],
    }


@dataclass(frozen=True)
class Cassini:
    """The policy: where jobs go that may move, and when jobs start their collectives."""

    name = "cassini"
    summary = "start times that interleave jobs on shared links (CASSINI, NSDI 2024)"

    def plan(self, snapshot: Snapshot) -> Plan:
        return plan_cassini(snapshot)

    def choose_placement(self, candidates: Sequence[Snapshot]) -> PlacementChoice:
        return choose_placement(candidates)


policy = Cassini()
