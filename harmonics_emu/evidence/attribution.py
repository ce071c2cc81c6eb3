"""Why iterations took longer than alone: how much of the excess came from whom, on which link.

The excess of an iteration over the job's isolated iteration has three parts that are measured and add up to it:

- compute: its compute and the wait for slower ranks, less the isolated compute
- gate: what the gate held it back
- network: its communication without the gate, less the isolated communication

The network's part is divided by asking the fluid model, for each moment in which the job communicated, what those that
communicated at that moment leave each other under the plan in force. The pace that the job loses there is lost on the
link that holds it back, to those who send there, in proportion to what they send. What it would lose with nobody else
there (a worse path than alone, a cap, a slower or broken link) is its own. If all these losses come to more than the
network's part, they are scaled down to it; if to less, the rest is unexplained, as is all of a part below zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harmonics_emu.errors import UsageError
from harmonics_emu.evidence.paces import Paces
from harmonics_emu.evidence.recorded_run import RecordedRun
from harmonics_emu.evidence.segments import covers, edges_of, union
from harmonics_emu.results.schema import JobResult

LEAST_EXCESS = 1e-3
"""Part of the isolated iteration up to which an excess is rounding."""
MOST_MOMENTS = 200_000
"""Moments that are asked about for one job; a run with more is looked at in every n-th iteration."""

Cause = tuple[str, str]
"""Who (a job, 'background') and on which link; OWN in place of who."""
OWN = ""


@dataclass(frozen=True)
class Excess:
    """One iteration that took longer than alone, all in seconds.

    excess_s = compute_s + gate_s + the sum of lost_s + unexplained_s. lost_s: by who sent on which link; by ('', link)
    what the job would have lost alone, where link is '' if no link held it back.
    """

    job: str
    iteration: int
    start_s: float
    iteration_s: float
    excess_s: float
    compute_s: float
    gate_s: float
    lost_s: Mapping[Cause, float]
    unexplained_s: float


@dataclass(frozen=True)
class JobExplanation:
    """One job: its measured iterations (after warm-up), and those of them that took longer than alone.

    looked_at: iterations that were looked at; slow: those with an excess. means over all that were looked at, 0 where
    an iteration had no excess: what an average iteration lost to what.
    """

    job: str
    isolated_s: float
    mean_s: float
    looked_at: int
    slow: tuple[Excess, ...]

    def mean(self, what: str) -> float:
        """Mean of 'excess_s', 'compute_s', 'gate_s' or 'unexplained_s'."""
        return float(sum(getattr(excess, what) for excess in self.slow) / max(1, self.looked_at))

    def mean_lost_s(self) -> dict[Cause, float]:
        """Mean of what was lost to each cause, the largest first."""
        sums: dict[Cause, float] = {}
        for excess in self.slow:
            for cause, lost_s in excess.lost_s.items():
                sums[cause] = sums.get(cause, 0.0) + lost_s
        means = {cause: lost_s / max(1, self.looked_at) for cause, lost_s in sums.items()}
        return dict(sorted(means.items(), key=lambda item: -item[1]))


def explain(recorded: RecordedRun, jobs: Iterable[str] | None = None) -> tuple[JobExplanation, ...]:
    """Explain the slow iterations of some jobs, of all by default. UsageError for a job that can't be explained."""
    known = [job.name for job in recorded.jobs]
    wanted = list(known if jobs is None else jobs)
    for name in wanted:
        if name not in known:
            raise UsageError(f"the run has no job {name!r}; it has {', '.join(known)}")
    paces = Paces(recorded)
    windows = {name: union(iterations.windows) for name, iterations in recorded.iterations.items()}
    explained = []
    for name in wanted:
        reason = _why_not(recorded, name)
        if reason is None:
            explained.append(_explain_job(recorded, name, paces, windows))
        elif jobs is not None:
            raise UsageError(f"job {name} can't be explained: {reason}")
    return tuple(explained)


def _why_not(recorded: RecordedRun, name: str) -> str | None:
    result = recorded.result(name)
    if name not in recorded.iterations:
        return "it has no whole iteration on record"
    if result.isolated_iteration_s is None or result.isolated_communication_s is None:
        return "its time alone is not known"
    if not np.isfinite(recorded.iterations[name].times.compute_s).all():
        return "its program does not report its compute"
    return None


def _explain_job(recorded: RecordedRun, name: str, paces: Paces, windows: Mapping[str, np.ndarray]) -> JobExplanation:
    result, iterations = recorded.result(name), recorded.iterations[name]
    job = next(job for job in recorded.jobs if job.name == name)
    isolated_s, isolated_communication_s = _isolated(result)
    times = iterations.times
    places = np.flatnonzero(times.number >= job.warmup)
    edges, active, names = _moments(iterations.windows, windows, _neighbours(name, paces), paces)
    step = max(1, -(-len(edges) // MOST_MOMENTS))
    slow = []
    for place in places[::step]:
        excess_s = float(times.iteration_s[place]) - isolated_s
        if excess_s <= LEAST_EXCESS * isolated_s:
            continue
        computed_s = float(times.compute_s[place] + times.straggler_s[place])
        gate_s = float(times.gate_s[place])
        network_s = float(times.communication_s[place]) - gate_s - isolated_communication_s
        lost_s = _lost(name, iterations.windows[place], edges, active, names, paces) if network_s > 0 else {}
        total_s = sum(lost_s.values())
        if total_s > network_s:
            lost_s = {cause: value * network_s / total_s for cause, value in lost_s.items()}
        slow.append(
            Excess(
                job=name,
                iteration=int(times.number[place]),
                start_s=float(iterations.start_s[place]),
                iteration_s=float(times.iteration_s[place]),
                excess_s=excess_s,
                compute_s=computed_s - (isolated_s - isolated_communication_s),
                gate_s=gate_s,
                lost_s=lost_s,
                unexplained_s=network_s - sum(lost_s.values()),
            )
        )
    looked_at = places[::step]
    mean_s = float(times.iteration_s[looked_at].mean()) if len(looked_at) else 0.0
    return JobExplanation(name, isolated_s, mean_s, len(looked_at), tuple(slow))


def _isolated(result: JobResult) -> tuple[float, float]:
    assert result.isolated_iteration_s is not None
    assert result.isolated_communication_s is not None
    return result.isolated_iteration_s, result.isolated_communication_s


def _neighbours(name: str, paces: Paces) -> frozenset[str]:
    """The jobs that share a link with a job, or with one that does, and so on: only they can slow it down."""
    if name not in paces.senders:
        return frozenset()
    links = {job: paces.links_of(job) for job in paces.senders}
    found, waiting = {name}, [name]
    while waiting:
        reached = links[waiting.pop()]
        near = [job for job in links if job not in found and not reached.isdisjoint(links[job])]
        found.update(near)
        waiting.extend(near)
    return frozenset(found)


def _moments(
    own: np.ndarray, windows: Mapping[str, np.ndarray], neighbours: frozenset[str], paces: Paces
) -> tuple[np.ndarray, np.ndarray, Sequence[str]]:
    """The edges at which anything changes, and (jobs, segments) who communicates between them."""
    names = [job for job in windows if job in neighbours]
    changes = np.array([(at_s, at_s) for at_s in paces.changes_s() if at_s > 0]).reshape(-1, 2)
    edges = edges_of([own, changes, *(windows[job] for job in names)])
    active = np.array([covers(windows[job], edges) for job in names]).reshape(len(names), max(0, len(edges) - 1))
    return edges, active, names


def _lost(
    name: str, window: np.ndarray, edges: np.ndarray, active: np.ndarray, names: Sequence[str], paces: Paces
) -> dict[Cause, float]:
    """Seconds that a job loses in a window, by cause."""
    lost: dict[Cause, float] = {}
    first, last = np.searchsorted(edges, window)
    for place in range(int(first), int(last)):
        length_s = float(edges[place + 1] - edges[place])
        sending = [other for other, sends in zip(names, active[:, place], strict=True) if sends]
        held = paces.at(float(edges[place]), [*sending, name]).get(name)
        if held is None:
            continue
        link = held.link or ""
        own = 1 - held.own
        if own > 1e-9:
            lost[OWN, link] = lost.get((OWN, link), 0.0) + own * length_s
        to_others = max(0.0, held.own - held.pace)
        if to_others > 1e-9:
            for other, part in held.others.items():
                lost[other, link] = lost.get((other, link), 0.0) + part * to_others * length_s
    return lost
