"""How much a job's priority is worth beside another's: the two-job comparison of Crux (SIGCOMM 2024, section 4.2).

Two jobs alone share one link under strict priority. Which of them goes first changes how much time each gets on the
link within the same window; the ratio of what they gain by going first is the correction factor of a priority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

SMALLEST_FACTOR, LARGEST_FACTOR = 1 / 8, 8.0
"""The comparison divides by what the reference gains, which may be nothing; so factors are kept in bounds."""
WINDOW_ITERATIONS = 3
"""Length of the comparison in iterations of the longer job. In a much longer one the two would fall into step, after
which the order makes no difference; in a shorter one it is mostly the first collision that counts."""
WINDOW_LIMIT = 1000
"""Most iterations of the shorter job that a comparison takes, so that its time is bounded."""
ROUNDING = 1e-9
"""Fraction of a time that is rounding: a job with no more than that of its link time left has sent all."""


@dataclass(frozen=True, slots=True)
class LinkUser:
    """A job that computes and sends over one link, again and again. Times are seconds of one iteration.

    compute_s: compute. sends_after_s: when in an iteration it can begin to send; before compute_s where communication
    overlaps with compute. link_s: time that it needs on the link. The next iteration begins once both are done.
    """

    compute_s: float
    sends_after_s: float
    link_s: float

    @property
    def iteration_s(self) -> float:
        """Length of an iteration with the link to itself."""
        return max(self.compute_s, self.sends_after_s + self.link_s)


class Use(NamedTuple):
    """Seconds that a job had the link within a window, and seconds that it computed within it."""

    link_s: float
    compute_s: float


def correction_factor(job: LinkUser, reference: LinkUser, window_s: float | None = None) -> float:
    """k of `job`, where the reference's is 1: with equal intensity, above 1 means that it pays to put `job` first.

    Both jobs begin the window ready to send, the worst case. window_s: by default WINDOW_ITERATIONS of the longer job.
    Both must need time on the link. A pair that never collides, so that the order makes no difference, gives 1.
    """
    if window_s is None:
        longer, shorter = sorted((job.iteration_s, reference.iteration_s), reverse=True)
        window_s = min(WINDOW_ITERATIONS * longer, WINDOW_LIMIT * shorter)
    job_first, reference_second = share_link(job, reference, window_s)
    reference_first, job_second = share_link(reference, job, window_s)
    gain = job_first.link_s - job_second.link_s
    reference_gain = reference_first.link_s - reference_second.link_s
    # Sums of times differ by rounding where the times themselves do not.
    negligible = ROUNDING * window_s
    if gain <= negligible and reference_gain <= negligible:
        return 1.0
    if reference_gain <= negligible:
        return LARGEST_FACTOR
    return min(max(gain / reference_gain, SMALLEST_FACTOR), LARGEST_FACTOR)


def share_link(
    first: LinkUser, second: LinkUser, window_s: float, ready_s: tuple[float, float] = (0.0, 0.0)
) -> tuple[Use, Use]:
    """What two jobs do on one link from time 0 to window_s while `first` preempts `second`.

    ready_s: when each can first send, having computed until then.
    """
    runs = (_Run(first, ready_s[0], window_s), _Run(second, ready_s[1], window_s))
    now = 0.0
    while now < window_s:
        sender = next((run for run in runs if run.ready_s <= now), None)
        until = min([window_s, *(run.ready_s for run in runs if run.ready_s > now)])
        if sender is not None:
            until = sender.send(now, until)
        now = until
    return Use(runs[0].link_s, runs[0].computed_s), Use(runs[1].link_s, runs[1].computed_s)


class _Run:
    """One job in a comparison. ready_s: when it can send, or could first send what it has left."""

    def __init__(self, user: LinkUser, ready_s: float, window_s: float) -> None:
        self._user, self._window_s = user, window_s
        self.link_s = self.computed_s = 0.0
        self._begin(ready_s - user.sends_after_s)

    def _begin(self, at_s: float) -> None:
        self.ready_s = at_s + self._user.sends_after_s
        self._computed_at_s = at_s + self._user.compute_s
        self._left_s = self._user.link_s
        self.computed_s += max(0.0, min(self._computed_at_s, self._window_s) - max(at_s, 0.0))

    def send(self, now: float, until: float) -> float:
        """Send from `now` until all is sent, but not past `until`; returns when it stopped."""
        sent_at_s = now + self._left_s
        if sent_at_s > until + ROUNDING * self._user.link_s:
            self._left_s -= until - now
            self.link_s += until - now
            return until
        self.link_s += self._left_s
        self._begin(max(sent_at_s, self._computed_at_s))
        return sent_at_s
