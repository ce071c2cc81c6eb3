"""The example of docs/how-harmonics-works.md, number by number."""

from __future__ import annotations

import math

import pytest

from harmonics_emu.schedulers.harmonics.global_coordinator import merged_places, order_few
from harmonics_emu.schedulers.harmonics.local_scheduler import LocalScheduler
from harmonics_emu.schedulers.harmonics.plan import plan_harmonics
from harmonics_emu.schedulers.harmonics.views import Problem
from harmonics_emu.simulate.engine import simulate
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import MBIT, always, job
from topologies.rack_spine import rack_spine

FABRIC = rack_spine(2, 2, 1, host_rate_bps=8 * MBIT, uplink_rate_bps=100 * MBIT)
JOBS = [
    job(0, name="a", hosts=("r0h0", "r1h0"), compute_s=2.0, bucket_bytes=(1_000_000,), iterations=1, warmup=0),
    job(1, name="b", hosts=("r0h0", "r0h1"), compute_s=2.0, bucket_bytes=(2_000_000,), iterations=1, warmup=0),
    job(2, name="c", hosts=("r1h0", "r1h1"), compute_s=2.0, bucket_bytes=(500_000,), iterations=1, warmup=0),
]
ALONE_S = {"a": 3.0, "b": 4.0, "c": 2.5}
WHOLE = 10**6


def test_fair_sharing() -> None:
    ends = {name: outcome.end_s for name, outcome in simulate(FABRIC, JOBS).outcomes.items()}
    assert ends == pytest.approx({"a": 4.0, "b": 5.0, "c": 3.0})


def test_what_each_rack_reports() -> None:
    problem = Problem(snapshot_of(FABRIC, JOBS))
    views = problem.rack_views(problem.crossings({}), WHOLE)
    reports = {rack: LocalScheduler(rack).propose(0, view, math.inf) for rack, view in views.items()}
    a, b = reports[0].wishes
    assert (a.number, a.place, b.number, b.place) == (0, 0.0, 1, 1.0)
    assert (a.first_cost, a.last_cost) == pytest.approx((0.0, (5 / 3 + 4 / 4 - 3 / 3 - 5 / 4) / 3))
    a, c = reports[1].wishes
    assert (a.number, a.place, c.number, c.place) == (0, 1.0, 2, 0.0)
    assert (a.first_cost, a.last_cost) == pytest.approx(((3 / 3 + 3.5 / 2.5 - 3.5 / 3 - 2.5 / 2.5) / 3, 0.0))

    figures = problem.figures(problem.crossings({}), [0])
    place = merged_places(figures, list(reports.values()))
    heavy, light = 0.416667 / 3, 0.233333 / 3
    assert place[0] == pytest.approx(light / (heavy + light), abs=1e-5) == pytest.approx(0.359, abs=1e-3)

    whole = problem.whole_view(problem.crossings({}), [0, 1, 2], WHOLE)
    found = order_few([whole], list(reports.values()), 0, math.inf, 0, True)
    assert found.order == (2, 0, 1)


def test_the_plan() -> None:
    plan = plan_harmonics(snapshot_of(FABRIC, JOBS))
    assert plan.of("c").level < plan.of("a").level < plan.of("b").level
    ends = {name: outcome.end_s for name, outcome in simulate(FABRIC, JOBS, always(**plan.jobs)).outcomes.items()}
    assert ends == pytest.approx({"a": 3.5, "b": 5.0, "c": 2.5})
    objective = sum(ends[name] / ALONE_S[name] for name in ends) / 3
    assert plan.facts["objective"] == pytest.approx(objective) == pytest.approx(1.1389, abs=1e-4)
