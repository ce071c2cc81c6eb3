"""sincronia: the order, by hand, by brute force and by its guarantee, and its levels."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.schedulers.sincronia import bssi_order, plan_sincronia
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import fabric, job

Demands = list[dict[str, float]]


def test_the_order_of_one_link_is_smith_s_rule() -> None:
    """Weight over length, falling: 4/2, 1/1, 2/4, and equal ones as given."""
    demands = [{"l": 4.0}, {"l": 2.0}, {"l": 1.0}, {"l": 1.0}]
    assert bssi_order(demands, [2, 4, 1, 1]) == [1, 2, 3, 0]


def test_the_fullest_link_decides_the_last_place() -> None:
    """By hand: a is fullest (6), and 1 has least weight for its 4 s there; 0 has paid half its weight.

    Then b (5): 2 would cost 1/5. Last, 0 is left; so 0, 2, 1.
    """
    assert bssi_order([{"a": 2.0}, {"a": 4.0}, {"b": 5.0}], [1, 1, 1]) == [0, 2, 1]


def test_two_links_of_jobs_that_scale_down() -> None:
    """By hand: on a (7 s) job 0 goes last, for 1/4 a second, which leaves the others weights 1/2 and 3/4. On b (5 s)
    these are 1/4 a second for both, so that the order given decides.
    """
    demands: Demands = [{"a": 4.0}, {"a": 2.0, "b": 2.0}, {"a": 1.0, "b": 3.0}]
    assert bssi_order(demands, [1, 1, 1]) == [1, 2, 0]


links = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 20).map(float), max_size=4)
weights = st.integers(1, 10).map(float)


@given(st.lists(st.tuples(links, weights), min_size=1, max_size=6))
def test_any_order_is_within_twice_the_best_on_every_link(cases: list[tuple[dict[str, float], float]]) -> None:
    """With ends counted by the order on each link alone, which bounds a coflow's end from below, BSSI is a
    2-approximation: the ordering problem is that of concurrent open shop (Mastrolilli et al. 2010).
    """
    demands, own = [dict(demand) for demand, _ in cases], [weight for _, weight in cases]

    def cost(order: tuple[int, ...]) -> float:
        spent = dict.fromkeys("abcd", 0.0)
        total = 0.0
        for position in order:
            for link, seconds in demands[position].items():
                spent[link] += seconds
            total += own[position] * max((spent[link] for link in demands[position]), default=0.0)
        return total

    found = tuple(bssi_order(demands, own))
    assert sorted(found) == list(range(len(demands)))
    assert cost(found) <= 2 * min(map(cost, permutations(found))) + 1e-6


def test_first_ones_alone_and_the_rest_together() -> None:
    """The contention toy of Crux, section 4.3: of 1 to 4 in falling priority, two levels keep {1 | 2, 3, 4}."""
    jobs = [job(number, bucket_bytes=((number + 1) * 1000,)) for number in range(4)]
    plan = plan_sincronia(snapshot_of(fabric(), jobs, levels=2))
    assert plan.facts["order"] == ["job0", "job1", "job2", "job3"]
    assert [plan.of(one.name).level for one in jobs] == [1, 2, 2, 2]
    assert [plan_sincronia(snapshot_of(fabric(), jobs)).of(one.name).level for one in jobs] == [1, 2, 3, 4]


def test_weights_are_the_tenants() -> None:
    jobs = [job(0), job(1, weight=2.0), job(2, bucket_bytes=())]
    plan = plan_sincronia(snapshot_of(fabric(), jobs))
    assert {name: own.level for name, own in plan.jobs.items()} == {"job1": 1, "job0": 2}
    assert plan_sincronia(snapshot_of(fabric(), [])).jobs == {}


def test_many_jobs_on_equal_links_end() -> None:
    """Sums of thirds leave rounding behind, which is no demand."""
    demands: Demands = [{"a": 1 / 3, "b": 1 / 7}, {"a": 1e9, "b": 1e-9}, {"b": 0.1}, {}]
    assert sorted(bssi_order(demands, [1, 1, 1, 1])) == [0, 1, 2, 3]
    assert bssi_order(demands, [1, 1, 1, 1])[0] == 3


@pytest.mark.parametrize("count", [1, 40])
def test_equal_jobs_keep_the_order_of_the_scenario(count: int) -> None:
    assert bssi_order([{"a": 0.1}] * count, [1.0] * count) == list(range(count))
