"""Start times of a plan as gates in the jobs' pages: which iteration is released when, by CLOCK_MONOTONIC.

A plan's start times are for the collectives that had not begun at its snapshot, in order. A plan that comes late loses
nothing by that: gates are named by iteration. A page has room for so many gates, which are refilled as the job goes on.

Gates hold on a lease (workloads.job_page): the supervisor renews it while it lives and keeps the plan. Without that
for the lease's time, as after the supervisor was killed or stopped, gates open and jobs run on, ungated.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workloads.job_page import GATES, JobPage

SETTLED_S = 0.02
"""A gate that opens so soon is left as it was: some ranks may have read it, and would leave without the others."""
SHORTEST_LEASE_S = 1.0
EPOCHS_HELD = 2
REFILL_BELOW = GATES // 2
OPEN_NS, NEVER_NS = 1, 2**62
"""Releases long past, and as far ahead as a page can say."""


@dataclass(frozen=True)
class Releases:
    """When the collectives of iteration `first` and of those after it may begin, ns."""

    first: int = 0
    times_ns: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The first iteration that is not gated."""
        return self.first + len(self.times_ns)

    def of(self, iteration: int) -> int | None:
        """None if the iteration is not gated."""
        return self.times_ns[iteration - self.first] if self.first <= iteration < self.end else None


def planned(first: int, starts_s: Sequence[float], zero_ns: int) -> Releases:
    """What a plan says: starts_s count from time zero, the first one is for iteration `first`."""
    return Releases(first, tuple(min(zero_ns + round(start * 1e9), NEVER_NS) for start in starts_s))


def merged(old: Releases, new: Releases, now_ns: int) -> Releases:
    """The new releases, but those old ones that are about to come stay.

    Iterations before the new ones that an old gate is about to open stay gated too.
    """
    settled_ns = now_ns + int(SETTLED_S * 1e9)
    kept = {
        iteration: release_ns
        for iteration, release_ns in enumerate(old.times_ns, old.first)
        if now_ns < release_ns <= settled_ns
    }
    if not kept:
        return new
    if not new.times_ns:
        new = Releases(max(kept) + 1)
    first, end = min(new.first, *kept), max(new.end, max(kept) + 1)
    times = []
    for iteration in range(first, end):
        release_ns = kept.get(iteration, new.of(iteration))
        times.append(OPEN_NS if release_ns is None else release_ns)
    return Releases(first, tuple(times))


def window(releases: Releases, lowest: int, next_collective: int) -> Releases:
    """What of the releases goes into a page now: from the iteration of the rank that is furthest behind.

    Iterations that some rank has begun are open to all.
    """
    if releases.end <= next_collective:
        return Releases(lowest)
    times = []
    for iteration in range(lowest, min(releases.end, lowest + GATES)):
        release_ns = releases.of(iteration)
        times.append(OPEN_NS if iteration < next_collective or release_ns is None else release_ns)
    return Releases(lowest, tuple(times))


@dataclass
class _Kept:
    page: JobPage
    releases: Releases
    since_ns: int
    filled_to: int = 0


class GateKeeper:
    """Writes the gates of all jobs of a run, and renews their leases."""

    def __init__(self, epoch_s: float | None) -> None:
        self._lease_ns = int(1e9 * max(SHORTEST_LEASE_S, EPOCHS_HELD * (epoch_s or 0.0)))
        self._jobs: dict[str, _Kept] = {}

    def plan(self, job: str, page: JobPage, first: int, starts_s: Sequence[float], zero_ns: int) -> None:
        """Put a plan's start times in force; none opens all gates but those that are about to open."""
        old = self._jobs[job].releases if job in self._jobs else Releases()
        if not starts_s and not old.times_ns:
            return
        now_ns = time.monotonic_ns()
        kept = _Kept(page, merged(old, planned(first, starts_s, zero_ns), now_ns), now_ns)
        self._jobs[job] = kept
        page.hold_gates_until(now_ns + self._lease_ns)
        self._fill(kept)

    def keep(self) -> None:
        """Renew the leases, and refill pages in which few gates are left. To be called often."""
        held_until_ns = time.monotonic_ns() + self._lease_ns
        for kept in self._jobs.values():
            kept.page.hold_gates_until(held_until_ns)
            if kept.filled_to < kept.releases.end and kept.filled_to - kept.page.next_collective() < REFILL_BELOW:
                self._fill(kept)

    def held_until_ns(self, job: str) -> int:
        """When the gate of the job's next collective opens, 0 if it has none."""
        kept = self._jobs.get(job)
        return 0 if kept is None else kept.releases.of(kept.page.next_collective()) or 0

    def late_s(self, job: str) -> float:
        """How long after its release the job's last collective began, seconds; 0 if it was not gated or not late.

        Releases that were past when they were planned hold nobody, and are none to be late for.
        """
        kept = self._jobs.get(job)
        if kept is None:
            return 0.0
        last = max((kept.page.progress(rank) for rank in range(kept.page.ranks)), key=lambda rank: rank.begun)
        release_ns = kept.releases.of(last.begun - 1)
        if release_ns is None or release_ns <= kept.since_ns:
            return 0.0
        return max(0, last.begun_ns - release_ns) / 1e9

    @staticmethod
    def _fill(kept: _Kept) -> None:
        lowest = min(kept.page.progress(rank).begun for rank in range(kept.page.ranks))
        written = window(kept.releases, lowest, kept.page.next_collective())
        kept.page.set_gates(written.first, written.times_ns)
        kept.filled_to = written.end


def gates_opened(pages: Iterable[JobPage]) -> int:
    """Gates that opened because their lease had run out, of all ranks."""
    return sum(page.progress(rank).gates_opened for page in pages for rank in range(page.ranks))
