"""Circles, scores and rotations: the oracle, periods that don't divide each other, and what must always hold."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.schedulers import unified_circle
from harmonics_emu.schedulers.unified_circle import Arc, angles_for, best_rotations, sample, score, unify

FIXTURE = Path(__file__).parent / "fixtures" / "circle_compatibility.json"
ORACLE = Path(__file__).parents[4] / "shared" / "oracles" / "circle_compatibility.json"


def demands(case: dict[str, Any], angles: int = 72) -> tuple[np.ndarray, list[int]]:
    """Demand [jobs, angles] of an oracle's case, and how often each job repeats.

    In seconds, as policies have it: there the ends of arcs that meet a sample are rounded.
    """
    circle = unify([job["period_ms"] / 1000 for job in case["jobs"]])
    assert circle.perimeter_s == pytest.approx(case["unified_circle_ms"] / 1000)
    assert circle.stretch == pytest.approx(1)
    repeats = circle.repeats.tolist()
    rows = [
        sample(
            [Arc(phase["start_ms"] / 1000, phase["length_ms"] / 1000, phase["gbps"]) for phase in job["phases"]],
            count,
            circle.perimeter_s,
            angles,
        )
        for job, count in zip(case["jobs"], repeats, strict=True)
    ]
    return np.array(rows), repeats


def assert_oracle_reached(path: Path) -> None:
    for case in json.loads(path.read_text())["cases"]:
        demand, repeats = demands(case)
        found = best_rotations(demand, repeats, case["capacity_gbps"], seed=0)
        assert found.exact
        assert found.score == pytest.approx(case["best_score"], abs=1e-3), case["name"]
        assert score(demand, found.steps, case["capacity_gbps"]) == pytest.approx(found.score)


def assert_heuristic_close(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unified_circle, "MAX_COMBINATIONS", 0)
    reached = []
    for case in json.loads(path.read_text())["cases"]:
        found = best_rotations(*demands(case), case["capacity_gbps"], seed=0)
        assert found.score <= case["best_score"] + 1e-3
        reached.append(found.score / case["best_score"])
    assert np.mean(reached) >= 0.98


def test_exact_search_reaches_the_oracle() -> None:
    assert_oracle_reached(FIXTURE)


def test_heuristic_is_close_to_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_heuristic_close(FIXTURE, monkeypatch)


@pytest.mark.skipif(not ORACLE.is_file(), reason="the folder shared/oracles does not lie beside the project")
def test_whole_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_oracle_reached(ORACLE)
    assert_heuristic_close(ORACLE, monkeypatch)


def test_heuristic_separates_jobs_that_just_fit() -> None:
    """Eight jobs that each fill the link for an eighth of the time."""
    row = sample([Arc(0.0, 1.0, 1.0)], 1, 8.0, 72)
    found = best_rotations(np.tile(row, (8, 1)), [1] * 8, 1.0, seed=0)
    assert found.score == pytest.approx(1)
    assert len(set(found.steps)) == 8


def test_nobody_moves_where_all_fits() -> None:
    row = sample([Arc(0.0, 1.0, 1.0)], 1, 4.0, 72)
    assert best_rotations(np.array([row, row]), [1, 1], 1.0, seed=0, start=[5, 40]).steps == (5, 40)


@pytest.mark.parametrize(
    ("periods", "perimeter", "repeats"),
    [
        ([0.040, 0.060], 0.120, [3, 2]),
        ([0.9997, 1.0013], 1.0013, [1, 1]),
        ([0.141, 0.141, 0.141], 0.141, [1, 1, 1]),
        ([1.0], 1.0, [1]),
    ],
)
def test_unified_circle(periods: list[float], perimeter: float, repeats: list[int]) -> None:
    circle = unify(periods)
    assert circle.perimeter_s == pytest.approx(perimeter)
    assert circle.repeats.tolist() == repeats
    assert circle.exact


@pytest.mark.parametrize("periods", [[], [0.0, 1.0], [-1.0], [math.inf], [math.nan]])
def test_periods_that_cannot_be(periods: list[float]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        unify(periods)


@given(st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_circles_stay_bounded(periods: list[float]) -> None:
    circle = unify(periods)
    assert max(periods) * (1 - 1e-6) <= circle.perimeter_s <= unified_circle.MAX_LAPS * max(periods) * (1 + 1e-6)
    own = circle.perimeter_s / circle.repeats
    assert np.all(own >= np.array(periods) * (1 - 1e-6))
    assert np.all(own <= np.array(periods) * circle.stretch * (1 + 1e-6))


@st.composite
def links(draw: st.DrawFn) -> tuple[np.ndarray, list[int], int]:
    """Demand of up to four jobs on a link of capacity 1, their repeats, and a number of samples to rotate by."""
    repeats = draw(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4))
    rows = []
    for count in repeats:
        length, height = draw(st.floats(0.01, 1)), draw(st.floats(0.1, 1))
        rows.append(sample([Arc(draw(st.floats(0, 1)), length / count, height)], count, 1.0, angles_for(repeats)))
    return np.array(rows), repeats, draw(st.integers(0, 71))


@given(links())
@settings(max_examples=40, deadline=None)
def test_rotating_all_jobs_keeps_the_score(link: tuple[np.ndarray, list[int], int]) -> None:
    demand, repeats, step = link
    found = best_rotations(demand, repeats, 1.0, seed=0)
    assert found.score <= 1
    assert found.score >= score(demand, [0] * len(repeats), 1.0) - 1e-9
    turned = [own + step for own in found.steps]
    assert score(demand, turned, 1.0) == pytest.approx(found.score)
