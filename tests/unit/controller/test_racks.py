"""The two tiers as processes: the plan is that of one process, and a rack that dies or is silent costs its say only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controller.coordinator import coordinate
from controller.racks import EPOCHS_REMEMBERED, Racks, renumbered
from harmonics_emu.emulate.local_scheduler import Replaced, Standing, news
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.solving import Ask, Begin
from harmonics_emu.emulate.worker import Worker
from harmonics_emu.planning import first_snapshot
from harmonics_emu.scenario import load_scenario
from harmonics_emu.schedulers.harmonics.messages import EpochReport, Wish, Wishes
from harmonics_emu.schedulers.harmonics.plan import plan_harmonics
from harmonics_emu.schedulers.interface import Snapshot

SNAPSHOT = replace(first_snapshot(load_scenario("four-tenants")), options={"deadline": "5s"})
RACKS = range(4)


class Tier:
    """Local Schedulers in processes of their own, and the Coordinator's connections to them."""

    def __init__(self, directory: Path) -> None:
        arguments = ["--racks", *map(str, RACKS), "--seed", "0", "--directory", str(directory)]
        self.worker = Worker("harmonics_emu.emulate.local_scheduler", Logs(directory), "local-schedulers", arguments)
        assert isinstance(self.heard(60.0), Standing)
        self.racks = Racks(directory)

    def heard(self, timeout_s: float) -> Standing | Replaced:
        frame = self.worker.poll(timeout_s)
        assert frame is not None, "the Local Schedulers say nothing"
        return news.decode(frame.body)

    @property
    def pids(self) -> list[int]:
        """Of the Local Schedulers, in the order of their racks while none was replaced."""
        return sorted(map(int, Path(f"/proc/{self.worker.pid}/task/{self.worker.pid}/children").read_text().split()))

    def plan(self, snapshot: Snapshot = SNAPSHOT):
        begin = Begin("harmonics", dict(snapshot.options), snapshot.fabric, snapshot.seed, snapshot.background, None)
        return coordinate(begin, Ask(snapshot.time_s, snapshot.jobs, snapshot.links_down), self.racks).plan


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[Tier]:
    tier = Tier(tmp_path)
    yield tier
    tier.racks.close()
    tier.worker.stop()


def test_the_plan_is_that_of_one_process(tier: Tier) -> None:
    here, there = plan_harmonics(SNAPSHOT), tier.plan()
    assert there.jobs == here.jobs
    assert there.facts["objective"] == here.facts["objective"]
    assert tier.racks.silent == set()


def test_a_killed_local_scheduler_is_replaced_and_its_successor_answers(tier: Tier) -> None:
    first = tier.plan()
    victim = tier.pids[2]
    os.kill(victim, signal.SIGKILL)
    assert tier.heard(5.0) == Replaced(2, "was killed by SIGKILL")
    assert victim not in tier.pids
    assert len(tier.pids) == 4
    # The connection that the dead one had is found broken, and made anew in the epoch after.
    assert tier.plan().jobs == first.jobs
    assert tier.plan().jobs == first.jobs
    assert tier.racks.silent == set()


def test_a_silent_rack_wishes_what_it_wished_last_and_then_nothing(tier: Tier) -> None:
    first = tier.plan(quick := replace(SNAPSHOT, options={"deadline": "1s"}))
    os.kill(tier.pids[1], signal.SIGSTOP)
    began = time.monotonic()
    assert tier.plan(quick).jobs == first.jobs
    assert time.monotonic() - began < 4
    assert tier.racks.silent == {1}
    assert set(tier.racks._remembered) == set(RACKS)
    for _ in range(EPOCHS_REMEMBERED):
        tier.plan(quick)
    assert set(tier.racks._remembered) == {0, 2, 3}
    os.kill(tier.pids[1], signal.SIGCONT)
    # What it says late, to questions of epochs that are over, is dropped.
    assert tier.plan(SNAPSHOT).jobs == plan_harmonics(SNAPSHOT).jobs
    assert tier.racks.silent == set()


def test_without_any_rack_there_is_still_a_plan(tmp_path: Path) -> None:
    begin = Begin("harmonics", {}, SNAPSHOT.fabric, 0, (), None)
    racks = Racks(tmp_path)
    plan = coordinate(begin, Ask(0.0, SNAPSHOT.jobs, frozenset()), racks).plan
    assert len({job.level for job in plan.jobs.values()}) > 1
    assert racks.silent == set(RACKS)


def test_an_earlier_report_is_read_with_the_numbers_of_now() -> None:
    wishes = Wishes.of([Wish(number, number / 2, 0.1, 0.2) for number in range(3)])
    found = renumbered(EpochReport(0, 4, (1.0,), wishes, False), ("a", "b", "c"), ("c", "a"))
    assert [(wish.number, wish.place) for wish in found.wishes] == [(1, 0.0), (0, 1.0)]
