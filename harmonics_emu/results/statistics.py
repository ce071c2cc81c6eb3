"""Where an iteration's time went: compute, waiting for slower ranks, communication.

For each rank of an iteration:

- iteration: end_s - start_s
- straggler: the longest compute of all ranks minus its own, so what it waits for a slower rank's compute; that ranks
  begin an iteration a little apart, because the network let them go so, is not part of it
- communication: the rest, iteration - compute - straggler. Every wait that a scheduler imposes falls into it, wherever
  the scheduler puts the wait; the gate is given on its own as well, as a part of it.

Each is then averaged over the ranks, which gives one value an iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.results.schema import Statistics

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class IterationTimes:
    """A job's whole iterations in order, one value each (seconds), averaged over its ranks.

    iteration_s = compute_s + straggler_s + communication_s, and gate_s is a part of communication_s. All but
    iteration_s and gate_s are NaN where a program does not report its compute.
    """

    number: NDArray[np.int32]
    iteration_s: Floats
    compute_s: Floats
    gate_s: Floats
    straggler_s: Floats
    communication_s: Floats

    def after(self, warmup: int) -> IterationTimes:
        """Without the iterations numbered below `warmup`."""
        kept = self.number >= warmup
        return IterationTimes(
            self.number[kept],
            self.iteration_s[kept],
            self.compute_s[kept],
            self.gate_s[kept],
            self.straggler_s[kept],
            self.communication_s[kept],
        )


def iteration_times(rows: NDArray[Any]) -> IterationTimes:
    """Split each whole iteration of a job's rows (dtype records.ITERATION, in any order).

    An iteration is whole if every rank that appears in `rows` ended it; a job that died leaves others, which are left
    out. ValueError if a rank has an iteration twice.
    """
    rows = ended(rows)
    rows = rows[np.lexsort((rows["rank"], rows["iteration"]))]
    twice = (np.diff(rows["iteration"]) == 0) & (np.diff(rows["rank"]) == 0)
    if twice.any():
        row = rows[int(np.argmax(twice))]
        raise ValueError(f"rank {row['rank']} has iteration {row['iteration']} more than once")
    ranks = max(1, np.unique(rows["rank"]).size)
    numbers, counts = np.unique(rows["iteration"], return_counts=True)
    whole = counts == ranks
    table = rows[np.repeat(whole, counts)].reshape(-1, ranks)
    iteration = (table["end_s"] - table["start_s"]).mean(axis=1)
    compute = table["compute_s"].mean(axis=1)
    straggler = (table["compute_s"].max(axis=1, keepdims=True) - table["compute_s"]).mean(axis=1)
    return IterationTimes(
        number=numbers[whole],
        iteration_s=iteration,
        compute_s=compute,
        gate_s=table["gate_s"].mean(axis=1),
        straggler_s=straggler,
        communication_s=iteration - compute - straggler,
    )


def ended(rows: NDArray[Any]) -> NDArray[Any]:
    """The rows that hold both ends of an iteration."""
    kept: NDArray[Any] = rows[np.isfinite(rows["start_s"]) & np.isfinite(rows["end_s"])]
    return kept


def summarize(values: Floats) -> Statistics | None:
    """Statistics of one value an iteration; None where there is none, or where one was not measured."""
    if values.size == 0 or not np.isfinite(values).all():
        return None
    return Statistics(
        mean=float(values.mean()),
        median=float(np.median(values)),
        p99=float(np.percentile(values, 99)),
        std=float(values.std()),
    )


def steady(values: Floats) -> float | None:
    """Median of the last half, the longer one of an odd number: what an iteration takes once things have settled."""
    return float(np.median(values[values.size // 2 :])) if values.size else None
