"""Jobs that are at work on the same direction of a link at the same time: seconds, and bytes sent meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harmonics_emu.evidence.segments import Floats, Intervals, amounts, covers, edges_of


@dataclass(frozen=True)
class Use:
    """A job on one direction of a link: when it is at work there (disjoint, in order), and what it sent when.

    The i-th of the parts that it sent: size[i] bytes, spread from start_s[i] to end_s[i].
    """

    busy: Intervals
    start_s: Floats
    end_s: Floats
    size: Floats


@dataclass(frozen=True)
class LinkContention:
    """One direction of a link. contended_s: while two jobs or more were at work; contended_bytes: sent meanwhile.

    pairs_s[a][b]: seconds in which jobs a and b were at work together; pairs_bytes[a][b]: bytes of a in these.
    """

    link: str
    jobs: tuple[str, ...]
    busy_s: tuple[float, ...]
    contended_s: float
    contended_bytes: int
    pairs_s: Floats
    pairs_bytes: Floats


@dataclass(frozen=True)
class ContentionMatrix:
    """All links together. seconds[a][b]: while a and b were at work on one link at least; bytes[a][b]: what a sent
    meanwhile, on the link where that is most (a byte crosses several). The diagonals are 0."""

    jobs: tuple[str, ...]
    seconds: Floats
    bytes: Floats


def contention_on(link: str, uses: Mapping[str, Use]) -> LinkContention:
    """Contention on one direction of a link, of the jobs that use it."""
    jobs = tuple(uses)
    edges = edges_of(use.busy for use in uses.values())
    lengths = np.diff(edges)
    active = np.array([covers(use.busy, edges) for use in uses.values()]).reshape(len(jobs), len(lengths))
    sent = np.array([amounts(use.start_s, use.end_s, use.size, edges) for use in uses.values()])
    sent = sent.reshape(active.shape)
    several = active.sum(axis=0) >= 2
    off_diagonal = ~np.eye(len(jobs), dtype=bool)
    return LinkContention(
        link=link,
        jobs=jobs,
        busy_s=tuple((active @ lengths).tolist()),
        contended_s=float(lengths[several].sum()),
        contended_bytes=round(float(sent[:, several].sum())),
        pairs_s=(active * lengths) @ active.T * off_diagonal,
        pairs_bytes=(active * sent) @ active.T * off_diagonal,
    )


def contention_matrix(jobs: Sequence[str], links: Mapping[str, Mapping[str, Use]]) -> ContentionMatrix:
    """All links together. links: each direction of a link to the jobs' uses of it."""
    place = {job: number for number, job in enumerate(jobs)}
    edges = edges_of(use.busy for uses in links.values() for use in uses.values())
    together = np.zeros((len(jobs), len(jobs), max(0, len(edges) - 1)), np.bool_)
    sent = np.zeros((len(jobs), len(jobs)))
    for link, uses in links.items():
        active = {place[job]: covers(use.busy, edges) for job, use in uses.items()}
        for a, when in active.items():
            for b, also in active.items():
                if a != b:
                    together[a, b] |= when & also
        numbers = [place[job] for job in uses]
        here = np.ix_(numbers, numbers)
        sent[here] = np.maximum(sent[here], contention_on(link, uses).pairs_bytes)
    return ContentionMatrix(tuple(jobs), together @ np.diff(edges), sent)
