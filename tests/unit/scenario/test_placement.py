"""Placement: every rank on a GPU of its own, racks used evenly, and rings that cross each way once."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.scenario.locality import local_shares, rack_groups
from harmonics_emu.scenario.placement import RULES, NoRoom, Placer
from topologies.fabric import Fabric
from topologies.fat_tree import fat_tree
from topologies.rack_spine import rack_spine

GBIT = 10**9


def racks(count: int, hosts: int, gpus: int = 1) -> Fabric:
    return rack_spine(count, hosts, 1, GBIT, GBIT, gpus, GBIT if gpus > 1 else None)


def test_spread_numbers_ranks_rack_by_rack() -> None:
    placer = Placer(racks(2, 4))
    assert placer.spread(4) == ("r0h0", "r0h1", "r1h0", "r1h1")
    assert placer.spread(4) == ("r0h2", "r0h3", "r1h2", "r1h3")


def test_spread_puts_one_rank_in_each_of_four_racks() -> None:
    placer = Placer(racks(4, 4))
    assert [placer.spread(4) for _ in range(4)] == [tuple(f"r{rack}h{host}" for rack in range(4)) for host in range(4)]


def test_spread_goes_to_the_emptier_racks_when_it_does_not_need_all() -> None:
    placer = Placer(racks(4, 2))
    assert placer.spread(2) == ("r0h0", "r1h0")
    assert placer.spread(2) == ("r2h0", "r3h0")


def test_unused_hosts_come_before_second_gpus() -> None:
    placer = Placer(racks(2, 2, gpus=2))
    assert placer.spread(2) == ("r0h0", "r1h0")
    assert placer.spread(2) == ("r0h1", "r1h1")
    assert placer.spread(4) == ("r0h0", "r0h1", "r1h0", "r1h1")


def test_packed_takes_the_fullest_rack_with_room_and_fills_hosts() -> None:
    placer = Placer(racks(3, 2, gpus=2))
    placer.reserve(["r1h0", "r1h1"])
    assert placer.packed(2) == ("r1h0", "r1h1")
    assert placer.packed(3) == ("r0h0", "r0h0", "r0h1")
    assert placer.packed(5) == ("r0h1", "r2h0", "r2h0", "r2h1", "r2h1")


def test_listed_hosts_are_left_free() -> None:
    placer = Placer(racks(2, 2))
    placer.reserve(["r0h0", "r1h1"])
    assert placer.spread(2) == ("r0h1", "r1h0")
    with pytest.raises(NoRoom) as caught:
        placer.spread(1)
    assert caught.value.free == 0


def test_shared_gpus_are_taken_only_when_no_other_is_left() -> None:
    placer = Placer(racks(2, 2), share=True)
    placer.reserve(["r0h0"])
    assert placer.spread(2) == ("r0h1", "r1h0")
    assert placer.spread(4) == ("r0h0", "r0h1", "r1h0", "r1h1")
    with pytest.raises(NoRoom):
        placer.spread(5)


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
    st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=6),
)
@settings(deadline=None)
def test_invariants(rack_count: int, hosts: int, gpus: int, share: bool, jobs: list[tuple[bool, int]]) -> None:
    fabric = racks(rack_count, hosts, gpus)
    placer = Placer(fabric, share=share)
    total = rack_count * hosts * gpus
    used: Counter[str] = Counter()
    for packed, workers in jobs:
        free = total if share else total - used.total()
        assert placer.free == free
        if workers > free:
            with pytest.raises(NoRoom):
                placer.packed(workers) if packed else placer.spread(workers)
            continue
        before = Counter(dict.fromkeys(range(rack_count), hosts * gpus))
        before.subtract(Counter(fabric.rack_of[host] for host in used.elements()))
        placed = placer.packed(workers) if packed else placer.spread(workers)
        assert len(placed) == workers
        assert max(Counter(placed).values()) <= gpus
        rack_order = [fabric.rack_of[host] for host in placed]
        assert rack_order == sorted(rack_order)
        shares = Counter(rack_order)
        if not packed and not share:
            # A rack may have fewer than another by more than one only if it is full.
            fewest = min((shares[rack] for rack in before if before[rack] > shares[rack]), default=None)
            assert fewest is None or max(shares.values()) <= fewest + 1
        if packed and any(room >= workers for room in before.values()) and not share:
            assert len(shares) == 1
        used.update(placed)
    if not share:
        assert all(count <= gpus for count in used.values())


def test_local_takes_one_host_then_one_rack() -> None:
    placer = Placer(racks(2, 2, gpus=4))
    assert placer.local(3) == ("r0h0",) * 3
    assert placer.local(6) == ("r1h0",) * 4 + ("r1h1",) * 2
    assert placer.local(2) == ("r1h1",) * 2
    assert placer.local(5) == ("r0h0", *("r0h1",) * 4)


def test_local_stays_in_a_pod() -> None:
    """Pods of a fat-tree with two edge switches of two hosts; packed would leave the pod for emptier racks."""
    placer = Placer(fat_tree(4, GBIT))
    placer.reserve(["p0e0h0", "p1e0h0", "p2e0h0"])
    assert placer.local(3) == ("p0e0h1", "p0e1h0", "p0e1h1")
    assert placer.local(4) == ("p3e0h0", "p3e0h1", "p3e1h0", "p3e1h1")
    assert placer.local(6) == ("p1e0h1", "p1e1h0", "p1e1h1", "p2e0h1", "p2e1h0", "p2e1h1")


def test_groups_of_racks() -> None:
    assert rack_groups(racks(3, 2)) == [[0, 1, 2]]
    assert rack_groups(fat_tree(4, GBIT)) == [[0, 1], [2, 3], [4, 5], [6, 7]]


@given(st.lists(st.integers(0, 5), min_size=4, max_size=4), st.data())
def test_local_shares_fit_and_leave_a_group_only_when_none_has_room(free: list[int], data: st.DataObject) -> None:
    if not sum(free):
        return
    workers = data.draw(st.integers(1, sum(free)))
    groups = [[0, 1], [2, 3]]
    shares = local_shares(free, groups, workers)
    assert sum(shares.values()) == workers
    assert all(0 < share <= free[rack] for rack, share in shares.items())
    if any(sum(free[rack] for rack in group) >= workers for group in groups):
        assert len({rack // 2 for rack in shares}) == 1
    if max(free) >= workers:
        assert len(shares) == 1


@given(st.sampled_from(RULES), st.lists(st.integers(1, 6), max_size=8), st.integers(0, 99))
def test_released_gpus_can_be_had_again(rule: str, sizes: list[int], seed: int) -> None:
    placer = Placer(racks(3, 2, gpus=2))
    before = placer.free
    placed = []
    for size in sizes:
        if size <= placer.free:
            placed.append(placer.place(rule, size, Random(seed)))
            assert not placer.has_room(placed[-1] * 2)
    for hosts in placed:
        placer.release(hosts)
    assert placer.free == before
    assert Counter(placer.place(rule, before, Random(seed))).most_common()[-1][1] == 2


def test_random_placement_is_that_of_its_seed() -> None:
    first, again = (Placer(racks(8, 4)).place("random", 8, Random("x")) for _ in range(2))
    assert first == again
    assert len({Placer(racks(8, 4)).place("random", 8, Random(seed)) for seed in range(20)}) > 10
