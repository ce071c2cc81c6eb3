"""What is shown of a run at one moment: seconds, bytes, bits per second; None where nothing is known."""

from __future__ import annotations

from typing import Literal

import msgspec

from harmonics_emu.results.schema import Verdict

State = Literal["starting", "running", "finished", "failed", "silent"]
"""Of a run. silent: it has said nothing for a while and has not ended; it may have been killed."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """One job. done, total: iterations. level: its priority band, None where all are alike.

    counted: iterations that the sums are of, those which all ranks have finished. recent_s: how long the latest of them
    took, oldest first.
    """

    name: str
    state: str
    done: int
    total: int
    level: int | None = None
    counted: int = 0
    iteration_sum_s: float = 0.0
    compute_sum_s: float = 0.0
    gate_sum_s: float = 0.0
    isolated_s: float | None = None
    slowdown: float | None = None
    recent_s: tuple[float, ...] = ()


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """One directed link. use: part of its rate that it carries now (of a finished run: carried on average).

    recent: the latest of these parts, oldest first.
    """

    name: str
    rate_bps: int
    use: float
    recent: tuple[float, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands. time_s: since time zero. jobs_left_out, links_left_out: how many are not listed."""

    scenario: str
    policy: str
    engine: str
    seed: int
    state: State
    phase: str
    time_s: float
    silent_s: float | None = None
    jobs: tuple[JobView, ...] = ()
    links: tuple[LinkView, ...] = ()
    jobs_left_out: int = 0
    links_left_out: int = 0
    verdict: Verdict | None = None
    reasons: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    S: float | None = None
    makespan_s: float | None = None
