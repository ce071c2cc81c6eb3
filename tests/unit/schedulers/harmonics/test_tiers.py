"""The two tiers alone: messages, what racks report and fit, what the Coordinator makes of some reports or none."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.schedulers.harmonics.figures import RULES, Figures
from harmonics_emu.schedulers.harmonics.global_coordinator import candidates_for_many, choose, merged_places, order_few
from harmonics_emu.schedulers.harmonics.local_scheduler import LocalScheduler
from harmonics_emu.schedulers.harmonics.messages import EpochReport, Fitted, Fixed, JobView, View, Wish, Wishes
from harmonics_emu.schedulers.harmonics.rollout import Judge
from harmonics_emu.schedulers.harmonics.views import Problem
from harmonics_emu.schedulers.order_levels import FIRST_LEVEL
from tests.unit.schedulers.harmonics.cases import NO_LIMIT, drawn_snapshot, whole_view
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import MBIT, fabric, job
from workloads.job import DEFAULT_LEVEL, LEVELS, Background

INTS = st.integers(-(2**31), 2**31)
FLOATS = st.floats(allow_nan=False)
STRATEGIES: dict[Any, st.SearchStrategy[Any]] = {}
for kind in (JobView, View, Wish, EpochReport, Fixed, Fitted):
    parts = {
        int: INTS,
        float: FLOATS,
        bool: st.booleans(),
        tuple[int, ...]: st.lists(INTS, max_size=3).map(tuple),
        tuple[float, ...]: st.lists(FLOATS, max_size=3).map(tuple),
        Wishes: st.lists(st.builds(Wish, INTS, FLOATS, FLOATS, FLOATS), max_size=3).map(Wishes.of),
        tuple[tuple[int, ...], ...]: st.lists(st.lists(INTS, max_size=3).map(tuple), max_size=2).map(tuple),
        dict[int, float]: st.dictionaries(INTS, FLOATS, max_size=3),
        **{tuple[other, ...]: st.lists(some, max_size=2).map(tuple) for other, some in STRATEGIES.items()},
    }
    fields = {field.name: parts[field.type] for field in msgspec.structs.fields(kind)}
    STRATEGIES[kind] = st.builds(kind, **fields)


def rack_views(number: int) -> dict[int, View]:
    problem = Problem(drawn_snapshot(number))
    return problem.rack_views(problem.crossings({}), NO_LIMIT)


def two_jobs() -> View:
    """A short collective and a long one that share an uplink; both cross racks."""
    jobs = [job(0, compute_s=1.0, bucket_bytes=(200_000,)), job(1, compute_s=1.0)]
    return next(iter(rack_views_of(jobs).values()))


def rack_views_of(jobs: Sequence[Any]) -> dict[int, View]:
    problem = Problem(snapshot_of(fabric(), jobs))
    return problem.rack_views(problem.crossings({}), NO_LIMIT)


@settings(max_examples=50, deadline=None)
@given(st.one_of(*STRATEGIES.values()))
def test_messages_come_back_as_they_were(message: msgspec.Struct) -> None:
    sent = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(sent, type=type(message)) == message


def test_wishes_with_a_column_that_is_too_short_are_refused() -> None:
    whole = Wishes.of([Wish(0, 0.5, 0.0, 0.1), Wish(1, 0.2, 0.0, 0.1)])
    for column in ("numbers", "places", "first_costs", "last_costs"):
        with pytest.raises(ValueError, match="not of one length"):
            msgspec.structs.replace(whole, **{column: b"12345678"})
    sent = msgspec.msgpack.encode([b"1234567"] * 4)
    with pytest.raises(msgspec.ValidationError, match="not of one length"):
        msgspec.msgpack.decode(sent, type=Wishes)


def test_infinity_comes_back() -> None:
    report = EpochReport(3, 1, (2.0, math.inf), Wishes.of([Wish(0, 0.5, 0.0, math.inf)]), late=True)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(report), type=EpochReport) == report
    view = msgspec.structs.replace(two_jobs().jobs[0], cap=math.inf)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(view), type=JobView) == view


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_a_rack_says_the_same_of_a_view_that_was_sent_to_it(number: int) -> None:
    for rack, view in rack_views(number).items():
        there = msgspec.msgpack.decode(msgspec.msgpack.encode(view), type=View)
        one, other = (LocalScheduler(rack).propose(4, seen, math.inf) for seen in (view, there))
        assert one == other
        assert (one.rack, one.epoch, one.late) == (rack, 4, False)
        assert len(one.rule_costs) == 1 + len(RULES)
        assert [wish.number for wish in one.wishes] == [job.number for job in view.jobs]
        for wish, seen in zip(one.wishes, view.jobs, strict=True):
            assert 0 <= wish.place <= 1
            assert seen.crosses or (wish.first_cost, wish.last_cost) == (0, 0)


def test_a_report_tells_places_and_what_other_places_cost() -> None:
    view = two_jobs()
    judge = Judge([view])
    report = LocalScheduler(0).propose(0, view, math.inf)
    short, long = report.wishes
    assert (short.place, long.place) == (0.0, 1.0)
    best = judge.cost([1, 2])
    assert short.first_cost == long.last_cost == 0
    assert short.last_cost == long.first_cost == pytest.approx(judge.cost([2, 1]) - best)
    assert report.rule_costs[0] == judge.fair_cost() > best == min(report.rule_costs)


def test_a_rack_without_time_reports_no_curves() -> None:
    report = LocalScheduler(0).propose(0, two_jobs(), time.monotonic() - 1)
    assert report.late
    assert report.rule_costs[1:] == (math.inf,) * len(RULES)
    assert {(wish.place, wish.first_cost, wish.last_cost) for wish in report.wishes} == {(0.5, 0.0, 0.0)}


def test_a_rack_without_jobs_reports_and_fits_nothing() -> None:
    for view in (View(0.0, {}, ()), background_alone()):
        assert LocalScheduler(2).propose(1, view, math.inf).wishes == Wishes.of([])
        fitted = LocalScheduler(2).fit(view, Fixed(1, (0, 1), ((1, 2), (4, 4))), math.inf)
        assert fitted == Fitted(2, 1, (0.0, 0.0), (), ((), ()))


def background_alone() -> View:
    flows = (Background("r1h0", "r1h1", MBIT), Background("r1h0", "r1h2", MBIT))
    jobs = [job(0, hosts=("r0h0", "r0h1")), job(1, hosts=("r0h0", "r0h1"))]
    problem = Problem(replace(snapshot_of(fabric(), jobs), background=flows))
    views = problem.rack_views(problem.crossings({}), NO_LIMIT)
    assert (len(views[1].jobs), len(views[1].steady)) == (0, 2)
    return views[1]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_a_fit_costs_what_it_says_and_no_more_than_the_middle(number: int) -> None:
    draw = random.Random(number)
    for rack, view in rack_views(number).items():
        fixed_jobs = [one.number for one in view.jobs if draw.random() < 0.5]
        levels = tuple(tuple(draw.randrange(FIRST_LEVEL, LEVELS) for _ in fixed_jobs) for _ in range(3))
        fitted = LocalScheduler(rack).fit(view, Fixed(0, tuple(fixed_jobs), levels), math.inf)
        assert sorted([*fitted.numbers, *fixed_jobs]) == sorted(one.number for one in view.jobs)
        for given_levels, own, cost in zip(levels, fitted.levels, fitted.costs, strict=True):
            chosen = dict(zip((*fixed_jobs, *fitted.numbers), (*given_levels, *own), strict=True))
            judge = Judge([view])
            assert judge.cost([chosen[one.number] for one in view.jobs]) == cost
            middle = sorted(given_levels)[len(given_levels) // 2] if given_levels else DEFAULT_LEVEL
            before = dict(zip(fixed_jobs, given_levels, strict=True))
            assert cost <= judge.cost([before.get(one.number, middle) for one in view.jobs])


def test_a_fit_without_time_leaves_jobs_in_the_middle() -> None:
    fitted = LocalScheduler(0).fit(two_jobs(), Fixed(0, (0,), ((2,), (6,))), time.monotonic() - 1)
    assert fitted.levels == ((2,), (6,))


def figures(count: int, **changes: Any) -> Figures:
    given: dict[str, Any] = {
        "number": np.arange(count),
        "compute_s": np.ones(count),
        "send_s": np.ones(count),
        "weight": np.ones(count),
        "iterations": np.full(count, 5),
        "ranks": np.full(count, 2),
    }
    return Figures(**(given | changes))


def report(rack: int, *wishes: Wish, costs: tuple[float, ...] = (1.0,) * (1 + len(RULES))) -> EpochReport:
    return EpochReport(rack, 0, costs, Wishes.of(wishes), late=False)


def test_who_has_more_at_stake_is_heard_more() -> None:
    reports = [report(0, Wish(0, 0.0, 0.0, 0.3)), report(1, Wish(0, 1.0, 0.1, 0.0))]
    assert merged_places(figures(1), reports)[0] == pytest.approx(0.25)


def test_curves_that_contradict_each_other_meet_in_the_middle() -> None:
    reports = [report(0, Wish(0, 0.0, 0.0, 0.2), Wish(1, 1.0, 0.2, 0.0))]
    reports.append(report(1, Wish(0, 1.0, 0.2, 0.0), Wish(1, 0.0, 0.0, 0.2)))
    assert merged_places(figures(2), reports).tolist() == pytest.approx([0.5, 0.5])
    assert candidates_for_many(0, figures(2), reports, guard=True) == candidates_for_many(
        0, figures(2), reports[::-1], guard=True
    )


def test_infinite_costs_leave_other_wishes_in_force() -> None:
    reports = [report(0, Wish(0, 0.0, 0.0, math.inf), Wish(1, 1.0, 0.1, 0.0)), report(1, Wish(0, 1.0, 0.1, 0.0))]
    places = merged_places(figures(3), reports)
    assert places.tolist() == pytest.approx([0.0, 1.0, 0.5], abs=1e-5)


def test_places_without_any_report_are_in_the_middle() -> None:
    assert merged_places(figures(3), []).tolist() == [0.5] * 3


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10**6), st.booleans())
def test_candidates_for_any_part_of_the_racks(count: int, number: int, guard: bool) -> None:
    draw = random.Random(number)
    reports = [
        report(
            rack,
            *(
                Wish(one, draw.random(), draw.choice((0.0, -0.1, 0.4)), draw.choice((0.0, 0.2, math.inf)))
                for one in draw.sample(range(count), draw.randint(0, count))
            ),
            costs=(1.0, *(draw.choice((0.5, 2.0, math.inf)) for _ in RULES)),
        )
        for rack in range(draw.randrange(4))
    ]
    fixed = candidates_for_many(7, figures(count), reports, guard)
    assert (fixed.epoch, fixed.numbers) == (7, tuple(range(count)))
    assert len(fixed.levels) == 3 + guard
    for levels in fixed.levels:
        assert len(levels) == count
        assert FIRST_LEVEL <= min(levels) <= max(levels) < LEVELS
    if guard:
        assert set(fixed.levels[0]) == {DEFAULT_LEVEL}


def test_the_rule_that_costs_all_racks_the_least_is_taken() -> None:
    # 'short' has the first job first, 'weight' the second. One rack has not come to try 'weight'.
    jobs = figures(2, send_s=np.array([1.0, 2.0]), weight=np.array([1.0, 9.0]))
    names = list(RULES)

    def costs(**of: float) -> tuple[float, ...]:
        return 10.0, *(of.get(name, 12.0) for name in names)

    first_wins = [report(0, costs=costs(short=8.0, weight=9.0)), report(1, costs=costs(short=9.0, weight=math.inf))]
    assert candidates_for_many(0, jobs, first_wins, guard=False).levels[0] == (1, 2)
    other_wins = [report(0, costs=costs(short=8.0, weight=5.0)), report(1, costs=costs(short=9.0, weight=math.inf))]
    assert candidates_for_many(0, jobs, other_wins, guard=False).levels[0] == (2, 1)


def test_the_candidate_that_costs_all_racks_the_least_is_chosen() -> None:
    assert choose([Fitted(0, 0, (3.0, 1.0, 2.0), (), ((),) * 3), Fitted(1, 0, (0.0, 3.0, 1.0), (), ((),) * 3)]) == 0
    assert choose([Fitted(0, 0, (3.0, 1.0, 2.0), (), ((),) * 3), Fitted(1, 0, (9.0, 3.0, 1.0), (), ((),) * 3)]) == 2
    assert (
        choose([Fitted(0, 0, (math.inf, 2.0, 1.0), (), ((),) * 3), Fitted(1, 0, (0.0, 3.0, 9.0), (), ((),) * 3)]) == 1
    )
    assert choose([]) == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_the_coordinator_goes_on_with_some_reports_or_none(number: int) -> None:
    snapshot = drawn_snapshot(number)
    problem = Problem(snapshot)
    racks = problem.rack_views(problem.crossings({}), NO_LIMIT)
    reports = [LocalScheduler(rack).propose(0, view, math.inf) for rack, view in racks.items()]
    view = whole_view(snapshot)
    fair = Judge([view]).fair_cost()
    for heard in (reports, reports[1:], []):
        found = order_few([view], heard, 300, math.inf, 0, guard=True)
        assert found.cost <= fair
        assert found.cost == Judge([view]).cost(found.levels)
