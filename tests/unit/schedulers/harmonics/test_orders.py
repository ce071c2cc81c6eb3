"""Orders, levels and the search: jobs that share a link take turns, ties go the same way everywhere."""

from __future__ import annotations

import itertools
import math
import random
import time

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.schedulers.harmonics.figures import RULES, Figures, figures_of, rule_orders
from harmonics_emu.schedulers.harmonics.messages import JobView, View
from harmonics_emu.schedulers.harmonics.orders import best_order, levels_in, levels_of, shared_links
from harmonics_emu.schedulers.harmonics.rollout import Judge
from harmonics_emu.schedulers.order_levels import FIRST_LEVEL, MOST_LEVELS
from tests.unit.schedulers.harmonics.cases import drawn_snapshot, whole_view
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import fabric, job
from workloads.job import DEFAULT_LEVEL, LEVELS


def on_one_link(count: int, **changes: object) -> View:
    """Equal jobs of 1 s of compute and 1 s of the only link, twice."""
    one = JobView(0, 0.0, 2, 0.1, (1.0,), (1.0,), (1.0,), (7,), (1.0,), 1.0, math.inf, 2, True)
    jobs = tuple(msgspec.structs.replace(one, number=number, **changes) for number in range(count))
    return View(0.0, {7: 1.0}, jobs)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_levels_follow_the_order_wherever_a_link_is_shared(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    upper = np.array(data.draw(st.lists(st.booleans(), min_size=count**2, max_size=count**2))).reshape(count, count)
    shared = upper | upper.T | np.eye(count, dtype=np.bool_)
    order = data.draw(st.permutations(range(count)))
    levels = levels_in(order, shared)
    assert set(levels) <= set(range(FIRST_LEVEL, LEVELS))
    # The longest chain of jobs of which each shares a link with the next.
    depth: dict[int, int] = {}
    for at, one in enumerate(order):
        depth[one] = 1 + max((depth[other] for other in order[:at] if shared[one, other]), default=0)
    for first, second in itertools.combinations(order, 2):
        if shared[first, second]:
            assert levels[first] < levels[second] or (
                max(depth.values()) > MOST_LEVELS and levels[first] == levels[second]
            )


def test_a_chain_of_more_jobs_than_levels_uses_all_levels_evenly() -> None:
    levels = levels_in(range(16), np.ones((16, 16), np.bool_))
    assert levels == sorted(levels)
    assert [levels.count(level) for level in range(FIRST_LEVEL, LEVELS)] == [3, 2, 2, 3, 2, 2, 2]


def test_few_levels_are_equal_parts_of_the_order() -> None:
    assert levels_of([3, 0, 2, 1], 2) == [1, 2, 2, 1]
    assert levels_of([], 3) == []


def test_shared_links() -> None:
    view = on_one_link(3)
    lone = msgspec.structs.replace(view.jobs[2], links=(), usage=())
    shared = shared_links(msgspec.structs.replace(view, jobs=(*view.jobs[:2], lone)))
    assert shared.tolist() == [[True, True, False], [True, True, False], [False, False, False]]


def test_equal_jobs_stand_in_the_order_of_their_numbers_in_every_view() -> None:
    view = on_one_link(5)
    backwards = msgspec.structs.replace(view, jobs=view.jobs[::-1])
    for one in (view, backwards):
        for order in rule_orders(figures_of(one)):
            assert [one.jobs[position].number for position in order] == [0, 1, 2, 3, 4]


def test_rules_sort_by_what_they_are_named_after() -> None:
    figures = Figures(
        number=np.arange(3),
        compute_s=np.array([9.0, 1.0, 4.0]),
        send_s=np.array([1.0, 2.0, 3.0]),
        weight=np.array([1.0, 8.0, 6.0]),
        iterations=np.array([5, 2, 1]),
        ranks=np.array([1, 4, 8]),
    )
    assert dict(zip(RULES, rule_orders(figures), strict=True)) == {
        "weight-of-wait": (1, 2, 0),
        "weight": (1, 2, 0),
        "remaining": (1, 2, 0),
        "short": (0, 1, 2),
        "intensity": (2, 0, 1),
        "duty": (0, 2, 1),
    }


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_of_few_jobs_no_order_is_better_than_what_is_found(number: int) -> None:
    view = whole_view(drawn_snapshot(number, most=4))
    shared, count = shared_links(view), len(view.jobs)
    judge = Judge([view])
    found = best_order(view, judge, rule_orders(figures_of(view)), 10**6, math.inf, seed=number)
    least = min(judge.cost(levels_in(order, shared)) for order in itertools.permutations(range(count)))
    assert found.cost <= min(least, judge.fair_cost()) * (1 + 1e-5)
    assert judge.cost(found.levels) == found.cost
    assert found.costs[0] == judge.fair_cost()


def test_a_search_among_many_jobs_is_better_than_every_rule() -> None:
    draw = random.Random(5)
    jobs = [
        job(number, compute_s=draw.uniform(0.2, 2), bucket_bytes=(draw.randrange(50_000, 400_000),), iterations=6)
        for number in range(8)
    ]
    view = whole_view(snapshot_of(fabric(), jobs))
    orders = rule_orders(figures_of(view))
    found = best_order(view, Judge([view]), orders, 20_000, math.inf, seed=0)
    assert found.cost < 0.99 * min(found.costs)
    again = best_order(view, Judge([view]), orders, 20_000, math.inf, seed=0)
    assert again == found


def test_fair_sharing_is_found_where_no_order_is_better() -> None:
    # A lone job: no order changes anything.
    view = on_one_link(1)
    found = best_order(view, Judge([view]), [(0,)], 1000, math.inf, 0)
    assert (found.order, found.levels, found.late) == (None, (DEFAULT_LEVEL,), False)
    forced = best_order(view, Judge([view]), [(0,)], 1000, math.inf, 0, guard=False)
    assert (forced.order, forced.levels) == ((0,), (FIRST_LEVEL,))


def test_a_deadline_that_is_over_leaves_fair_sharing() -> None:
    view = on_one_link(3)
    judge = Judge([view])
    found = best_order(view, judge, rule_orders(figures_of(view)), 10**6, time.monotonic() - 1, 0)
    assert (found.order, found.late, judge.spent) == (None, True, 6)
    assert found.costs == (pytest.approx(found.cost), *[math.inf] * len(RULES))
