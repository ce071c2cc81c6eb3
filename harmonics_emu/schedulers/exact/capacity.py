"""What it costs that a link carries no more than it can: a bound for any number of jobs, and good where it is overfull.

A relaxation to mean busy times (Queyranne, Mathematical Programming 1993; Goemans, SODA 1997, for release times). Let
M_j be the mean of the times at which job j's bytes cross the link, P_j their seconds over the whole run. For any set A
of jobs, the sum of P_j M_j over A is at least f(A): what comes out if the link serves A's work as it comes, had every
job of A come to it as early as it can, alone. And job j ends no earlier than M_j plus the mean of what its iterations
still have before them once their bytes are sent, the mean over its bytes. f is supermodular, as what a link can have
served by any time is the rank function of a matroid; so the least weighted sum of ends under all these inequalities is
that of one order, by falling weight over P_j.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harmonics_emu.schedulers.exact.serial import Chain
from harmonics_emu.simulate.kernel.sharing import Floats


def capacity_bound(chains: Sequence[Chain]) -> float:
    """No schedule's weighted sum of times from start to end is below it. 0 without chains."""
    order = sorted(chains, key=lambda chain: -chain.weight / (sum(chain.link_s) * len(chain.compute_s)))
    comes: list[tuple[Floats, Floats]] = []
    total = before = 0.0
    for chain in order:
        comes.append(_earliest(chain))
        busy = _busy(np.concatenate([at for at, _ in comes]), np.concatenate([size for _, size in comes]))
        work = sum(chain.link_s) * len(chain.compute_s)
        total += chain.weight * ((busy - before) / work + _after_sending(chain) - chain.start_s)
        before = busy
    return total


def _earliest(chain: Chain) -> tuple[Floats, Floats]:
    """When each bucket is ready at the earliest, and the link seconds that it needs; float64[iterations * buckets]."""
    begins = chain.start_s + chain.length_s.cumsum() - chain.length_s
    at = begins[:, None] + chain.compute_s[:, None] * np.array(chain.ready)
    return at.ravel(), np.tile(np.array(chain.link_s), len(begins))


def _busy(at: Floats, size: Floats) -> float:
    """Seconds of service times the time at which they are given, summed: whoever comes first is served first."""
    order = np.argsort(at, kind="stable")
    at, size = at[order], size[order]
    sent = size.cumsum()
    # The end of each one's service: the latest, over those that came before it, of its coming plus all work since.
    ends = np.maximum.accumulate(at - (sent - size)) + sent
    return float((size * (ends - size / 2)).sum())


def _after_sending(chain: Chain) -> float:
    """Seconds from a job's mean busy time to its end, at the least: iterations to come, and half of its own sending."""
    later = chain.length_s[::-1].cumsum()[::-1] - chain.length_s
    return float(later.mean()) + sum(chain.link_s) / 2
