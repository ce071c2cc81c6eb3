"""What the rules do to packets, over random fabrics, jobs and plans, on switches in memory."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import rules
from controller.flow_table import Packet, SwitchedFabric, Trace
from controller.rules import InvalidState, plan_rules
from harmonics_emu.emulate.control import JobRoutes, NetworkState, PairPath
from topologies.addressing import host_interface, host_mac, job_interface
from topologies.fabric import Fabric, hashed_path_index
from topologies.fat_tree import fat_tree
from topologies.rack_spine import rack_spine
from topologies.shaping import dscp_of_level
from workloads.job import DEFAULT_LEVEL

RATE = 10**9
FABRICS = [
    rack_spine(racks=1, hosts_per_rack=3, spines=1, host_rate_bps=RATE, uplink_rate_bps=RATE),
    rack_spine(racks=2, hosts_per_rack=4, spines=1, host_rate_bps=RATE, uplink_rate_bps=RATE),
    rack_spine(racks=3, hosts_per_rack=2, spines=3, host_rate_bps=RATE, uplink_rate_bps=RATE),
    fat_tree(k=4, rate_bps=RATE),
]


@st.composite
def states(draw: st.DrawFn, fabric: Fabric | None = None) -> NetworkState:
    """Up to three jobs anywhere on a fabric, at any levels, some of their pairs on planned paths."""
    fabric = fabric or draw(st.sampled_from(FABRICS))
    names = [host.name for host in fabric.hosts]
    jobs = []
    for index in draw(st.lists(st.integers(0, 20), unique=True, max_size=3)):
        hosts = tuple(draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=4)))
        pairs = [(src, dst) for src in hosts for dst in hosts if src != dst]
        planned = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
        paths = tuple(PairPath(src, dst, draw(st.sampled_from(fabric.paths(src, dst)))) for src, dst in planned)
        jobs.append(JobRoutes(f"job{index}", index, hosts, draw(st.integers(0, 7)), paths))
    background = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=2))
    return NetworkState(
        fabric=fabric,
        seed=draw(st.integers(0, 5)),
        jobs=tuple(jobs),
        background=tuple(pair for pair in background if pair[0] != pair[1]),
    )


@dataclass
class Network:
    """A state on switches in memory."""

    state: NetworkState

    def __post_init__(self) -> None:
        self.plans = plan_rules(self.state)
        self.switches = SwitchedFabric(self.state.fabric, {n: plan.tables for n, plan in self.plans.items()})
        self.owners = {rule.flow.cookie: rule.job for plan in self.plans.values() for rule in plan.rules}

    def send(self, job: int | None, src: str, dst: str, dscp: int = 63, stream: int = 0) -> Trace:
        return self.switches.send(src, packet_of(self.state.fabric, job, src, dst, dscp, stream))


def packet_of(fabric: Fabric, job: int | None, src: str, dst: str, dscp: int = 63, stream: int = 0) -> Packet:
    """A packet between two hosts' addresses in a job's subnet, or between their base addresses."""
    source, target = (
        host_interface(index) if job is None else job_interface(job, index)
        for index in (fabric.host_index[src], fabric.host_index[dst])
    )
    return Packet(str(source.ip), str(target.ip), dscp, stream=stream)


def check_delivered(fabric: Fabric, trace: Trace, dst: str, level: int) -> None:
    assert trace.host == dst
    assert trace.packet.eth_dst == host_mac(fabric.host_index[dst])
    assert trace.packet.dscp == dscp_of_level(level)


@settings(max_examples=60, deadline=None)
@given(states(), st.integers(0, 63))
def test_pairs_take_their_path_at_their_level(state: NetworkState, dscp: int) -> None:
    network = Network(state)
    for job in state.jobs:
        planned = {(pair.src, pair.dst): pair.path for pair in job.paths}
        for src in job.hosts:
            for dst in job.hosts:
                if src == dst:
                    continue
                trace = network.send(job.index, src, dst, dscp)
                paths = state.fabric.paths(src, dst)
                hashed = paths[hashed_path_index(state.seed, job.name, src, dst, len(paths))]
                assert trace.links == planned.get((src, dst), hashed)
                check_delivered(state.fabric, trace, dst, job.level)
                assert {network.owners[flow.cookie] for flow in trace.flows} <= {job.name, None}
                assert network.owners[trace.flows[0].cookie] == job.name


@settings(max_examples=40, deadline=None)
@given(states(), st.data())
def test_everything_else_arrives_at_the_default_level(state: NetworkState, data: st.DataObject) -> None:
    """Base addresses, and addresses of a job's subnet on hosts that are none of the job's."""
    network = Network(state)
    names = [host.name for host in state.fabric.hosts]
    src, dst = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=2, max_size=2))
    subnet = data.draw(st.sampled_from([None, *(job.index for job in state.jobs if src not in job.hosts)]))
    trace = network.send(subnet, src, dst)
    assert trace.links in state.fabric.paths(src, dst)
    check_delivered(state.fabric, trace, dst, DEFAULT_LEVEL)
    assert {network.owners[flow.cookie] for flow in trace.flows} <= {None, "background"}


@settings(max_examples=40, deadline=None)
@given(states(), st.data())
def test_traffic_goes_round_links_that_are_down(state: NetworkState, data: st.DataObject) -> None:
    """No packet is sent into a link that is down, and each arrives wherever a shortest path is left."""
    fabric = state.fabric
    cables = data.draw(st.sets(st.sampled_from(sorted(fabric.cables)), max_size=2))
    down = frozenset(link for name in cables for link in (fabric.cables[name].up, fabric.cables[name].down))
    network = Network(
        NetworkState(fabric=fabric, seed=state.seed, jobs=state.jobs, background=state.background, links_down=down)
    )
    for job in state.jobs:
        for src in job.hosts:
            for dst in job.hosts:
                if src == dst or f"{src}>{fabric.leaf_of(src)}" in down:
                    continue
                trace = network.send(job.index, src, dst)
                assert down.isdisjoint(trace.links)
                if any(down.isdisjoint(path) for path in fabric.paths(src, dst)):
                    check_delivered(fabric, trace, dst, job.level)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(FABRICS), st.data())
def test_rules_do_not_depend_on_the_states_that_were_planned_before(fabric: Fabric, data: st.DataObject) -> None:
    """Jobs come back as they were, at other levels or on other paths, while links go down and up."""
    links = st.frozensets(st.sampled_from(sorted(fabric.links)), max_size=2)
    jobs = data.draw(states(fabric)).jobs
    for _ in range(4):
        state = msgspec.structs.replace(data.draw(states(fabric)), links_down=data.draw(links))
        if data.draw(st.booleans()):
            state = msgspec.structs.replace(state, jobs=jobs, seed=0)
        assert plan_rules(state) == rules._Planner(state).plan(state)


def test_a_link_that_is_down_moves_only_its_own_pairs() -> None:
    fabric = FABRICS[2]
    job = JobRoutes("a", 0, tuple(host.name for host in fabric.hosts), 4)
    before = Network(NetworkState(fabric=fabric, seed=1, jobs=(job,)))
    down = frozenset({"leaf0>spine1", "spine1>leaf0"})
    after = Network(NetworkState(fabric=fabric, seed=1, jobs=(job,), links_down=down))
    for src in job.hosts:
        for dst in job.hosts:
            if src != dst:
                path = before.send(0, src, dst).links
                assert (after.send(0, src, dst).links == path) == down.isdisjoint(path)


def test_groups_spread_streams_over_all_paths() -> None:
    fabric = FABRICS[2]
    planned = PairPath("r1h0", "r2h0", fabric.paths("r1h0", "r2h0")[2])
    job = JobRoutes("a", 0, ("r0h0", "r1h0", "r2h0"), 1, (planned,))
    network = Network(NetworkState(fabric=fabric, seed=1, jobs=(job,), paths="group"))
    for dst in ("r1h0", "r2h0"):
        traces = [network.send(0, "r0h0", dst, stream=stream) for stream in range(64)]
        assert {trace.links for trace in traces} == set(fabric.paths("r0h0", dst))
        for trace in traces:
            check_delivered(fabric, trace, dst, 1)
    assert {network.send(0, "r1h0", "r2h0", stream=stream).links for stream in range(16)} == {planned.path}


def test_what_no_rule_takes_is_dropped_and_counted() -> None:
    """ARP, IPv6 and unknown addresses end at rules that tell lost packets from strays; nothing is ever flooded."""
    network = Network(NetworkState(fabric=FABRICS[1], seed=0))
    purposes = {rule.flow: rule.purpose for plan in network.plans.values() for rule in plan.rules}
    dropped = [
        (Packet("10.0.0.1", "10.0.0.2", eth_dst="ff:ff:ff:ff:ff:ff", eth_type=0x0806), "stray"),
        (Packet("10.0.0.1", "10.0.0.2", eth_type=0x86DD), "stray"),
        (Packet("10.0.0.1", "10.0.200.1"), "miss"),
        (Packet("10.0.0.1", "192.0.2.1"), "miss"),
    ]
    for packet, purpose in dropped:
        trace = network.switches.send("r0h0", packet)
        assert trace.host is None
        assert purposes[trace.flows[-1]] == purpose


def test_rules_stay_few() -> None:
    """Routes of a large fabric fold into blocks, and a job on a rack-spine needs rules at its leaves only."""
    fabric = rack_spine(racks=64, hosts_per_rack=16, spines=2, host_rate_bps=RATE, uplink_rate_bps=RATE)
    job = JobRoutes("a", 0, ("r0h0", "r1h0", "r2h0", "r3h0"), 4)
    plans = plan_rules(NetworkState(fabric=fabric, seed=0, jobs=(job,)))
    rules = [rule for plan in plans.values() for rule in plan.rules]
    assert sum(rule.job == "a" for rule in rules) == 4 * 3
    assert max(len(plan.rules) for plan in plans.values() if plan.name.startswith("spine")) < 64 * 16 / 3
    assert len({rule.flow.cookie for rule in rules}) == len(rules)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"jobs": (JobRoutes("a", 254, ("r0h0",), 4),)}, "job a: number 254 has no subnet"),
        ({"jobs": (JobRoutes("a", 0, ("r0h0",), 8),)}, "job a: level 8 is none of 0 to 7"),
        ({"jobs": (JobRoutes("a", 0, ("r9h0",), 4),)}, "job a: host r9h0 is not in the fabric"),
        ({"jobs": (JobRoutes("a", 0, (), 4), JobRoutes("b", 0, (), 4))}, "two jobs have the same number"),
        ({"jobs": (JobRoutes("a", 0, ("r0h0",), 4, (PairPath("r0h0", "r1h0", ()),)),)}, "r1h0, which is no host of it"),
        (
            {"jobs": (JobRoutes("a", 0, ("r0h0", "r1h0"), 4, (PairPath("r0h0", "r1h0", ("r0h0>leaf0",)),)),)},
            "the planned path from r0h0 to r1h0 is no shortest one",
        ),
        ({"background": (("r0h0", "x"),)}, "host x is not in the fabric"),
        ({"links_down": frozenset({"leaf0-spine0"})}, "link leaf0-spine0 is down but not in the fabric"),
    ],
)
def test_states_that_contradict_themselves_are_refused(change: dict[str, object], cause: str) -> None:
    with pytest.raises(InvalidState, match=cause):
        plan_rules(NetworkState(**{"fabric": FABRICS[1], "seed": 0} | change))  # type: ignore[arg-type]
