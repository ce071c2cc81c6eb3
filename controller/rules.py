"""From the state of the network to the rules of its switches. Pure: no switch, no clock, no randomness but the seed.

Each switch has two tables.

  0 ingress  a host pair of a job (in_port, source, destination): mark with the job's level, send on the pair's path
             anything else from a host port: mark with the default level, go to table 1
             anything from another switch: go to table 1
  1 routes   a host pair where its path leaves the default route (only switches between leaves ever need these)
             a destination: to the next switch, or on its own leaf to its port, with its MAC address written in

A program's own DSCP never gets past its leaf. Nothing is flooded: hosts have static ARP entries, and what is no
IPv4 ends at table 0's last entry. IPv4 that has no route ends at table 1's. Both drop and count.

A host has the same last 16 bits in each job's subnet, so a destination's route matches 10.*.x.y under a mask with a
hole and serves every subnet. Default routes choose among equal-cost next switches by a seeded hash of (switch,
destination's leaf), not of the destination itself: hosts of one leaf then share a route and their addresses fold
into blocks, which keeps a spine of 64 racks of 16 hosts at some 320 rules rather than a thousand. Pairs
of jobs don't depend on it, they have their own rule at their first leaf.

Every rule moves a packet to a neighbour that is one hop nearer its destination. So no mix of old and new rules can
loop, and a pair whose own rule is gone still arrives by the default route: that is what lets `difference` change
paths under traffic.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from ipaddress import IPv4Address, IPv4Network, collapse_addresses

from controller.flows import IPV4, Actions, Flow, Group, Match, Tables, matching
from harmonics_emu.emulate.control import JobRoutes, NetworkState
from harmonics_emu.errors import HarmonicsError
from harmonics_emu.schedulers.interface import HostPair
from topologies.addressing import MAX_JOBS, datapath_ids, host_interface, host_mac, job_interface, port_numbers
from topologies.fabric import Path, hashed_path_index
from topologies.shaping import dscp_of_level
from workloads.job import DEFAULT_LEVEL, LEVELS

INGRESS = 0
ROUTES = 1
MISS_PRIORITY = 0
TRANSIT_PRIORITY = 10
DEFAULT_PRIORITY = 100
PAIR_PRIORITY = 200
BACKGROUND = "background"
"""The name under which background pairs have their path hashed and their rules reported."""
JOBS_KEPT = 1024
"""Of jobs, each with one level and one choice of paths, so many are remembered with their rules."""
ANY_SUBNET = int(IPv4Address("255.0.255.255"))
"""Mask over the bits of a host's address that are the same in all subnets."""


class InvalidState(HarmonicsError):
    """A network state that contradicts its own fabric."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A flow entry, the switch it belongs to, and what it is for (see `control.RuleReport`)."""

    switch: str
    datapath_id: int
    flow: Flow
    purpose: str
    job: str | None = None
    src: str | None = None
    dst: str | None = None


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """The rules and select groups of one switch."""

    name: str
    datapath_id: int
    rules: tuple[Rule, ...]
    groups: frozenset[Group]

    @property
    def tables(self) -> Tables:
        return Tables(frozenset(rule.flow for rule in self.rules), self.groups)


def plan_rules(state: NetworkState) -> dict[int, SwitchPlan]:
    """The rules of every switch, by datapath id. InvalidState says what in the state can't be."""
    _check(state)
    return _memory.planner(state).plan(state)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rules that belong together, and the select groups, with their switches, that they point to."""

    rules: tuple[Rule, ...]
    groups: tuple[tuple[str, Group], ...]


class _Planner:
    """Plans for one fabric with the same links down, seed and choice of paths.

    What it has planned for a job it keeps, as most states differ from one before in a few jobs' levels or paths.
    """

    def __init__(self, state: NetworkState) -> None:
        self.state = state
        self.fabric = state.fabric
        self.ports = port_numbers(state.fabric)
        self.datapaths = datapath_ids(state.fabric)
        self._rules: list[Rule] = []
        self._groups: set[tuple[str, Group]] = set()
        self._common = self._piece(self._plan_common)
        self._jobs: dict[JobRoutes, _Piece] = {}

    def serves(self, state: NetworkState) -> bool:
        """Whether the state is one that this planner plans for."""
        mine = self.state
        return (mine.fabric, mine.seed, mine.links_down, mine.paths) == (
            state.fabric,
            state.seed,
            state.links_down,
            state.paths,
        )

    def plan(self, state: NetworkState) -> dict[int, SwitchPlan]:
        """The rules of every switch, by datapath id."""
        if len(self._jobs) > JOBS_KEPT:
            self._jobs.clear()
        pieces = [self._common, *map(self._of_job, state.jobs)]
        pieces.append(self._piece(partial(self._plan_background, state.background)))
        rules: dict[str, list[Rule]] = {name: [] for name in self.datapaths}
        groups: dict[str, set[Group]] = {name: set() for name in self.datapaths}
        for piece in pieces:
            for rule in piece.rules:
                rules[rule.switch].append(rule)
            for switch, group in piece.groups:
                groups[switch].add(group)
        return {
            datapath_id: SwitchPlan(name, datapath_id, tuple(rules[name]), frozenset(groups[name]))
            for name, datapath_id in self.datapaths.items()
        }

    def _of_job(self, job: JobRoutes) -> _Piece:
        if job not in self._jobs:
            self._jobs[job] = self._piece(partial(self._plan_job, job))
        return self._jobs[job]

    def _piece(self, plan: Callable[[], None]) -> _Piece:
        self._rules, self._groups = [], set()
        plan()
        return _Piece(tuple(self._rules), tuple(self._groups))

    def _plan_background(self, pairs: Sequence[HostPair]) -> None:
        for src, dst in dict.fromkeys(pairs):
            addresses = [str(host_interface(self.fabric.host_index[host]).ip) for host in (src, dst)]
            self._plan_pair(BACKGROUND, (src, dst), addresses, DEFAULT_LEVEL, None)

    def _plan_common(self) -> None:
        """Rules that serve whatever jobs there are."""
        for switch in self.datapaths:
            self._add(switch, INGRESS, MISS_PRIORITY, (), (), "stray")
            self._add(switch, ROUTES, MISS_PRIORITY, (), (), "miss")
            self._add(switch, INGRESS, TRANSIT_PRIORITY, matching(eth_type=IPV4), (("goto", ROUTES),), "transit")
            self._plan_routes(switch)
        for index, host in enumerate(self.fabric.hosts):
            self._plan_host(index, host.name)

    @cached_property
    def _next_switch(self) -> dict[str, dict[str, str]]:
        """Default routes: leaf, then switch, to the next switch towards that leaf over links that are up."""
        return {leaf: self._towards(leaf) for leaf in self.fabric.leaves}

    def _towards(self, leaf: str) -> dict[str, str]:
        distance = {leaf: 0}
        queue = deque([leaf])
        while queue:
            node = queue.popleft()
            for peer in self.fabric.neighbours[node]:
                if peer in self.datapaths and peer not in distance and self._is_up(peer, node):
                    distance[peer] = distance[node] + 1
                    queue.append(peer)
        chosen = {}
        for switch in distance.keys() - {leaf}:
            nearer = [
                peer
                for peer in self.fabric.neighbours[switch]
                if distance.get(peer) == distance[switch] - 1 and self._is_up(switch, peer)
            ]
            chosen[switch] = nearer[hashed_path_index(self.state.seed, "", switch, leaf, len(nearer))]
        return chosen

    def _is_up(self, src: str, dst: str) -> bool:
        return f"{src}>{dst}" not in self.state.links_down

    @cached_property
    def _blocks_of_leaf(self) -> dict[str, list[IPv4Network]]:
        addresses: dict[str, list[IPv4Network]] = {leaf: [] for leaf in self.fabric.leaves}
        for index, host in enumerate(self.fabric.hosts):
            addresses[self.fabric.leaves[host.rack]].append(IPv4Network(host_interface(index).ip))
        return {leaf: list(collapse_addresses(own)) for leaf, own in addresses.items()}

    def _plan_routes(self, switch: str) -> None:
        """Routes to all hosts of other leaves: those that leave by one port fold into address blocks."""
        through: dict[str, list[IPv4Network]] = {}
        for leaf, blocks in self._blocks_of_leaf.items():
            peer = self._next_switch[leaf].get(switch)
            if peer is not None:
                through.setdefault(peer, []).extend(blocks)
        for peer, blocks in through.items():
            for block in collapse_addresses(blocks):
                match = matching(eth_type=IPV4, ipv4_dst=_in_any_subnet(block))
                self._add(switch, ROUTES, DEFAULT_PRIORITY, match, self._output(switch, peer), "route")

    def _plan_host(self, index: int, host: str) -> None:
        leaf = self.fabric.leaf_of(host)
        mark = ("set_dscp", dscp_of_level(DEFAULT_LEVEL))
        match = matching(eth_type=IPV4, in_port=self.ports[leaf][host])
        self._add(leaf, INGRESS, DEFAULT_PRIORITY, match, (mark, ("goto", ROUTES)), "mark", src=host)
        if self._is_up(leaf, host):
            match = matching(eth_type=IPV4, ipv4_dst=_in_any_subnet(IPv4Network(host_interface(index).ip)))
            self._add(leaf, ROUTES, DEFAULT_PRIORITY, match, self._deliver(leaf, host), "route", dst=host)

    def _plan_job(self, job: JobRoutes) -> None:
        planned = {(pair.src, pair.dst): pair.path for pair in job.paths}
        addresses = {host: str(job_interface(job.index, self.fabric.host_index[host]).ip) for host in job.hosts}
        for src in job.hosts:
            for dst in job.hosts:
                if src != dst:
                    pair_addresses = [addresses[src], addresses[dst]]
                    self._plan_pair(job.name, (src, dst), pair_addresses, job.level, planned.get((src, dst)))

    def _plan_pair(
        self, job: str, pair: tuple[str, str], addresses: list[str], level: int, planned: Path | None
    ) -> None:
        """The pair's rule at its first leaf, and one at each later switch where its path is not the default route.

        A pair that no link leads to gets none: its packets count as table misses.
        """
        src, dst = pair
        leaf, last_leaf = self.fabric.leaf_of(src), self.fabric.leaf_of(dst)
        fields: dict[str, int | str] = {"eth_type": IPV4, "ipv4_src": addresses[0], "ipv4_dst": addresses[1]}
        path = self._choose_path(job, pair, planned)
        if path is not None:
            hops = [(link.src, link.dst) for link in (self.fabric.links[name] for name in path[1:-1])]
            forward = self._first_output(pair, hops, planned) if hops else self._deliver(leaf, dst)
        elif last_leaf != leaf and leaf in self._next_switch[last_leaf]:
            hops = []
            forward = self._output(leaf, self._next_switch[last_leaf][leaf])
        else:
            return
        match = matching(in_port=self.ports[leaf][src], **fields)
        mark = ("set_dscp", dscp_of_level(level))
        self._add(leaf, INGRESS, PAIR_PRIORITY, match, (mark, *forward), "pair", job, src, dst)
        if forward[0][0] == "group":
            return
        for switch, peer in hops[1:]:
            if self._next_switch[last_leaf].get(switch) != peer:
                match, forward = matching(**fields), self._output(switch, peer)
                self._add(switch, ROUTES, PAIR_PRIORITY, match, forward, "path", job, src, dst)

    def _choose_path(self, job: str, pair: tuple[str, str], planned: Path | None) -> Path | None:
        """The planned path, else the hashed one, else (links of that one are down) the hashed one of those left.

        None where links are down on every shortest path: then the default routes may still know a way round.
        """
        every = self.fabric.paths(*pair)
        if planned is not None and planned not in every:
            raise InvalidState(
                f"job {job}: the planned path from {pair[0]} to {pair[1]} is no shortest one of the fabric"
            )
        left = [path for path in every if self.state.links_down.isdisjoint(path)]
        if not left or planned in left:
            return planned if left else None
        hashed = every[hashed_path_index(self.state.seed, job, *pair, len(every))]
        return hashed if hashed in left else left[hashed_path_index(self.state.seed, job, *pair, len(left))]

    def _first_output(self, pair: tuple[str, str], hops: list[tuple[str, str]], planned: Path | None) -> Actions:
        """From the first leaf to the path's next switch, or to a select group over all that lead there."""
        leaf, peer = hops[0]
        if self.state.paths == "group" and planned is None:
            left = [path for path in self.fabric.paths(*pair) if self.state.links_down.isdisjoint(path)]
            ports = tuple(sorted({self.ports[leaf][self.fabric.links[path[1]].dst] for path in left}))
            if len(ports) > 1:
                group = Group(int.from_bytes(_digest(ports, 4), "big") >> 1, ports)
                self._groups.add((leaf, group))
                return (("group", group.number),)
        return self._output(leaf, peer)

    def _output(self, switch: str, peer: str) -> Actions:
        return (("output", self.ports[switch][peer]),)

    def _deliver(self, leaf: str, host: str) -> Actions:
        return (("set_eth_dst", host_mac(self.fabric.host_index[host])), *self._output(leaf, host))

    def _add(
        self,
        switch: str,
        table: int,
        priority: int,
        match: Match,
        actions: Actions,
        purpose: str,
        job: str | None = None,
        src: str | None = None,
        dst: str | None = None,
    ) -> None:
        """Give the switch a rule. Its cookie is a hash of all it says, so it changes whenever the rule does."""
        cookie = int.from_bytes(_digest((switch, table, priority, match, actions), 8), "big")
        flow = Flow(table, priority, cookie, match, actions)
        self._rules.append(Rule(switch, self.datapaths[switch], flow, purpose, job, src, dst))


class _Memory:
    """The planner that was used last."""

    def __init__(self) -> None:
        self._last: _Planner | None = None

    def planner(self, state: NetworkState) -> _Planner:
        if self._last is None or not self._last.serves(state):
            self._last = _Planner(state)
        return self._last


_memory = _Memory()


def _in_any_subnet(block: IPv4Network) -> str:
    """A block of base addresses, as a match on the same hosts' addresses in every subnet."""
    mask = int(block.netmask) & ANY_SUBNET
    return f"{IPv4Address(int(block.network_address) & mask)}/{IPv4Address(mask)}"


def _digest(content: object, size: int) -> bytes:
    return hashlib.blake2b(repr(content).encode(), digest_size=size).digest()


def _check(state: NetworkState) -> None:
    for fault in _faults(state):
        raise InvalidState(fault)


def _faults(state: NetworkState) -> Iterator[str]:
    hosts = state.fabric.host_index
    for job in state.jobs:
        if not 0 <= job.index < MAX_JOBS:
            yield f"job {job.name}: number {job.index} has no subnet (0 to {MAX_JOBS - 1})"
        if not 0 <= job.level < LEVELS:
            yield f"job {job.name}: level {job.level} is none of 0 to {LEVELS - 1}"
        for host in job.hosts:
            if host not in hosts:
                yield f"job {job.name}: host {host} is not in the fabric"
        for planned in job.paths:
            for host in (planned.src, planned.dst):
                if host not in job.hosts:
                    yield f"job {job.name}: its plan has a path of {host}, which is no host of it"
    indexes = [job.index for job in state.jobs]
    if len(set(indexes)) < len(indexes):
        yield f"two jobs have the same number: {sorted(indexes)}"
    for pair in state.background:
        for host in pair:
            if host not in hosts:
                yield f"background traffic: host {host} is not in the fabric"
    for link in sorted(state.links_down - state.fabric.links.keys()):
        yield f"link {link} is down but not in the fabric"
