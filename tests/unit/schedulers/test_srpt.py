"""srpt: the communication of all iterations to come decides."""

from __future__ import annotations

import pytest

from harmonics_emu.schedulers.registry import find_policy
from harmonics_emu.schedulers.srpt import plan_srpt
from harmonics_emu.simulate.engine import Options, simulate
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import fabric, job


def test_iterations_to_come_count() -> None:
    """10 iterations of 1 s against 3 of 2 s; after 5 of the 10, 5 s against 6 s."""
    jobs = [job(0, iterations=10), job(1, iterations=3, bucket_bytes=(2_000_000,)), job(2, bucket_bytes=())]
    plan = plan_srpt(snapshot_of(fabric(), jobs))
    assert plan.facts["remaining_s"] == pytest.approx({"job1": 6.0, "job0": 10.0})
    assert [plan.jobs[name].level for name in ("job1", "job0")] == [1, 2]
    later = plan_srpt(snapshot_of(fabric(), jobs, done={"job0": 5}))
    assert [later.jobs[name].level for name in ("job0", "job1")] == [1, 2]
    assert "job2" not in later.jobs


def test_the_last_level_is_shared() -> None:
    jobs = [job(number, iterations=10 - number) for number in range(4)]
    plan = plan_srpt(snapshot_of(fabric(), jobs, levels=3))
    assert [plan.of(one.name).level for one in jobs] == [3, 3, 2, 1]


def test_a_short_job_overtakes_when_it_arrives() -> None:
    """Jobs that only send: the long one is preempted by one that arrives, and goes on when that has ended."""
    jobs = [job(0, compute_s=0.0, iterations=10), job(1, compute_s=0.0, iterations=2, start_s=3.0)]
    records = simulate(fabric(), jobs, find_policy("srpt"), options=Options(sample_s=None))
    assert records.outcomes["job1"].end_s == pytest.approx(5.0)
    assert records.outcomes["job0"].end_s == pytest.approx(12.0)
