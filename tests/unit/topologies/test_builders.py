"""The builders: names, counts of paths, and what a custom fabric refuses."""

import time
from collections.abc import Callable

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.custom import CustomLink, custom
from topologies.dumbbell import dumbbell
from topologies.fabric import Fabric
from topologies.fat_tree import fat_tree
from topologies.rack_spine import rack_spine

GBIT = 10**9


def as_graph(fabric: Fabric) -> nx.DiGraph:
    return nx.DiGraph((link.src, link.dst) for link in fabric.links.values())


fabrics = st.one_of(
    st.builds(lambda r, h, s: rack_spine(r, h, s, GBIT, GBIT // 2), *[st.integers(1, 4)] * 3),
    st.builds(lambda h: dumbbell(h, GBIT, GBIT // 2), st.integers(1, 4)),
    st.builds(lambda k: fat_tree(k, GBIT), st.sampled_from([2, 4])),
)


@given(fabric=fabrics)
@settings(max_examples=30, deadline=None)
def test_paths_are_all_the_shortest_ones(fabric: Fabric) -> None:
    graph = as_graph(fabric)
    for src in fabric.host_index:
        for dst in list(fabric.host_index)[:6]:
            if src != dst:
                nodes = [tuple(p[0].split(">")[:1]) + tuple(n.split(">")[1] for n in p) for p in fabric.paths(src, dst)]
                assert sorted(nodes) == sorted(map(tuple, nx.all_shortest_paths(graph, src, dst)))


@given(fabric=fabrics)
@settings(max_examples=20, deadline=None)
def test_cables_and_links_name_each_other(fabric: Fabric) -> None:
    for name, cable in fabric.cables.items():
        up, down = fabric.links_named(name)
        assert (up.name, down.name) == (cable.up, cable.down)
        assert (up.src, up.dst, up.rate_bps) == (down.dst, down.src, down.rate_bps)
        assert name == f"{up.src}-{up.dst}"
    assert 2 * len(fabric.cables) == len(fabric.links)
    assert all(fabric.leaf_of(host) == fabric.neighbours[host][0] for host in fabric.host_index)


def test_rack_spine_names_and_paths() -> None:
    fabric = rack_spine(2, 2, 3, GBIT, GBIT // 2)
    assert [host.name for host in fabric.hosts] == ["r0h0", "r0h1", "r1h0", "r1h1"]
    assert [switch.name for switch in fabric.switches] == ["leaf0", "leaf1", "spine0", "spine1", "spine2"]
    assert list(fabric.cables)[:3] == ["r0h0-leaf0", "r0h1-leaf0", "leaf0-spine0"]
    assert fabric.paths("r0h0", "r0h1") == (("r0h0>leaf0", "leaf0>r0h1"),)
    assert fabric.paths("r0h1", "r1h0")[2] == ("r0h1>leaf0", "leaf0>spine2", "spine2>leaf1", "leaf1>r1h0")
    assert fabric.paths("r0h0", "r0h0") == ()


@pytest.mark.parametrize("k", [2, 4, 6])
def test_fat_tree_counts(k: int) -> None:
    fabric = fat_tree(k, GBIT)
    graph = as_graph(fabric)
    assert len(fabric.hosts) == k**3 // 4
    assert all(graph.out_degree(switch.name) == k for switch in fabric.switches)
    far = f"p{k - 1}e0h0"
    assert len(fabric.paths("p0e0h0", far)) == (k // 2) ** 2
    assert fabric.hosts[fabric.host_index[far]].rack == (k - 1) * k // 2
    if k > 2:
        assert len(fabric.paths("p0e0h0", "p0e1h0")) == k // 2


def test_dumbbell_cable_is_named_after_the_lower_leaf() -> None:
    fabric = dumbbell(1, GBIT, GBIT // 10)
    assert fabric.cables["leaf0-leaf1"].up == "leaf0>leaf1"
    assert fabric.paths("r1h0", "r0h0") == (("r1h0>leaf1", "leaf1>leaf0", "leaf0>r0h0"),)


def test_custom_orders_leaves_by_their_first_host_and_names_cables_lower_end_first() -> None:
    fabric = custom(
        ["a", "b"],
        [CustomLink("top", "s1", 5), CustomLink("top", "s0", 5, delay_s=0.01), *map_hosts({"b": "s0", "a": "s1"})],
    )
    assert fabric.leaves == ("s1", "s0")
    assert [host.rack for host in fabric.hosts] == [0, 1]
    assert list(fabric.cables) == ["s1-top", "s0-top", "b-s0", "a-s1"]
    assert fabric.links["s0>top"].delay_s == fabric.links["top>s0"].delay_s == 0.01


def map_hosts(leaf_of: dict[str, str]) -> list[CustomLink]:
    return [CustomLink(leaf, host, 5) for host, leaf in leaf_of.items()]


@pytest.mark.parametrize(
    ("hosts", "links", "sentence"),
    [
        (["a", "b"], [("a", "s")], "host b has 0 links"),
        (["a", "b"], [("a", "s"), ("a", "t"), ("b", "s")], "host a has 2 links"),
        (["a", "b"], [("a", "b")], "hosts a and b are linked to each other"),
        (["a", "b"], [("a", "s"), ("b", "s"), ("s", "b2")], "b2, an end of the link to s, is neither a listed host"),
        (["a", "b"], [("a", "s"), ("b", "s"), ("s", "b")], "two links join s and b"),
        (["a", "b"], [("a", "s"), ("s", "s")], "a link joins s to itself"),
        (["a", "a"], [("a", "s")], "host a is listed twice"),
        (["a", "b", "c", "d"], [("a", "s"), ("b", "s"), ("c", "t"), ("d", "t")], "no path joins hosts a and c"),
        ([], [("s", "t")], "at least one host"),
    ],
)
def test_custom_refuses(hosts: list[str], links: list[tuple[str, str]], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        custom(hosts, [CustomLink(a, b, 100) for a, b in links])


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: rack_spine(0, 1, 1, 1, 1), "racks is 0"),
        (lambda: dumbbell(1, 0, 1), "cable r0h0-leaf0 has the rate 0"),
        (lambda: fat_tree(3, 1), "even"),
        (lambda: rack_spine(1, 1, 1, 1, 1, gpus_per_host=2), "intra_host_bps must be a rate"),
        (lambda: custom(["a", "b"], [CustomLink("a", "s", 1, loss=1.0), CustomLink("b", "s", 1)]), "a-s needs a delay"),
    ],
)
def test_builders_refuse(build: Callable[[], Fabric], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()


def test_ten_thousand_hosts_cost_less_than_a_second() -> None:
    started = time.process_time()
    fabric = rack_spine(625, 16, 16, GBIT, GBIT)
    for host in range(0, 10_000, 5):
        fabric.paths("r0h0", f"r{host // 16}h{host % 16}")
    assert time.process_time() - started < 1.0
