"""Comparisons: pairs by repeat, intervals, and where contention removed has no value."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.errors import UsageError
from harmonics_emu.records import JobOutcome
from harmonics_emu.results.build import build_result
from harmonics_emu.results.comparison import compare, interval95
from tests.unit.results import samples
from tests.unit.results.samples import FAITHFUL, fabric, job, records, steady_rows


def run(policy, communication_s, seed=0, fail=False, **changes):
    """One result of jobs that compute 1 s and communicate as given; alone, 1 s."""
    jobs = tuple(job(name, number, iterations=5) for number, name in enumerate(communication_s))
    table = {name: steady_rows(5, 1.0, seconds) for name, seconds in communication_s.items()}
    found = records(table, policy, seed, **changes)
    if fail:
        found.outcomes["a"] = JobOutcome("a", "failed", 0.0, 1.0, "rank 0 was killed")
    alone = {name: samples.isolated(5, 1.0, 1.0) for name in communication_s}
    return build_result(found, jobs, fabric(), "pair", alone, FAITHFUL)


def test_one_repeat_by_hand():
    fair, planned = run("fair", {"a": 3.0, "b": 1.0}), run("harmonics", {"a": 1.0, "b": 1.5})
    comparison = compare({"fair": [fair], "harmonics": [planned]}, bounds=[1.1])
    assert comparison.repeats == 1
    figures = comparison.policies["harmonics"]
    assert (figures.training_s.median, figures.training_s.ci95) == (11.25, None)
    against = comparison.against_fair["harmonics"]
    assert against.jobs["a"].training_reduction == pytest.approx(0.5)
    assert against.jobs["a"].communication_reduction == pytest.approx(2 / 3)
    assert against.jobs["b"].training_reduction == pytest.approx(-0.25)
    assert against.training_reduction == pytest.approx((0.5 - 0.25) / 2)
    assert against.communication_reduction == pytest.approx((2 / 3 - 0.5) / 2)
    assert against.worst_job_training_reduction == pytest.approx(-0.25)
    # S: fair (2 + 1)/2, harmonics (1 + 1.25)/2.
    assert against.contention_removed == pytest.approx((1.5 - 1.125) / 0.5)
    assert against.of_achievable == pytest.approx((1.5 - 1.125) / 0.4)
    assert comparison.jobs["a"].isolated.training_s == 10.0
    assert comparison.jobs["a"].policies["fair"].iteration_s == pytest.approx(4.0)
    assert "fair" not in comparison.against_fair


def test_values_are_paired_by_repeat():
    fair = [run("fair", {"a": seconds}, seed) for seed, seconds in enumerate((1.0, 3.0, 7.0))]
    half = [run("crux", {"a": seconds}, seed) for seed, seconds in enumerate((0.0, 1.0, 3.0))]
    against = compare({"fair": fair, "crux": half}).against_fair["crux"]
    assert against.training_reduction == pytest.approx(0.5)
    assert against.training_reduction_ci95 == pytest.approx((0.5, 0.5))


def test_contention_removed_is_not_clamped_and_has_no_value_without_contention():
    def removed(fair, policy):
        runs = {"fair": [run("fair", {"a": s}, i) for i, s in enumerate(fair)]}
        runs["x"] = [run("x", {"a": s}, i) for i, s in enumerate(policy)]
        return compare(runs).against_fair["x"].contention_removed

    assert removed([3.0], [5.0]) == pytest.approx(-1.0)
    assert removed([3.0], [0.5]) == pytest.approx(1.25)
    assert removed([1.02], [1.0]) is None
    # Slowdowns of 1.0, 1.1 and 1.4 can't be told from 1 with three repeats.
    assert removed([1.0, 1.2, 1.8], [1.0, 1.0, 1.0]) is None
    assert removed([1.19, 1.2, 1.21], [1.0, 1.0, 1.0]) == pytest.approx(1.0)


def test_a_run_in_which_a_job_failed_counts_as_failed_and_in_no_figure():
    fair = [run("fair", {"a": 3.0, "b": 3.0}, seed) for seed in range(2)]
    shaky = [run("x", {"a": 1.0, "b": 1.0}, 0), run("x", {"a": 0.1, "b": 0.1}, 1, fail=True)]
    comparison = compare({"fair": fair, "x": shaky})
    assert comparison.policies["x"].failed == 1
    assert comparison.policies["x"].makespan_s.median == 10.0
    assert comparison.against_fair["x"].training_reduction == pytest.approx(0.5)
    assert comparison.jobs["b"].policies["x"].communication_s == pytest.approx(1.0)
    # Fair's own contention is judged by all of its repeats, though only one pair is left.
    assert comparison.against_fair["x"].contention_removed == pytest.approx(1.0)
    every = compare({"fair": fair[:1], "x": [run("x", {"a": 1.0, "b": 1.0}, 0, fail=True)]})
    assert every.against_fair["x"].training_reduction is None
    assert every.against_fair["x"].jobs["b"].training_reduction is None


def test_a_job_without_communication_has_none_to_reduce():
    against = compare({"fair": [run("fair", {"a": 3.0, "b": 0.0})], "x": [run("x", {"a": 1.5, "b": 0.0})]})
    assert against.against_fair["x"].jobs["b"].communication_reduction is None
    assert against.against_fair["x"].communication_reduction == pytest.approx(0.5)


def test_without_fair_there_is_nothing_to_compare_with():
    assert compare({"crux": [run("crux", {"a": 1.0})]}).against_fair == {}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (run("x", {"a": 1.0}, 1), "seeds"),
        (run("x", {"b": 1.0}), "jobs"),
        (run("x", {"a": 1.0}, engine="simulate"), "engine"),
    ],
)
def test_runs_that_can_not_be_compared(other, said):
    with pytest.raises(UsageError, match=said):
        compare({"fair": [run("fair", {"a": 1.0})], "x": [other]})


def test_bounds_and_runs_must_fit():
    with pytest.raises(UsageError, match="2 lower bounds for 1 repeats"):
        compare({"fair": [run("fair", {"a": 1.0})]}, bounds=[1.0, 1.0])
    with pytest.raises(UsageError, match="no run was given"):
        compare({})


def test_intervals_by_hand():
    assert interval95([1.0]) is None
    assert interval95([1.0, 2.0, 3.0]) == pytest.approx((2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5))
    # Coverage of [x_k, x_(n+1-k)] for the median: n = 8, k = 1: 0.992; n = 9, k = 2: 0.961; n = 20, k = 6: 0.959.
    assert interval95(range(1, 7)) == (1, 6)
    assert interval95(range(1, 9)) == (1, 8)
    assert interval95(range(1, 10)) == (2, 8)
    assert interval95(range(1, 21)) == (6, 15)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_an_interval_holds_the_median(values):
    low, high = interval95(values)
    slack = 1e-9 * max(abs(value) for value in values)
    assert low - slack <= median(values) <= high + slack
