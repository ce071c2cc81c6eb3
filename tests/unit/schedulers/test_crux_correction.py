"""The two-job comparison: the paper's worked examples, and what holds for any pair."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.schedulers.priority_correction import (
    LARGEST_FACTOR,
    SMALLEST_FACTOR,
    LinkUser,
    correction_factor,
    share_link,
)


def test_paper_example_1_the_shorter_iteration_goes_first() -> None:
    """Equal intensity, 10 GPUs each, both begin with communication: 37.5 % against 41.7 % of the GPUs' time."""
    long, short = LinkUser(2.0, 2.0, 2.0), LinkUser(1.0, 1.0, 1.0)
    long_first, short_second = share_link(long, short, 12.0)
    assert (long_first.link_s, short_second.link_s) == (6.0, 3.0)
    assert (long_first.compute_s + short_second.compute_s) / 24 == pytest.approx(0.375)
    short_first, long_second = share_link(short, long, 12.0)
    assert (long_second.link_s, short_first.link_s) == (4.0, 6.0)
    assert (long_second.compute_s + short_first.compute_s) / 24 == pytest.approx(0.417, abs=5e-4)
    assert correction_factor(short, long) == pytest.approx(1.5)


def test_paper_example_2_overlap_decides() -> None:
    """Communication may begin after half the compute: the second job's GPUs idle for 7 s or, if it goes first, 6 s."""
    overlapped, late = LinkUser(4.0, 2.0, 1.0), LinkUser(2.0, 1.0, 3.0)
    window_s = 13.0
    _, late_second = share_link(overlapped, late, window_s, ready_s=(2.0, 1.0))
    late_first, _ = share_link(late, overlapped, window_s, ready_s=(1.0, 2.0))
    assert window_s - late_second.compute_s == pytest.approx(7.0)
    assert window_s - late_first.compute_s == pytest.approx(6.0)


def test_factor_stays_in_bounds_where_the_reference_gains_nothing() -> None:
    """The reference hides its communication behind a long compute in either order."""
    hidden, late = LinkUser(100.0, 1.0, 1.0), LinkUser(10.0, 10.0, 3.0)
    assert correction_factor(late, hidden) == LARGEST_FACTOR
    assert correction_factor(hidden, late) == SMALLEST_FACTOR


def test_jobs_that_never_wait_are_equal() -> None:
    """Both hide their communication behind compute, whoever goes first."""
    assert correction_factor(LinkUser(100.0, 1.0, 1.0), LinkUser(90.0, 1.0, 1.0)) == 1.0


def test_a_job_that_ends_as_the_other_begins_has_sent_all() -> None:
    """In tenths of seconds these meet to the bit only by luck: the first sends 2 of 6, the second 4 of the others."""
    first, second = share_link(LinkUser(0.4, 0.4, 0.2), LinkUser(0.3, 0.0, 0.2), 9.0)
    assert (first.link_s, second.link_s) == pytest.approx((3.0, 6.0))


seconds = st.floats(1e-6, 1e3)
users = st.builds(
    lambda compute, ahead, link: LinkUser(compute, compute * ahead, link), seconds, st.floats(0, 1), seconds
)


@given(users, users)
def test_factor_of_any_pair_is_bounded_and_link_time_is_shared(job: LinkUser, other: LinkUser) -> None:
    window_s = min(50.0 * job.iteration_s, 50.0 * other.iteration_s)
    first, second = share_link(job, other, window_s)
    assert first.link_s + second.link_s <= window_s * (1 + 1e-9)
    assert max(first.compute_s, second.compute_s) <= window_s * (1 + 1e-9)
    other_first, job_second = share_link(other, job, window_s)
    assert job_second.link_s <= first.link_s * (1 + 1e-9)
    assert second.link_s <= other_first.link_s * (1 + 1e-9)
    assert SMALLEST_FACTOR <= correction_factor(job, other) <= LARGEST_FACTOR


@given(users)
def test_equal_jobs_are_equal(job: LinkUser) -> None:
    assert correction_factor(job, job) == 1.0


def test_very_unequal_periods_take_bounded_time() -> None:
    """A microsecond beside a day: within 1,000 of its iterations the brief job gains just what the other one loses."""
    brief, endless = LinkUser(1e-6, 1e-6, 1e-6), LinkUser(86400.0, 86400.0, 86400.0)
    assert correction_factor(brief, endless) == pytest.approx(1.0, rel=1e-2)
