"""What is learnt of jobs from the rows and pages that their ranks write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harmonics_emu.emulate.observer import (
    HEADERS,
    LATEST,
    MOST_EXCESS,
    MOST_PAUSED,
    SENDING_JITTER,
    History,
    Observer,
    Position,
    next_start_s,
    position,
)
from harmonics_emu.simulate.routing import Router
from topologies.rack_spine import rack_spine
from workloads.job import Job
from workloads.job_page import JobPage
from workloads.output_files import spans_path
from workloads.spans import SpanWriter

FABRIC = rack_spine(2, 2, 1, 4 * 10**8, 2 * 10**8)
ROUTER = Router(FABRIC, 0)
JOB = Job("one", 0, "ddp", ("r0h0", "r1h0"), 500, compute_s=0.075, bucket_bytes=(1_000_000,), start_s=0.5)
ALONE_S = 0.040
"""1 MB each way at 200 Mbit/s."""


class Ranks:
    """Two ranks that train, all figures given."""

    def __init__(self, directory: Path) -> None:
        self.writers = [SpanWriter(spans_path(directory, JOB.name, rank), rank) for rank in (0, 1)]
        self.page = JobPage.create(directory / "page", 2)
        self.now, self.done = JOB.start_s, 0

    def iterate(
        self, compute_s: tuple[float, float], sending_s: float, gate_s: float = 0.0, size: int = JOB.bytes
    ) -> None:
        end = self.now + max(compute_s) + gate_s + sending_s
        self.done += 1
        for rank, writer in enumerate(self.writers):
            own_gate_s = gate_s + max(compute_s) - compute_s[rank] if gate_s else 0.0
            writer.add(self.done - 1, self.now, compute_s[rank], own_gate_s, end)
            self.page.count_bytes(rank, self.page.progress(rank).bytes + size)
            self.page.finish_iteration(rank, self.done, int(end * 1e9))
        self.now = end


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


@pytest.fixture
def observer(tmp_path: Path) -> Observer:
    return Observer(FABRIC, [JOB], tmp_path)


def look(observer: Observer, ranks: Ranks):
    observer.read()
    return observer.state(JOB, position(ranks.page, 0), ranks.now, ROUTER, {})


def test_the_scenario_stands_until_something_is_known(observer: Observer) -> None:
    state = observer.state(JOB, None, 0.0, ROUTER, {})
    assert (state.compute_s, state.communication_s, state.iterations_done, state.next_start_s) == (0.075, None, 0, 0.5)
    assert state.transfers["r0h0", "r1h0"] == pytest.approx(1e6 * HEADERS)
    assert state.job.bytes == pytest.approx(1e6 * HEADERS, abs=1)


def test_compute_is_the_slowest_ranks_and_all_else_communication(observer: Observer, ranks: Ranks) -> None:
    ranks.iterate((0.5, 0.5), 1.0)  # warm-up
    for _ in range(3):
        ranks.iterate((0.080, 0.075), 0.042, gate_s=0.030)
    state = look(observer, ranks)
    assert state.compute_s == pytest.approx(0.080)
    assert state.communication_s == pytest.approx(0.072)
    assert (state.iterations_done, state.next_start_s) == (4, pytest.approx(ranks.now))
    # It sends for 42 ms where its bytes explain 40, without the gate's wait: the quickest of some that vary.
    alone_s = 0.042 * (1 + SENDING_JITTER)
    assert state.transfers["r0h0", "r1h0"] == pytest.approx(1e6 * alone_s / ALONE_S)
    assert state.jitter_s == pytest.approx(SENDING_JITTER * alone_s)


def test_an_iteration_that_a_rank_has_yet_to_finish_does_not_count() -> None:
    history = History(ranks=2, warmup=0)
    history.add(0, 0.0, 0.1, 0.0, 0.2)
    assert history.latest == []
    history.add(0, 0.0, 0.1, 0.0, 0.2)
    assert [one.number for one in history.latest] == [0]


def test_what_bytes_can_not_explain_are_pauses_up_to_a_bound(observer: Observer, ranks: Ranks) -> None:
    ranks.iterate((0.075, 0.075), 0.048)  # warm-up
    for _ in range(20):
        ranks.iterate((0.075, 0.075), 0.048)
    state = look(observer, ranks)
    assert state.transfers["r0h0", "r1h0"] == pytest.approx(1e6 * MOST_EXCESS)
    assert state.pause_s == pytest.approx(0.048 * (1 + SENDING_JITTER) - ALONE_S * MOST_EXCESS)
    for _ in range(40):
        ranks.iterate((0.075, 0.075), 0.2)
    assert look(observer, ranks).pause_s == pytest.approx(ALONE_S * (MOST_PAUSED - MOST_EXCESS))


def test_a_job_that_changes_is_known_anew_and_one_disturbed_iteration_is_not_a_change(
    observer: Observer, ranks: Ranks
) -> None:
    for _ in range(30):
        ranks.iterate((0.075, 0.075), 0.042)
    ranks.iterate((2.0, 0.075), 3.0)
    assert look(observer, ranks).compute_s == pytest.approx(0.075)
    for _ in range(LATEST // 2 + 1):
        ranks.iterate((0.225, 0.075), 0.084, size=2 * JOB.bytes)
    assert look(observer, ranks).compute_s == pytest.approx(0.225)
    # The bytes are those since the last look: from here on, the new ones only.
    ranks.iterate((0.225, 0.075), 0.084, size=2 * JOB.bytes)
    assert look(observer, ranks).transfers["r0h0", "r1h0"] == pytest.approx(2e6 * HEADERS)


def test_contention_is_not_taken_for_bytes(observer: Observer, ranks: Ranks) -> None:
    for _ in range(5):
        ranks.iterate((0.075, 0.075), 0.120)
    assert look(observer, ranks).transfers["r0h0", "r1h0"] == pytest.approx(1e6 * MOST_EXCESS)


def test_the_next_start_is_the_end_of_what_is_being_sent() -> None:
    computing = Position(done=3, finished=3, begun=3, finished_s=4.0, sending_since_s=3.9)
    assert next_start_s(computing, 0.5, 0.1, 4.05) == 4.0
    sending = Position(done=3, finished=3, begun=4, finished_s=4.0, sending_since_s=4.2)
    assert next_start_s(sending, 0.5, 0.1, 4.21) == pytest.approx(4.3)
    assert next_start_s(sending, 0.5, 0.1, 4.6) == 4.6
    new = Position(done=0, finished=0, begun=0, finished_s=None, sending_since_s=None)
    assert next_start_s(new, 0.5, 0.1, 0.6) == 0.5


def test_the_mean_of_a_time_is_that_of_its_iterations(observer: Observer, ranks: Ranks) -> None:
    for _ in range(4):
        ranks.iterate((0.1, 0.1), 0.1)
    middle = ranks.now
    for _ in range(4):
        ranks.iterate((0.1, 0.1), 0.3)
    observer.read()
    history = observer.histories[JOB.name]
    assert history.mean_iteration_s(middle, ranks.now) == pytest.approx(0.4)
    assert history.mean_iteration_s(0.0, middle) == pytest.approx(0.2)
    assert history.mean_iteration_s(ranks.now, ranks.now + 1) is None


def test_a_command_is_unknown_until_its_first_iteration_has_ended(tmp_path: Path) -> None:
    """Then it is taken to all-reduce what its ranks have counted."""
    command = replace(JOB, program="command", command=("python", "train.py"), bucket_bytes=(), compute_s=0.0)
    observer, ranks = Observer(FABRIC, [command], tmp_path), Ranks(tmp_path)
    before = observer.state(command, None, 0.0, ROUTER, {})
    assert (before.job.bytes, before.compute_s, set(before.transfers.values())) == (0, 0.0, {0.0})
    for _ in range(3):
        ranks.iterate((0.05, 0.06), 0.045, size=500_000)
    observer.read()
    after = observer.state(command, position(ranks.page, 0), ranks.now, ROUTER, {})
    assert after.compute_s == pytest.approx(0.06)
    assert after.communication_s == pytest.approx(0.045)
    assert 500_000 < after.transfers["r0h0", "r1h0"] < 650_000
    assert after.job.bytes == pytest.approx(after.transfers["r0h0", "r1h0"], abs=2)
