"""Which of several placements CASSINI takes: the one whose jobs fit best on the links that they share.

Each candidate's affinity graph is built, and each of its links scored by itself. Candidates whose graph has a loop are
dropped, since no shifts need then keep what was found for single links, unless all have one. The score of a candidate
is the mean over its links; the best one is taken, of equals the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from harmonics_emu.schedulers.affinity_graph import break_loops
from harmonics_emu.schedulers.interface import PlacementChoice, Snapshot
from harmonics_emu.schedulers.link_fit import fit_link, meetings
from harmonics_emu.schedulers.unified_circle import unify

EQUAL_SCORES = 1e-6


@dataclass(frozen=True)
class PlacementScore:
    """score: mean over the links that jobs overfill together, 1 where there is none. loops: links that close one."""

    score: float
    links: int
    loops: int


def choose_placement(candidates: Sequence[Snapshot]) -> PlacementChoice:
    """The best of at least one candidate, with every candidate's score on record."""
    scores = [score_placement(candidate) for candidate in candidates]
    eligible = [index for index, found in enumerate(scores) if not found.loops] or list(range(len(scores)))
    best = eligible[0]
    for index in eligible:
        if scores[index].score > scores[best].score + EQUAL_SCORES:
            best = index
    return PlacementChoice(best, {"scores": [asdict(found) for found in scores]})


def score_placement(snapshot: Snapshot) -> PlacementScore:
    """How well the jobs fit. A link's circle is that of its own jobs; links with the same jobs count as one."""
    jobs, vertices = meetings(snapshot)
    scores = []
    for vertex in vertices:
        circle = unify([jobs[name].period_s for name in vertex.jobs])
        repeats = dict(zip(vertex.jobs, circle.repeats.tolist(), strict=True))
        scores.append(fit_link(vertex, jobs, repeats, circle.perimeter_s, snapshot).found.score)
    return PlacementScore(fmean(scores) if scores else 1.0, len(vertices), len(break_loops(vertices)[1]))
