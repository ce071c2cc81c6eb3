"""An epoch in which little changed takes what the one before found; one in which much did searches anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harmonics_emu.schedulers.harmonics import epoch as module
from harmonics_emu.schedulers.harmonics.epoch import Epoch
from harmonics_emu.schedulers.harmonics.memory import Memory
from harmonics_emu.schedulers.harmonics.outcome import Outcome
from harmonics_emu.schedulers.harmonics.settings import Settings
from harmonics_emu.schedulers.interface import Snapshot
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import fabric, job

JOBS = [job(0, compute_s=1.0, iterations=20), job(1, compute_s=1.6, iterations=20)]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Times of the snapshots for which an order was searched."""
    seen: list[float] = []

    def order_few(views, *arguments, **options):
        seen.append(views[0].time_s)
        return original(views, *arguments, **options)

    original = module.order_few
    monkeypatch.setattr(module, "order_few", order_few)
    return seen


def later(snapshot: Snapshot, time_s: float, compute_s: float | None = None) -> Snapshot:
    states = [replace(state, iterations_done=5, next_start_s=time_s) for state in snapshot.jobs]
    if compute_s is not None:
        states[0] = replace(states[0], compute_s=compute_s)
    return replace(snapshot, time_s=time_s, jobs=tuple(states))


def test_nothing_new(searches: list[float]) -> None:
    memory: Memory[Outcome] = Memory()
    first = snapshot_of(fabric(), JOBS)
    found = Epoch(first, Settings(), memory=memory).run()
    again = Epoch(later(first, 10.0, compute_s=1.04), Settings(), memory=memory).run()
    assert set(searches) == {0.0}
    assert again.levels == found.levels
    assert again.cost is not None
    assert found.cost is not None
    assert again.cost < found.cost


def test_a_job_that_is_another_one_now(searches: list[float]) -> None:
    memory: Memory[Outcome] = Memory()
    first = snapshot_of(fabric(), JOBS)
    Epoch(first, Settings(), memory=memory).run()
    Epoch(later(first, 10.0, compute_s=1.2), Settings(), memory=memory).run()
    assert set(searches) == {0.0, 10.0}


def test_other_jobs_or_links(searches: list[float]) -> None:
    memory: Memory[Outcome] = Memory()
    on = fabric(spines=2)
    first = snapshot_of(on, JOBS)
    Epoch(first, Settings(), memory=memory).run()
    Epoch(replace(first, time_s=1.0, links_down=frozenset({"leaf0>spine0"})), Settings(), memory=memory).run()
    Epoch(replace(first, time_s=2.0, jobs=first.jobs[:1]), Settings(), memory=memory).run()
    assert set(searches) == {0.0, 1.0, 2.0}
