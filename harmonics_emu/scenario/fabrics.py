"""The scenario's `fabric` section: one class a kind, each of which builds its Fabric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field

from harmonics_emu.scenario.fields import Count, NodeName, Percent, Rate, Section, Time
from topologies.custom import CustomLink, custom
from topologies.dumbbell import dumbbell
from topologies.fabric import Fabric
from topologies.fat_tree import fat_tree
from topologies.rack_spine import rack_spine

MAX_CABLES = 500_000
MAX_CUSTOM_LINKS = 2_000
MAX_HOPS = 64
MAX_EQUAL_PATHS = 1_024
"""Between two leaves: what lists a pair's paths must stay quick."""


class _FabricSection(Section):
    gpus_per_host: Count = 1
    """GPUs in each host; they share its NIC."""
    intra_host_rate: Rate | None = None
    """Rate of the link that joins the GPUs of one host; needed where there are several, and only there."""

    def complaints(self) -> Iterator[tuple[str, str, str | None]]:
        """What keeps `build` from working: (key, what is wrong, hint)."""
        if self.cables() > MAX_CABLES:
            yield "kind", f"this fabric has {self.cables()} cables; at most {MAX_CABLES} are possible", None
        if self.gpus_per_host > 1 and self.intra_host_rate is None:
            hint = "say how fast the GPUs of one host are joined, as intra_host_rate: 200Gbit"
            yield "intra_host_rate", "missing, but gpus_per_host is above 1", hint
        if self.gpus_per_host == 1 and self.intra_host_rate is not None:
            yield "intra_host_rate", "given, but a host has one GPU only", "set gpus_per_host, or remove this key"

    def cables(self) -> int:
        raise NotImplementedError

    def resolved(self) -> Self:
        """The same with every rate given as such."""
        return self

    def build(self) -> Fabric:
        """The fabric. ValueError, in a plain sentence, if it is impossible."""
        raise NotImplementedError


class RackSpine(_FabricSection):
    """Racks of hosts under leaf switches, each leaf joined to every spine: hosts r0h0.., leaf0.., spine0.."""

    kind: Literal["rack-spine"]
    racks: Count
    hosts_per_rack: Count
    spines: Annotated[int, Field(ge=1, le=MAX_EQUAL_PATHS, strict=True)]
    host_rate: Rate
    """Rate of each host's link (emulated)."""
    uplink_rate: Rate | None = None
    """Rate of each link from a leaf to a spine (emulated)."""
    oversubscription: Annotated[float, Field(gt=0, le=10**6, strict=True)] | None = None
    """Instead of uplink_rate: what a rack's hosts can send, over what its uplinks carry."""

    def complaints(self) -> Iterator[tuple[str, str, str | None]]:
        yield from super().complaints()
        if self.uplink_rate is None and self.oversubscription is None:
            yield "uplink_rate", "missing", "give uplink_rate, or oversubscription instead"
        elif self.uplink_rate is not None and self.oversubscription is not None:
            yield "oversubscription", "given together with uplink_rate", "remove one of the two"
        elif self.uplink_bps() < 1:
            yield "oversubscription", "leaves less than 1 bit/s for an uplink", "lower it"

    def uplink_bps(self) -> int:
        if self.oversubscription is None:
            return self.uplink_rate or 0
        return round(self.hosts_per_rack * self.host_rate / self.spines / self.oversubscription)

    def resolved(self) -> Self:
        return self.model_copy(update={"uplink_rate": self.uplink_bps(), "oversubscription": None})

    def cables(self) -> int:
        return self.racks * (self.hosts_per_rack + self.spines)

    def build(self) -> Fabric:
        return rack_spine(
            self.racks,
            self.hosts_per_rack,
            self.spines,
            self.host_rate,
            self.uplink_bps(),
            self.gpus_per_host,
            self.intra_host_rate,
        )


class Dumbbell(_FabricSection):
    """Two leaves with a link between them and hosts on each: r0h0.. on leaf0, r1h0.. on leaf1."""

    kind: Literal["dumbbell"]
    hosts_per_side: Count
    host_rate: Rate
    """Rate of each host's link (emulated)."""
    uplink_rate: Rate
    """Rate of the link between the two leaves (emulated)."""

    def cables(self) -> int:
        return 2 * self.hosts_per_side + 1

    def build(self) -> Fabric:
        return dumbbell(self.hosts_per_side, self.host_rate, self.uplink_rate, self.gpus_per_host, self.intra_host_rate)


class FatTree(_FabricSection):
    """A fat-tree of k-port switches with k^3/4 hosts: p0e0h0, .. (pod, edge switch, host)."""

    kind: Literal["fat-tree"]
    k: Annotated[int, Field(ge=2, le=64, strict=True)]
    """Ports of each switch, even."""
    rate: Rate
    """Rate of every link (emulated)."""

    def cables(self) -> int:
        return 3 * self.k**3 // 4

    def build(self) -> Fabric:
        return fat_tree(self.k, self.rate, self.gpus_per_host, self.intra_host_rate)


class CustomLinkSection(Section):
    """One cable of a custom fabric, the same in both directions."""

    between: Annotated[tuple[NodeName, ...], Field(min_length=2, max_length=2)]
    """Its two ends: hosts or switches."""
    rate: Rate
    delay: Time = 0.0
    loss: Percent = 0.0


class Custom(_FabricSection):
    """A fabric of the user's own, link by link; every end that is no host is a switch."""

    kind: Literal["custom"]
    hosts: Annotated[tuple[NodeName, ...], Field(min_length=1)]
    links: Annotated[tuple[CustomLinkSection, ...], Field(min_length=1, max_length=MAX_CUSTOM_LINKS)]

    def cables(self) -> int:
        return len(self.links)

    def build(self) -> Fabric:
        links = []
        for link in self.links:
            a, b = link.between
            links.append(CustomLink(a, b, link.rate, link.delay, link.loss))
        fabric = custom(self.hosts, links, self.gpus_per_host, self.intra_host_rate)
        _refuse_mazes(fabric)
        return fabric


FabricSection = Annotated[RackSpine | Dumbbell | FatTree | Custom, Field(discriminator="kind")]


def _refuse_mazes(fabric: Fabric) -> None:
    """ValueError if listing the shortest paths between leaves would take for ever: their number can be exponential."""
    hosts = fabric.host_index
    for first in fabric.leaves:
        paths = {first: 1}
        level = [first]
        hops = 0
        while level:
            hops += 1
            following: dict[str, int] = {}
            for node in level:
                for peer in fabric.neighbours[node]:
                    if peer not in hosts and peer not in paths:
                        following[peer] = following.get(peer, 0) + paths[node]
            paths |= following
            level = list(following)
            if hops > MAX_HOPS and level:
                raise ValueError(f"switches {first} and {level[0]} are more than {MAX_HOPS} hops apart")
            for node, count in following.items():
                if count > MAX_EQUAL_PATHS:
                    raise ValueError(f"switches {first} and {node} are joined by more than {MAX_EQUAL_PATHS} paths")
