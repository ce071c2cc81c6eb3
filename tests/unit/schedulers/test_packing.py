"""The linear program that divides weights among groups."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.schedulers.exact.packing import best_packing


def test_three_jobs_that_meet_in_pairs_get_half_of_each() -> None:
    use = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], np.float64)
    assert best_packing(np.ones(3), use) == pytest.approx([0.5, 0.5, 0.5])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_no_vertex_is_better(number: int) -> None:
    draw = np.random.default_rng(number)
    resources, items = int(draw.integers(1, 4)), int(draw.integers(1, 6))
    gain, use = draw.random(items) + 0.01, draw.choice([0.25, 0.5, 1.0], (resources, items))
    packed = best_packing(gain, use)
    assert (packed >= 0).all()
    assert (use @ packed <= 1 + 1e-12).all()
    # Some best packing lies where as many limits as there are items are met.
    limits = np.vstack([use, -np.eye(items)])
    most = np.concatenate([np.ones(resources), np.zeros(items)])
    best = 0.0
    for met in combinations(range(len(limits)), items):
        if abs(np.linalg.det(limits[list(met)])) > 1e-9:
            point = np.linalg.solve(limits[list(met)], most[list(met)])
            if (limits @ point <= most + 1e-9).all():
                best = max(best, float(gain @ point))
    assert gain @ packed == pytest.approx(best)
