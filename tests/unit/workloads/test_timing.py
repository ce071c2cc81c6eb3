"""Absolute sleeps, what is recorded of them, compute jitter, and the pace of the backward pass."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from workloads.pacing import bucket_ready_fractions, compute_times
from workloads.timer import Timer

MS = 1_000_000


def test_sleep_ends_after_its_time_and_is_accounted_for(tmp_path: Path) -> None:
    timer = Timer()
    when_ns = time.monotonic_ns() + 5 * MS
    lateness_ns = timer.sleep_until(when_ns)
    assert time.monotonic_ns() >= when_ns
    assert lateness_ns >= 0
    timer.save(tmp_path / "timer.json")
    saved = json.loads((tmp_path / "timer.json").read_text())
    assert saved["sleeps"] == 1
    assert saved["median_s"] == saved["max_s"] == pytest.approx(lateness_ns / 1e9)


def test_a_time_that_has_passed_is_not_slept_for() -> None:
    timer = Timer()
    assert timer.sleep_until(time.monotonic_ns() - 5 * MS) >= 5 * MS
    assert timer.lateness()["sleeps"] == 0


def test_jitter_has_the_mean_and_spread_asked_for() -> None:
    draws = compute_times(0.2, 0.1, 200_000, seed=1, job_index=0, rank=0)
    assert draws.mean() == pytest.approx(0.2, rel=0.005)
    assert draws.std() / draws.mean() == pytest.approx(0.1, rel=0.02)
    assert draws.min() > 0


def test_jitter_depends_on_seed_job_and_rank_only() -> None:
    def draw(seed: int, job: int, rank: int) -> list[float]:
        times: list[float] = compute_times(0.1, 0.2, 5, seed=seed, job_index=job, rank=rank).tolist()
        return times

    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({tuple(draw(*key)) for key in [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4), (3, 2, 1)]}) == 5


def test_no_jitter_is_exactly_the_compute_time() -> None:
    np.testing.assert_array_equal(compute_times(0.075, 0, 3, seed=1, job_index=0, rank=0), [0.075] * 3)


def test_buckets_become_ready_evenly_over_the_overlap() -> None:
    assert bucket_ready_fractions(3, overlap=0.5) == pytest.approx((0.5, 0.75, 1.0))
    assert bucket_ready_fractions(3, overlap=0) == (1, 1, 1)
    assert bucket_ready_fractions(1, overlap=0.5) == (1,)
    assert bucket_ready_fractions(0, overlap=0.5) == ()
