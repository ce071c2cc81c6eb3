"""Output of nccl-tests (all_reduce_perf and others): what latency and bandwidth a collective has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workloads.traces.source import Skipped, TraceError, lines
from workloads.traces.tables import BadRow, number

MAX_ROWS = 10_000
MIN_TIME_US, MAX_TIME_US = 1e-3, 1e12
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s")
_TEST = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|broadcast|alltoall)_perf\b")
BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
}
"""Bus over algorithm bandwidth for n ranks (nccl-tests, PERFORMANCE.md)."""


@dataclass(frozen=True)
class Calibration:
    """time = latency_s + size / algorithm_Bps, fitted to (size in bytes, seconds). bus_Bps: what each link carries."""

    ranks: int
    latency_s: float
    algorithm_Bps: float
    bus_Bps: float
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    worst_error: float
    """Largest difference of fit and measurement, over the measurement."""


def read_nccl_tests(path: Path, skipped: Skipped) -> Calibration:
    """The out-of-place columns of the output's table. TraceError if it has fewer than two sizes.

    Relative errors are made least, so that small sizes, which tell the latency, count as much as large ones.
    """
    sizes: list[int] = []
    seconds: list[float] = []
    factors: list[float] = []
    ranks, test = set(), "all_reduce"
    for row, line in enumerate(lines(path, skipped), start=1):
        if found := _RANK.match(line):
            ranks.add(int(found[1]))
        elif found := _TEST.search(line):
            test = found[1]
        words = line.split()
        if len(words) < 8 or not words[0].isdecimal() or not words[1].isdecimal():
            continue
        try:
            size, time_us, algorithm, bus = _row(words)
        except BadRow as why:
            skipped.add(str(why), row)
            continue
        sizes.append(size)
        seconds.append(time_us * 1e-6)
        factors.append(bus / algorithm if algorithm else 0.0)
        if len(sizes) > MAX_ROWS:
            raise TraceError(path, f"has more than {MAX_ROWS:,} rows")
    if len(set(sizes)) < 2:
        raise TraceError(path, "holds no table of nccl-tests with two sizes or more")
    count = len(ranks) or _ranks_of(factors[-1])
    if count < 2:
        raise TraceError(path, "is of a single rank, which sends nothing")
    latency, per_byte, error = _fit(np.array(sizes, np.float64), np.array(seconds))
    if per_byte <= 0:
        raise TraceError(path, "larger sizes do not take longer: there is no bandwidth in it")
    algorithm = 1 / per_byte
    return Calibration(
        ranks=count,
        latency_s=latency,
        algorithm_Bps=algorithm,
        bus_Bps=algorithm * BUS_FACTORS[test](count),
        sizes=tuple(sizes),
        seconds=tuple(seconds),
        worst_error=error,
    )


def _row(words: list[str]) -> tuple[int, float, float, float]:
    """Size, time, algorithm and bus bandwidth: the numbers before the first count of wrong values."""
    size = int(words[0]) if len(words[0]) <= 15 else 0
    if size == 0:
        raise BadRow("size is zero or too large")
    first = next((i for i, word in enumerate(words[2:], 2) if word.lstrip("-").replace(".", "", 1).isdecimal()), 0)
    values = words[first + 1 :] if first and "." not in words[first] else words[first:]
    if first == 0 or len(values) < 3:
        raise BadRow("no time")
    time_us, algorithm, bus = (number(word, "time or bandwidth") for word in values[:3])
    if not MIN_TIME_US <= time_us <= MAX_TIME_US:
        raise BadRow("time is none that can be")
    return size, time_us, algorithm, bus


def _ranks_of(factor: float) -> int:
    """The number of ranks of an all-reduce whose bus bandwidth is `factor` of its algorithm bandwidth."""
    return max(2, round(2 / (2 - factor))) if factor < 2 else 2


def _fit(sizes: np.ndarray, seconds: np.ndarray) -> tuple[float, float, float]:
    """Latency, at least zero, seconds a byte, and the worst relative error, by weighted least squares."""
    columns = np.stack([1 / seconds, sizes / seconds], axis=1)
    (latency, per_byte), *_ = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)
    if latency < 0:
        latency, per_byte = 0.0, float((sizes / seconds).sum() / ((sizes / seconds) ** 2).sum())
    error = np.abs(latency + per_byte * sizes - seconds) / seconds
    return float(latency), float(per_byte), float(error.max())
