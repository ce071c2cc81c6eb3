"""One job as a cluster's log tells of it."""

from __future__ import annotations

from typing import NamedTuple


class LoggedJob(NamedTuple):
    """gpus: at least 1. submit_s: on the log's own clock. duration_s: from start to end.

    iterations, iteration_s, network_s: where the log tells them, the seconds of one iteration and of its network stage.
    model: what the log calls it.
    """

    id: str
    gpus: int
    submit_s: float
    duration_s: float
    model: str | None = None
    iterations: int | None = None
    iteration_s: float | None = None
    network_s: float | None = None
