"""A fabric as plain data: hosts, switches, directed links, and the equal-cost paths between hosts.

Every builder (rack-spine, dumbbell, fat-tree, custom) returns a `Fabric`; the emulator, the simulator, the
controller and the schedulers all read the same one.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from functools import cached_property

Path = tuple[str, ...]
"""Names of directed links, in the order that a packet crosses them."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine with one NIC. `rack` is the index of the leaf it hangs on."""

    name: str
    rack: int


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch. `tier` is 'leaf', 'spine', 'aggregation' or 'core'; hosts hang on leaves only."""

    name: str
    tier: str


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a cable, named `src>dst`. Rate in bits per second, delay in seconds, loss as a fraction."""

    name: str
    src: str
    dst: str
    rate_bps: int
    delay_s: float = 0.0
    loss: float = 0.0


@dataclass(frozen=True, slots=True)
class Cable:
    """Both directions between two neighbours, named `lower-upper` (`r0h1-leaf0`, `leaf0-spine0`)."""

    name: str
    up: str
    down: str


@dataclass(frozen=True)
class Fabric:
    """Hosts, switches and directed links. Names are unique over hosts and switches together.

    `links` maps a link's name to the link; each cable is two links of the same rate. `cables` maps a cable's name
    to its two links. `intra_host_bps` joins the GPUs of one host and is None where `gpus_per_host` is 1.
    """

    kind: str
    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    links: dict[str, Link]
    cables: dict[str, Cable]
    gpus_per_host: int = 1
    intra_host_bps: int | None = None

    @cached_property
    def host_index(self) -> dict[str, int]:
        return {host.name: index for index, host in enumerate(self.hosts)}

    @cached_property
    def rack_of(self) -> dict[str, int]:
        return {host.name: host.rack for host in self.hosts}

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Leaf names in rack order: `leaves[host.rack]` is the host's leaf."""
        return tuple(switch.name for switch in self.switches if switch.tier == "leaf")

    @cached_property
    def neighbours(self) -> dict[str, tuple[str, ...]]:
        """Directed adjacency: node name to the nodes it has a link to, in the order the links were given."""
        found: dict[str, list[str]] = {node: [] for node in (*self.host_index, *(s.name for s in self.switches))}
        for link in self.links.values():
            found[link.src].append(link.dst)
        return {node: tuple(peers) for node, peers in found.items()}

    def leaf_of(self, host: str) -> str:
        return self.leaves[self.rack_of[host]]

    def links_named(self, name: str) -> tuple[Link, ...]:
        """The links that `name` means: both directions of a cable, or one directed link. KeyError if neither."""
        if name in self.cables:
            cable = self.cables[name]
            return (self.links[cable.up], self.links[cable.down])
        return (self.links[name],)

    def paths(self, src: str, dst: str) -> tuple[Path, ...]:
        """All shortest paths from one host to another, in a fixed order; empty if there is none or src is dst."""
        if src == dst:
            return ()
        first, last = self.leaf_of(src), self.leaf_of(dst)
        up, down = f"{src}>{first}", f"{last}>{dst}"
        return tuple((up, *middle, down) for middle in self._leaf_paths(first, last))

    @cached_property
    def _leaf_path_cache(self) -> dict[tuple[str, str], tuple[Path, ...]]:
        return {}

    def _leaf_paths(self, first: str, last: str) -> tuple[Path, ...]:
        key = (first, last)
        if key not in self._leaf_path_cache:
            self._leaf_path_cache[key] = tuple(_shortest_paths(self.neighbours, self.host_index, first, last))
        return self._leaf_path_cache[key]


def _shortest_paths(neighbours: dict[str, tuple[str, ...]], hosts: dict[str, int], src: str, dst: str) -> list[Path]:
    """Every shortest path between two switches that crosses switches only."""
    if src == dst:
        return [()]
    distance = {src: 0}
    queue = deque([src])
    while queue:
        node = queue.popleft()
        if node == dst:
            break
        for peer in neighbours[node]:
            if peer not in hosts and peer not in distance:
                distance[peer] = distance[node] + 1
                queue.append(peer)
    if dst not in distance:
        return []
    found: list[Path] = []

    def extend(node: str, links: Path) -> None:
        if node == dst:
            found.append(links)
            return
        for peer in neighbours[node]:
            if distance.get(peer) == distance[node] + 1 and distance[peer] <= distance[dst]:
                extend(peer, (*links, f"{node}>{peer}"))

    extend(src, ())
    return found


def hashed_path_index(seed: int, job: str, src: str, dst: str, choices: int) -> int:
    """The path that a job's flow takes by default: a seeded hash of (job, source host, destination host).

    Both engines call this, so a flow takes the same path on the emulator and in the simulator.
    """
    digest = hashlib.blake2b(f"{seed}\0{job}\0{src}\0{dst}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % choices
