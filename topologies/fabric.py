"""A fabric as plain data: hosts, switches, directed links, and the equal-cost paths between hosts.

Every builder (rack-spine, dumbbell, fat-tree, custom) returns a `Fabric`; the emulator, the simulator, the
controller and the schedulers all read the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
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
            self._leaf_path_cache[key] = tuple(_shortest_paths(self._switch_neighbours, first, last))
        return self._leaf_path_cache[key]

    @cached_property
    def _switch_neighbours(self) -> dict[str, dict[str, int]]:
        """Each switch's neighbours that are switches, with their positions among its neighbours."""
        hosts = self.host_index
        return {
            switch.name: {p: position for position, p in enumerate(self.neighbours[switch.name]) if p not in hosts}
            for switch in self.switches
        }


@dataclass(frozen=True, slots=True)
class CableSpec:
    """What a builder says of one cable: its lower and upper end, and what both of its directions are like."""

    lower: str
    upper: str
    rate_bps: int
    delay_s: float = 0.0
    loss: float = 0.0


def assemble(
    kind: str,
    hosts: Iterable[Host],
    switches: Iterable[Switch],
    cables: Iterable[CableSpec],
    *,
    gpus_per_host: int = 1,
    intra_host_bps: int | None = None,
) -> Fabric:
    """The fabric that a builder described. ValueError, in a plain sentence, where a name or a number can't be."""
    hosts, switches = tuple(hosts), tuple(switches)
    require_positive(gpus_per_host=gpus_per_host)
    if gpus_per_host == 1:
        intra_host_bps = None
    elif intra_host_bps is None or intra_host_bps <= 0:
        raise ValueError(f"gpus_per_host is {gpus_per_host}, so intra_host_bps must be a rate above zero")
    names = {host.name for host in hosts} | {switch.name for switch in switches}
    if len(names) < len(hosts) + len(switches):
        raise ValueError("two hosts or switches have the same name")
    links: dict[str, Link] = {}
    named: dict[str, Cable] = {}
    for cable in cables:
        name = f"{cable.lower}-{cable.upper}"
        if not {cable.lower, cable.upper} <= names:
            raise ValueError(f"cable {name} has an end that is neither a host nor a switch")
        if cable.rate_bps <= 0:
            raise ValueError(f"cable {name} has the rate {cable.rate_bps} but needs one above zero")
        if cable.delay_s < 0 or not 0 <= cable.loss < 1:
            raise ValueError(f"cable {name} needs a delay of at least 0 and a loss of at least 0 and below 1")
        up, down = f"{cable.lower}>{cable.upper}", f"{cable.upper}>{cable.lower}"
        if name in named or up in links:
            raise ValueError(f"two cables are named {name}")
        named[name] = Cable(name, up, down)
        links[up] = Link(up, cable.lower, cable.upper, cable.rate_bps, cable.delay_s, cable.loss)
        links[down] = Link(down, cable.upper, cable.lower, cable.rate_bps, cable.delay_s, cable.loss)
    return Fabric(kind, hosts, switches, links, named, gpus_per_host, intra_host_bps)


def require_positive(**counts: int) -> None:
    """ValueError that names the first argument below 1."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} is {count} but must be at least 1")


def _shortest_paths(neighbours: Mapping[str, Mapping[str, int]], src: str, dst: str) -> list[Path]:
    """Every shortest path between two switches, at each switch in the order in which its links were given."""
    levels = _levels_towards(neighbours, src, dst)
    found: list[Path] = []

    def extend(node: str, links: Path) -> None:
        hops = len(levels) - 1 - len(links)
        if hops == 0:
            found.append(links)
            return
        onward = neighbours[node]
        for peer in sorted(onward.keys() & levels[hops - 1], key=onward.__getitem__):
            extend(peer, (*links, f"{node}>{peer}"))

    if levels:
        extend(src, ())
    return found


def _levels_towards(neighbours: Mapping[str, Mapping[str, int]], src: str, dst: str) -> list[set[str]]:
    """Element n holds the switches n hops from `dst` that the shortest paths from `src` may cross; the last is {src}.

    Empty if there is no path. Searches from both ends at once: in a fabric of thousands of leaves the two searches
    meet after a few switches.
    """
    ahead, behind = [{src}], [{dst}]
    while not ahead[-1] & behind[-1]:
        levels = ahead if len(ahead[-1]) <= len(behind[-1]) else behind
        level = {peer for node in levels[-1] for peer in neighbours[node]}.difference(*levels[-2:])
        if not level:
            return []
        levels.append(level)
    # Of what the search from src saw, only switches that lead to where the searches met lie on a shortest path.
    behind[-1] &= ahead[-1]
    for level in reversed(ahead[:-1]):
        behind.append({node for node in level if not behind[-1].isdisjoint(neighbours[node])})
    return behind


def hashed_path_index(seed: int, job: str, src: str, dst: str, choices: int) -> int:
    """The path that a job's flow takes by default: a seeded hash of (job, source host, destination host).

    Both engines call this, so a flow takes the same path on the emulator and in the simulator.
    """
    digest = hashlib.blake2b(f"{seed}\0{job}\0{src}\0{dst}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % choices
