"""Max-min sharing: what any allocation must satisfy, and the kernel against its numpy twin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.simulate.kernel.sharing import Floats, Ints, enter, leave, new_sharing, reshare
from harmonics_emu.simulate.sharing import Crossings, flatten, max_min_rates, max_min_rates_numpy


@dataclass(frozen=True)
class Network:
    capacity: Floats
    crossings: Crossings
    cap: Floats
    level: Ints

    def only(self, chosen: Ints) -> Network:
        return Network(self.capacity, [self.crossings[i] for i in chosen], self.cap[chosen], self.level[chosen])

    def used(self, rates: Floats) -> Floats:
        total = np.zeros(len(self.capacity))
        for crossed, rate in zip(self.crossings, rates, strict=True):
            for link, usage in crossed:
                total[link] += usage * rate
        return total


@st.composite
def networks(draw: st.DrawFn) -> Network:
    links = draw(st.integers(1, 6))
    capacity = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 10.0, 33.3]), min_size=links, max_size=links))
    entities = draw(st.integers(1, 12))
    crossings, cap, level = [], [], []
    for _ in range(entities):
        crossed = draw(st.sets(st.integers(0, links - 1), max_size=4))
        crossings.append([(link, draw(st.sampled_from([0.25, 1.0, 1.0, 2.0, 3.0]))) for link in sorted(crossed)])
        cap.append(draw(st.sampled_from([0.3, 2.0, 7.0, np.inf] if crossed else [0.3, 2.0])))
        level.append(draw(st.integers(0, 2)))
    return Network(np.array(capacity), crossings, np.array(cap), np.array(level, np.int64))


def rates_of(network: Network) -> Floats:
    return max_min_rates(network.capacity, network.crossings, network.cap, network.level)


def twin_rates_of(network: Network) -> Floats:
    return max_min_rates_numpy(network.capacity, network.crossings, network.cap, network.level)


@settings(deadline=None)
@given(networks())
def test_kernel_equals_numpy_twin(network: Network) -> None:
    np.testing.assert_allclose(rates_of(network), twin_rates_of(network), rtol=1e-10, atol=1e-10)


@settings(deadline=None)
@given(networks())
def test_no_link_above_capacity_and_no_entity_above_its_cap(network: Network) -> None:
    rates = rates_of(network)
    assert (network.used(rates) <= network.capacity * (1 + 1e-12)).all()
    assert (rates <= network.cap).all()


@settings(deadline=None)
@given(networks())
def test_each_entity_is_held_back_by_its_cap_or_by_a_full_link_on_which_none_of_its_level_has_more(
    network: Network,
) -> None:
    rates = rates_of(network)
    for entity, crossed in enumerate(network.crossings):
        if rates[entity] == network.cap[entity]:
            continue
        upto = network.used(np.where(network.level <= network.level[entity], rates, 0.0))
        assert any(
            upto[link] >= network.capacity[link] * (1 - 1e-11)
            and all(
                rates[other] <= rates[entity] * (1 + 1e-11)
                for other, theirs in enumerate(network.crossings)
                if network.level[other] == network.level[entity] and link in dict(theirs)
            )
            for link, _ in crossed
        )


@settings(deadline=None)
@given(networks())
def test_later_levels_never_slow_earlier_ones(network: Network) -> None:
    first = np.flatnonzero(network.level <= 1)
    np.testing.assert_allclose(rates_of(network)[first], rates_of(network.only(first)), rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(networks(), st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=3), max_size=25))
def test_rates_stay_right_when_entities_come_and_go(network: Network, steps: list[list[int]]) -> None:
    """What `reshare` leaves alone must be what it would have found."""
    sharing = new_sharing(*flatten(network.crossings), network.capacity, network.cap, network.level)
    for step in steps:
        for entity in (number % len(network.cap) for number in step):
            (leave if sharing.active[entity] else enter)(sharing, entity)
        changed = sharing.queue[: reshare(sharing)]
        sharing.rate[changed] = sharing.fresh[changed]
        active = np.flatnonzero(sharing.active)
        np.testing.assert_allclose(sharing.rate[active], twin_rates_of(network.only(active)), rtol=1e-10, atol=1e-10)


def test_only_the_component_of_an_event_is_looked_at() -> None:
    """Two links with two flows each: a flow that leaves the first one is no matter to the second."""
    crossings = [[(0, 1.0)], [(0, 1.0)], [(1, 1.0)], [(1, 1.0)]]
    sharing = new_sharing(*flatten(crossings), np.ones(2), np.full(4, np.inf), np.zeros(4, np.int64))
    for entity in range(4):
        enter(sharing, entity)
    changed = sharing.queue[: reshare(sharing)]
    sharing.rate[changed] = sharing.fresh[changed]
    leave(sharing, 0)
    assert sharing.queue[: reshare(sharing)].tolist() == [1]
    assert sharing.fresh[1] == 1.0


def test_an_entity_weighs_as_many_flows_as_it_has_on_the_link() -> None:
    """A collective with three flows on a link beside one with a single flow gets three quarters of it."""
    rates = max_min_rates(np.array([8.0]), [[(0, 3.0)], [(0, 1.0)]], np.full(2, np.inf), np.zeros(2, np.int64))
    assert rates.tolist() == [2.0, 2.0]
