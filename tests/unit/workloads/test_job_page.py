"""The page shared by a job's ranks and their supervisor: round trips, releases, gates, stops, and bad files."""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.job_page import GATES, JobPage, State
from workloads.timer import Timeout, Timer

MS = 1_000_000


@pytest.fixture
def page(tmp_path: Path) -> JobPage:
    return JobPage.create(tmp_path / "page", ranks=3)


def test_both_sides_see_what_the_other_wrote(page: JobPage) -> None:
    rank = JobPage.open(page.path)
    assert rank.ranks == 3
    assert rank.start_ns == 0
    page.release(5_000, zero_ns=2_000)
    assert (rank.start_ns, rank.zero_ns) == (5_000, 2_000)
    rank.mark(1, State.RUNNING)
    rank.finish_iteration(1, iterations=7, now_ns=99)
    rank.count_bytes(1, 2**40)
    seen = page.progress(1)
    assert (seen.state, seen.iterations, seen.progress_ns, seen.bytes) == (State.RUNNING, 7, 99, 2**40)
    assert page.progress(0).state is State.STARTING
    assert page.progress(2).state is State.STARTING


def test_all_ranks_must_be_ready(page: JobPage) -> None:
    for rank in range(3):
        assert not page.all_at_least(State.READY)
        page.mark(rank, State.READY)
    assert page.all_at_least(State.READY)


def test_a_rank_beyond_the_page_is_refused(page: JobPage) -> None:
    with pytest.raises(IndexError, match="no rank 3"):
        page.mark(3, State.READY)


def test_release_is_waited_for_and_met_closely(page: JobPage) -> None:
    threading.Timer(0.02, lambda: page.release(time.monotonic_ns() + 30 * MS)).start()
    lateness_ns = page.wait_for_start(Timer(), timeout_s=5)
    assert page.start_ns <= time.monotonic_ns()
    assert 0 <= lateness_ns < 50 * MS


def test_a_release_that_never_comes_is_a_timeout(page: JobPage) -> None:
    with pytest.raises(Timeout, match=r"not released within 0\.02 s"):
        page.wait_for_start(Timer(), timeout_s=0.02)


def test_iterations_behind_the_last_gate_do_not_wait(page: JobPage) -> None:
    page.set_gates(3, [time.monotonic_ns() + 10_000 * MS])
    page.hold_gates_until(time.monotonic_ns() + 20_000 * MS)
    assert page.wait_at_gate(Timer(), 0, 4) == 0


def test_a_gate_holds_until_its_release(page: JobPage) -> None:
    release_ns = time.monotonic_ns() + 30 * MS
    page.set_gates(4, [release_ns])
    page.hold_gates_until(release_ns + 1_000 * MS)
    timer = Timer()
    assert page.wait_at_gate(timer, 0, 4) > 10 * MS
    assert time.monotonic_ns() >= release_ns
    assert timer.gate_lateness()["gates"] == 1
    assert page.progress(0).gates_opened == 0


def test_a_gate_may_be_moved_while_it_is_waited_for(page: JobPage) -> None:
    now_ns = time.monotonic_ns()
    page.hold_gates_until(now_ns + 20_000 * MS)
    page.set_gates(0, [now_ns + 10_000 * MS])
    threading.Timer(0.03, lambda: page.set_gates(0, [now_ns + 60 * MS])).start()
    assert 50 * MS < page.wait_at_gate(Timer(), 0, 0) < 5_000 * MS
    page.set_gates(1, [now_ns + 10_000 * MS])
    threading.Timer(0.03, lambda: page.set_gates(1, [])).start()
    assert page.wait_at_gate(Timer(), 0, 1) < 5_000 * MS


def test_a_gate_whose_lease_has_run_out_opens_for_the_whole_job(page: JobPage) -> None:
    now_ns = time.monotonic_ns()
    page.set_gates(0, [now_ns + 10_000 * MS, now_ns + 10_000 * MS])
    page.hold_gates_until(now_ns + 20 * MS)
    assert page.wait_at_gate(Timer(), 1, 0) >= 10 * MS
    page.hold_gates_until(now_ns + 10_000 * MS)
    assert page.wait_at_gate(Timer(), 2, 0) < 10 * MS
    assert [page.progress(rank).gates_opened for rank in range(3)] == [0, 1, 0]


def test_a_stale_gate_is_not_taken_for_a_later_iteration(page: JobPage) -> None:
    page.set_gates(1, [time.monotonic_ns() + 10_000 * MS] * (GATES + 7))
    page.hold_gates_until(time.monotonic_ns() + 20_000 * MS)
    assert page.wait_at_gate(Timer(), 0, 1 + GATES) == 0


def test_a_gate_that_nobody_wrote_opens_soon_and_is_counted(page: JobPage) -> None:
    now_ns = time.monotonic_ns()
    page.set_gates(3, [now_ns + 10_000 * MS])
    page.hold_gates_until(now_ns + 20_000 * MS)
    assert page.wait_at_gate(Timer(), 0, 2) < 1_000 * MS
    assert page.progress(0).gates_opened == 1


def test_a_collective_that_begins_is_told(page: JobPage) -> None:
    assert page.next_collective() == 0
    page.wait_at_gate(Timer(), 2, 5)
    assert page.next_collective() == 6
    seen = page.progress(2)
    assert seen.begun == 6
    assert 0 < seen.begun_ns <= time.monotonic_ns()


def test_the_gate_costs_little_beside_its_wait(page: JobPage) -> None:
    """The time from the release (or from the arrival, where there is no wait) until the rank goes on."""
    timer, open_ns, waited_ns = Timer(), [], []
    for iteration in range(200):
        began_ns = time.perf_counter_ns()
        page.wait_at_gate(timer, 0, iteration)
        open_ns.append(time.perf_counter_ns() - began_ns)
    for iteration in range(50):
        release_ns = time.monotonic_ns() + MS
        page.set_gates(iteration, [release_ns])
        page.hold_gates_until(release_ns + 1_000 * MS)
        page.wait_at_gate(timer, 0, iteration)
        waited_ns.append(time.monotonic_ns() - release_ns)
    assert statistics.median(open_ns) < 50_000
    assert statistics.median(waited_ns) < 50_000


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_stop_lies_ahead_of_every_rank(tmp_path_factory: pytest.TempPathFactory, done: list[int]) -> None:
    page = JobPage.create(tmp_path_factory.mktemp("page") / "page", ranks=len(done))
    assert page.stop_before is None
    for rank, iterations in enumerate(done):
        page.finish_iteration(rank, iterations, 1)
    page.request_stop()
    assert page.stop_before is not None
    assert page.stop_before > max(done) + 1
    page.close()
    os.unlink(page.path)


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 8192])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "page"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a job page"):
        JobPage.open(path)


def test_a_page_is_never_taken_over(page: JobPage) -> None:
    with pytest.raises(FileExistsError):
        JobPage.create(page.path, ranks=3)
