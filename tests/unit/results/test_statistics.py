"""The split of an iteration's time, against sums done by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harmonics_emu.records import ITERATION
from harmonics_emu.results.statistics import iteration_times, steady, summarize
from tests.unit.results.samples import rows, two_ranks


def test_two_ranks_by_hand():
    times = iteration_times(two_ranks()).after(1)
    # Iteration 1: rank 0 computes until 5, rank 1 until 6, both end at 8. Iteration 2: both compute until 9.
    assert times.number.tolist() == [1, 2]
    assert times.iteration_s.tolist() == [4.0, 2.25]
    assert times.compute_s.tolist() == [1.5, 1.0]
    assert times.straggler_s.tolist() == [0.5, 0.0]
    assert times.communication_s.tolist() == [2.0, 1.25]
    assert times.gate_s.tolist() == [0.5, 0.0]


def test_a_wait_that_a_scheduler_imposes_is_communication():
    ungated = iteration_times(rows((0, 0, 0.0, 1.0, 0.0, 3.0), (1, 0, 0.0, 1.0, 0.0, 3.0)))
    gated = iteration_times(rows((0, 0, 0.0, 1.0, 4.0, 7.0), (1, 0, 0.0, 1.0, 4.0, 7.0)))
    assert gated.communication_s[0] - ungated.communication_s[0] == 4.0


def test_waiting_for_a_slower_rank_is_not_communication():
    even = iteration_times(rows((0, 0, 0.0, 1.0, 0.0, 3.0), (1, 0, 0.0, 1.0, 0.0, 3.0)))
    uneven = iteration_times(rows((0, 0, 0.0, 1.0, 0.0, 9.0), (1, 0, 0.0, 7.0, 0.0, 9.0)))
    assert uneven.communication_s[0] == even.communication_s[0] == 2.0
    assert uneven.straggler_s[0] == 3.0


def test_an_iteration_that_not_every_rank_ended_is_left_out():
    assert iteration_times(two_ranks()[:5]).number.tolist() == [0, 1]
    unfinished = two_ranks()
    unfinished["end_s"][5] = np.nan
    assert iteration_times(unfinished).number.tolist() == [0, 1]


def test_an_iteration_twice_is_refused():
    with pytest.raises(ValueError, match="rank 1 has iteration 2 more than once"):
        iteration_times(np.concatenate([two_ranks(), two_ranks()[5:]]))


def test_summaries():
    found = summarize(np.array([1.0, 2.0, 6.0, 3.0]))
    assert (found.mean, found.median, found.std) == (3.0, 2.5, 3.5**0.5)
    assert found.p99 == pytest.approx(3.0 + 0.97 * 3.0)
    assert summarize(np.array([])) is None
    assert summarize(np.array([1.0, np.nan])) is None
    assert steady(np.array([9.0, 9.0, 1.0, 3.0])) == 2.0
    assert steady(np.array([9.0, 1.0, 3.0])) == 2.0
    assert steady(np.array([])) is None


@st.composite
def iterations(draw):
    """Rows of a job in time order: any number of ranks and iterations, any skew."""
    ranks, count = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    drawn = draw(arrays(np.float64, (count * ranks, 4), elements=st.floats(0, 1e4)))
    table = np.zeros(count * ranks, ITERATION)
    table["iteration"], table["rank"] = np.divmod(np.arange(count * ranks), ranks)
    table["start_s"], table["compute_s"], table["gate_s"] = drawn[:, 0], drawn[:, 1], drawn[:, 2]
    table["end_s"] = drawn.sum(axis=1)
    return table


@given(iterations())
def test_parts_sum_to_the_iteration(table):
    times = iteration_times(table)
    total = times.compute_s + times.straggler_s + times.communication_s
    np.testing.assert_allclose(total, times.iteration_s, rtol=1e-12, atol=1e-9)
    assert (times.straggler_s >= 0).all()


@given(iterations(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table, random):
    order = list(range(table.size))
    random.shuffle(order)
    times, shuffled = iteration_times(table), iteration_times(table[order])
    for field in ("number", "iteration_s", "compute_s", "gate_s", "straggler_s", "communication_s"):
        assert getattr(times, field).tolist() == getattr(shuffled, field).tolist()


@given(iterations())
def test_one_slow_rank_changes_no_communication_if_all_wait_for_it(table):
    """Synchronous ranks (all begin and end together): communication is what follows the slowest rank's compute."""
    for number in np.unique(table["iteration"]):
        group = table["iteration"] == number
        table["start_s"][group] = table["start_s"][group].min()
        table["end_s"][group] = (table["start_s"] + table["compute_s"])[group].max() + 2.0
    np.testing.assert_allclose(iteration_times(table).communication_s, 2.0, rtol=1e-9)
