"""Spines: transfers spread over equal-cost paths, about as well as any choice can."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harmonics_emu.schedulers.harmonics.spines import Demands, choose_spines, demands_of, routes_of
from harmonics_emu.schedulers.harmonics.views import Problem
from harmonics_emu.schedulers.interface import Snapshot
from tests.unit.schedulers.harmonics.cases import drawn_snapshot
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import fabric, job


def demands_in(snapshot: Snapshot) -> Demands:
    return demands_of(Problem(snapshot).tasks, snapshot.fabric, snapshot.links_down)


def most_used(demands: Demands, chosen: list[int]) -> float:
    """Of the links that transfers choose between, the busiest one's part that is in use."""
    used = demands.fixed.copy()
    for transfer, choice in enumerate(chosen):
        at = demands.first_choice[demands.group[transfer]] + choice
        used[demands.link[demands.first_link[at] : demands.first_link[at + 1]]] += demands.rate[transfer]
    return float((used / demands.capacity)[np.unique(demands.link)].max())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_near_the_best_choice_and_no_worse_than_one_spine_for_all(number: int) -> None:
    demands = demands_in(drawn_snapshot(number, most=3))
    choices = [len(demands.choices[group]) for group in demands.group.tolist()]
    assume(choices and np.prod(choices) <= 4096)
    found = most_used(demands, choose_spines(demands).tolist())
    every = [most_used(demands, list(chosen)) for chosen in itertools.product(*map(range, choices))]
    # Single transfers choose in turn, which can end where only two together could go on: seldom far from the best.
    assert min(every) * (1 - 1e-9) <= found <= 2 * min(every)
    assert found <= min(most_used(demands, [spine] * len(choices)) for spine in range(min(choices))) * (1 + 1e-9)


def test_equal_jobs_have_a_spine_each_and_those_that_stay_in_a_rack_choose_nothing() -> None:
    jobs = [job(0), job(1), job(2, hosts=("r0h2", "r0h3"))]
    snapshot = snapshot_of(fabric(spines=2), jobs)
    demands = demands_in(snapshot)
    routes = routes_of(demands, choose_spines(demands))
    assert set(routes) == {"job0", "job1"}
    for direction in (1, -1):
        taken = {routes[one.name][one.hosts[::direction]][1:3] for one in jobs[:2]}
        assert len(taken) == 2
    for one in jobs[:2]:
        for (src, dst), path in routes[one.name].items():
            assert path in snapshot.fabric.paths(src, dst)


def test_links_down_are_no_choice() -> None:
    snapshot = snapshot_of(fabric(spines=3), [job(number) for number in range(4)])
    snapshot = replace(snapshot, links_down=frozenset({"leaf0>spine1"}))
    demands = demands_in(snapshot)
    for paths in routes_of(demands, choose_spines(demands)).values():
        for path in paths.values():
            assert "leaf0>spine1" not in path
    one_left = replace(snapshot, links_down=frozenset({"leaf0>spine1", "leaf0>spine2"}))
    demands = demands_in(one_left)
    assert all(src.startswith("r1") for src, _ in demands.pair)
    assert demands.fixed.sum() > 0


def test_choices_do_not_depend_on_the_order_of_equal_transfers_of_others() -> None:
    draw = random.Random(3)
    jobs = [job(number, bucket_bytes=(draw.randrange(10_000, 900_000),)) for number in range(6)]
    on = fabric(spines=2)
    one, other = demands_in(snapshot_of(on, jobs)), demands_in(snapshot_of(on, jobs[::-1]))
    assert routes_of(one, choose_spines(one)) == routes_of(other, choose_spines(other))
