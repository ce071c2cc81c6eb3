"""Priority compression: the oracle, the paper's toy case, and the segments against every way to cut an order."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.schedulers.priority_compression import (
    Edges,
    Weights,
    best_segments,
    compress,
    cut_weight,
    random_topological_order,
)

NAME = "priority_compression.json"
FIXTURE = Path(__file__).parent / "fixtures" / NAME
ORACLES = Path(__file__).parents[4] / "shared" / "oracles"


def graph(jobs: int, edges: Sequence[tuple[int, int, float]]) -> tuple[Edges, Weights]:
    weights = np.zeros((jobs, jobs))
    joined = np.zeros((jobs, jobs), bool)
    for higher, lower, weight in edges:
        weights[higher, lower] = weight
        joined[higher, lower] = True
    return joined, weights


def assert_valid(edges: Edges, levels: Sequence[int], most: int) -> None:
    assert all(levels[higher] <= levels[lower] for higher, lower in np.argwhere(edges))
    assert set(levels) == set(range(min(most, len(edges))))


def assert_near_the_oracle(path: Path) -> None:
    """At least 0.97 of the best cut on average over the cases and ten seeds, and every assignment valid."""
    parts = []
    for case in json.loads(path.read_text())["cases"]:
        edges, weights = graph(case["jobs_in_falling_priority"], case["edges"])
        for seed in range(10):
            levels = compress(edges, weights, case["levels"], seed)
            assert_valid(edges, levels, case["levels"])
            reached = cut_weight(weights, levels)
            assert reached <= case["best_cut_weight"] + 1e-6, case["name"]
            parts.append(reached / case["best_cut_weight"] if case["best_cut_weight"] else 1.0)
    assert fmean(parts) >= 0.97


def test_near_the_best_cut() -> None:
    assert_near_the_oracle(FIXTURE)


@pytest.mark.skipif(not ORACLES.is_dir(), reason="the folder shared/oracles does not lie beside the project")
def test_near_the_best_cut_on_the_whole_oracle() -> None:
    assert_near_the_oracle(ORACLES / NAME)


@pytest.mark.parametrize("seed", range(5))
def test_paper_toy_case(seed: int) -> None:
    """Jobs 1 and 2 share one link, 3 and 4 another: two levels are best used as {1, 3} and {2, 4}."""
    edges, weights = graph(4, [(0, 1, 4.0), (2, 3, 2.0)])
    assert compress(edges, weights, 2, seed) == (0, 1, 0, 1)
    assert best_segments(weights, 2) == ([0, 1], 4.0), "the order of priority alone has no such cut"


@pytest.mark.parametrize(("jobs", "levels", "expected"), [(0, 7, ()), (1, 7, (0,)), (3, 1, (0, 0, 0))])
def test_nothing_to_cut(jobs: int, levels: int, expected: tuple[int, ...]) -> None:
    assert compress(*graph(jobs, [(u, v, 1.0) for u, v in combinations(range(jobs), 2)]), levels, 0) == expected


def test_as_many_levels_as_jobs_keep_every_priority() -> None:
    edges, weights = graph(5, [(u, v, 1.0) for u, v in combinations(range(5), 2)])
    assert compress(edges, weights, 7, 0) == (0, 1, 2, 3, 4)


def test_less_than_one_level_is_refused() -> None:
    with pytest.raises(ValueError, match="levels is 0 but must be at least 1"):
        compress(*graph(2, []), 0, 0)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Edges, Weights]:
    jobs = draw(st.integers(1, 8))
    every = list(combinations(range(jobs), 2))
    joined = draw(st.lists(st.booleans(), min_size=len(every), max_size=len(every)))
    worth = draw(st.lists(st.integers(0, 9), min_size=jobs, max_size=jobs))
    return graph(jobs, [(u, v, worth[u]) for (u, v), shares in zip(every, joined, strict=True) if shares])


@given(graphs(), st.integers(1, 8), st.integers(0, 99))
def test_assignments_are_valid_and_repeatable(drawn: tuple[Edges, Weights], levels: int, seed: int) -> None:
    edges, weights = drawn
    assigned = compress(edges, weights, levels, seed)
    assert_valid(edges, assigned, levels)
    assert compress(edges, weights, levels, seed) == assigned


@given(graphs(), st.integers(1, 8), st.integers(0, 99))
def test_segments_are_the_best_of_all(drawn: tuple[Edges, Weights], levels: int, seed: int) -> None:
    edges, weights = drawn
    order = random_topological_order(edges, random.Random(seed))
    assert sorted(order) == list(range(len(edges)))
    in_order = weights[np.ix_(order, order)]
    segments = min(levels, len(edges))

    def weight_of(starts: Sequence[int]) -> float:
        return cut_weight(in_order, np.searchsorted(starts, np.arange(len(edges)), side="right").tolist())

    starts, weight = best_segments(in_order, segments)
    assert len(starts) == segments
    assert weight == pytest.approx(weight_of(starts))
    every = [(0, *rest) for rest in combinations(range(1, len(edges)), segments - 1)]
    assert weight == pytest.approx(max(weight_of(one) for one in every))
