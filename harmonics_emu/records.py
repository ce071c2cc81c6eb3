"""What an engine hands over when a run ends: measurements as arrays and plain rows, before any statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.spans import ITERATION

__all__ = ["ITERATION", "LINK_SAMPLE", "Decision", "JobOutcome", "LinkBytes", "Placing", "Records"]

LINK_SAMPLE = np.dtype(
    [
        ("time_s", np.float64),
        ("bytes", np.int64),
        ("drops", np.int64),
        ("backlog_bytes", np.int64),
        ("delay_s", np.float64),
    ]
)
"""A link's counters at time_s: bytes and drops since the run began, what waits in its queue and how long that takes."""


@dataclass(frozen=True)
class LinkBytes:
    """Byte counters of all directed links, read together and often: bytes[i][j] on links[j] from the run's beginning
    until time_s[i]."""

    links: tuple[str, ...]
    time_s: NDArray[np.float64]
    bytes: NDArray[np.int64]


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended: status 'done', 'failed', or 'killed'; `error` is one line, None when done.

    start_s is its submission and end_s its end, seconds after time zero. peak_ranks_up_s: when all its ranks stood.
    """

    name: str
    status: str
    start_s: float
    end_s: float
    error: str | None = None


@dataclass(frozen=True)
class Decision:
    """One decision of a policy: what was known, decided and predicted, and how long it took to decide.

    time_s: of the snapshot; in_force_s: when the plan was in force, None where that is the same moment. why: what
    brought the decision about. known: each job's figures at the snapshot, by name, and the links that were down.
    predicted, measured: seconds of an iteration by job, of the fluid model and of the run, from this plan to the next.
    predicted_fair: the model's with no plan at all, where a guard compares with that.
    """

    time_s: float
    policy: str
    solve_s: float
    critical_path_s: float
    plan: dict[str, Any]
    fallback: bool = False
    in_force_s: float | None = None
    why: str = ""
    known: dict[str, Any] = field(default_factory=dict)
    predicted: dict[str, float] = field(default_factory=dict)
    predicted_fair: dict[str, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Placing:
    """A policy's choice of where movable jobs run, made before the run. moved_from: where those it moved were, by rank.

    `isolated` figures of a moved job stay those of the hosts it was on, so that all policies are held to the same ones.
    """

    decision: Decision
    moved_from: dict[str, tuple[str, ...]]


@dataclass
class Records:
    """All that one run measured. `iterations` and `links` map a job or directed link to its rows in time order.

    simulated engines record one row an iteration with rank 0, since their ranks move together. fallbacks: decisions
    that brought no plan, beside those whose plan was a fallback of its policy. link_bytes: None where an engine does
    not read counters that often.
    """

    engine: str
    policy: str
    seed: int
    iterations: dict[str, NDArray[Any]] = field(default_factory=dict)
    outcomes: dict[str, JobOutcome] = field(default_factory=dict)
    links: dict[str, NDArray[Any]] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    link_bytes: LinkBytes | None = None
    gates_failed_open: int = 0
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each rank, for jobs that waited for GPUs and were placed as they got them."""
    fallbacks: int = 0
