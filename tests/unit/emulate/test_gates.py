"""Start times of plans as gates: by iteration, kept when about to open, refilled, and open without a keeper."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.emulate import gates
from harmonics_emu.emulate.gates import OPEN_NS, SETTLED_S, GateKeeper, Releases, merged, planned, window
from workloads.job_page import GATES, JobPage
from workloads.timer import Timer

SETTLED_NS = int(SETTLED_S * 1e9)
releases = st.builds(
    lambda first, gaps: Releases(first, tuple(1_000_000_000 + sum(gaps[: n + 1]) for n in range(len(gaps)))),
    st.integers(0, 30),
    st.lists(st.integers(0, 50_000_000), max_size=20),
)


@given(releases, releases, st.integers(900_000_000, 1_600_000_000))
def test_a_gate_about_to_open_stays_and_all_others_are_the_new_plans(old: Releases, new: Releases, now: int) -> None:
    found = merged(old, new, now)
    for iteration in range(60):
        before, after = old.of(iteration), found.of(iteration)
        if before is not None and now < before <= now + SETTLED_NS:
            assert after == before
        else:
            assert after == new.of(iteration) or (new.of(iteration) is None and after == OPEN_NS)


@given(releases, st.integers(0, 40), st.integers(0, 3))
def test_a_window_never_leaves_a_rank_before_a_gate_that_nobody_wrote(all_: Releases, begun: int, behind: int) -> None:
    lowest = max(0, begun - behind)
    found = window(all_, lowest, begun)
    for iteration in range(lowest, 60):
        if iteration < begun or all_.of(iteration) is None:
            assert found.of(iteration) in (None, OPEN_NS)
        else:
            assert found.of(iteration) == all_.of(iteration)
    # A page holds whoever comes to an iteration before the window's end.
    assert found.first <= lowest


@pytest.fixture
def page(tmp_path: Path) -> JobPage:
    return JobPage.create(tmp_path / "page", 2)


def test_ranks_wait_for_the_plans_times(page: JobPage) -> None:
    keeper, timer, zero_ns = GateKeeper(None), Timer(), time.monotonic_ns()
    keeper.plan("one", page, 0, (0.03, 0.06), zero_ns)
    for iteration, due_s in ((0, 0.03), (1, 0.06)):
        page.wait_at_gate(timer, 0, iteration)
        assert due_s <= (time.monotonic_ns() - zero_ns) / 1e9 < due_s + 0.02
    # A rank that is behind is not held, and neither is what comes after the plan.
    assert page.wait_at_gate(timer, 1, 0) < 5_000_000
    assert page.wait_at_gate(timer, 0, 2) < 5_000_000


def test_a_plan_without_times_opens_the_gates(page: JobPage) -> None:
    keeper = GateKeeper(None)
    keeper.plan("one", page, 0, (60.0, 61.0), time.monotonic_ns())
    assert keeper.held_until_ns("one") > time.monotonic_ns() + 50e9
    keeper.plan("one", page, 0, (), 0)
    assert keeper.held_until_ns("one") == 0
    assert page.wait_at_gate(Timer(), 0, 0) < 5_000_000


def test_more_gates_than_a_page_holds_are_refilled(page: JobPage) -> None:
    keeper, timer, count = GateKeeper(None), Timer(), 3 * GATES
    zero_ns = time.monotonic_ns() - int(1e9)
    keeper.plan("one", page, 0, (*(0.0 for _ in range(count - 1)), 1.2), zero_ns)
    for iteration in range(count - 1):
        for rank in (0, 1):
            assert page.wait_at_gate(timer, rank, iteration) < 50_000_000
        keeper.keep()
    page.wait_at_gate(timer, 0, count - 1)
    assert time.monotonic_ns() >= zero_ns + 1_200_000_000
    assert page.progress(0).gates_opened == 0


def test_without_a_keeper_the_lease_runs_out_and_the_job_goes_on(
    page: JobPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "SHORTEST_LEASE_S", 0.2)
    keeper = GateKeeper(0.05)
    keeper.plan("one", page, 0, (60.0,), time.monotonic_ns())
    waits: list[float] = []
    threads = [
        threading.Thread(target=lambda rank=rank: waits.append(page.wait_at_gate(Timer(), rank, 0) / 1e9))
        for rank in (0, 1)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.15)
    keeper.keep()
    for thread in threads:
        thread.join(timeout=5)
    assert len(waits) == 2
    assert all(0.3 < wait < 0.6 for wait in waits)
    assert 1 <= gates.gates_opened([page]) <= 2


def test_who_is_late_for_a_gate_has_drifted_but_nobody_is_late_for_one_that_was_past(page: JobPage) -> None:
    keeper, timer, zero_ns = GateKeeper(None), Timer(), time.monotonic_ns()
    keeper.plan("one", page, 0, (-5.0, 0.02), zero_ns)
    page.wait_at_gate(timer, 0, 0)
    assert keeper.late_s("one") == 0.0
    time.sleep(0.06)
    page.wait_at_gate(timer, 0, 1)
    assert 0.03 < keeper.late_s("one") < 0.2
    page.wait_at_gate(timer, 0, 2)
    assert keeper.late_s("one") == keeper.late_s("another") == 0.0


def test_start_times_count_from_time_zero() -> None:
    assert planned(7, (0.5, 1.25), 10**9) == Releases(7, (1_500_000_000, 2_250_000_000))
