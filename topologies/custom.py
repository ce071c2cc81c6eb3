"""A fabric from a list of links, for what no other builder draws.

       a ---\\             /--- c          hosts: a, b, c, d
             s0 ------- s1                links: a-s0, b-s0, c-s1, d-s1, s0-s1, each with a rate and,
       b ---/             \\--- d          where wanted, a delay and a loss

Every end that is not a host is a switch. Switches with hosts are leaves, numbered in the order of their first host;
switches next to a leaf are spines, those further up cores. A cable is named lower end first: host before switch,
leaf before spine before core, and between two switches of a tier the one that the links name first.

    sudo python -m topologies.custom --host a --host b --link a s0 1Gbit --link b s0 100Mbit

opens the Mininet prompt on such a fabric, with the controller attached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from topologies.fabric import CableSpec, Fabric, Host, Switch, assemble
from topologies.standalone import open_prompt

KIND = "custom"


@dataclass(frozen=True, slots=True)
class CustomLink:
    """A cable between `a` and `b`; both directions have the rate, the delay (seconds) and the loss (fraction)."""

    a: str
    b: str
    rate_bps: int
    delay_s: float = 0.0
    loss: float = 0.0


def custom(
    hosts: Sequence[str], links: Sequence[CustomLink], gpus_per_host: int = 1, intra_host_bps: int | None = None
) -> Fabric:
    """The fabric of these hosts and cables. ValueError, in a plain sentence, if it can't be one network."""
    if not hosts:
        raise ValueError("a fabric needs at least one host")
    if len(set(hosts)) < len(hosts):
        raise ValueError(f"host {next(host for host in hosts if hosts.count(host) > 1)} is listed twice")
    peers = _peers(links)
    leaves = _leaves(hosts, peers)
    tiers = dict.fromkeys(leaves, "leaf")
    known = tiers.keys() | set(hosts)
    others = [name for name in peers if name not in known]
    _refuse_dead_ends([*leaves, *others], peers)
    _refuse_islands(hosts, peers)
    tiers |= {name: "core" if peers[name].isdisjoint(leaves) else "spine" for name in others}

    heights = {"leaf": 1, "spine": 2, "core": 3}
    order = {name: (heights[tier], number) for number, (name, tier) in enumerate(tiers.items())}

    def cable(link: CustomLink) -> CableSpec:
        lower, upper = sorted((link.a, link.b), key=lambda name: order.get(name, (0, 0)))
        return CableSpec(lower, upper, link.rate_bps, link.delay_s, link.loss)

    racks = {name: rack for rack, name in enumerate(leaves)}
    return assemble(
        KIND,
        (Host(host, racks[min(peers[host])]) for host in hosts),
        (Switch(name, tier) for name, tier in tiers.items()),
        map(cable, links),
        gpus_per_host=gpus_per_host,
        intra_host_bps=intra_host_bps,
    )


def _peers(links: Sequence[CustomLink]) -> dict[str, set[str]]:
    """Each node's neighbours, nodes in the order in which the links name them."""
    peers: dict[str, set[str]] = {}
    for link in links:
        if link.a == link.b:
            raise ValueError(f"a link joins {link.a} to itself")
        if link.b in peers.get(link.a, ()):
            raise ValueError(f"two links join {link.a} and {link.b}")
        peers.setdefault(link.a, set()).add(link.b)
        peers.setdefault(link.b, set()).add(link.a)
    return peers


def _leaves(hosts: Sequence[str], peers: Mapping[str, set[str]]) -> tuple[str, ...]:
    """The switches that hosts hang on, in the order of their first host."""
    found: dict[str, None] = {}
    named = set(hosts)
    for host in hosts:
        cables = peers.get(host, set())
        if len(cables) != 1:
            raise ValueError(f"host {host} has {len(cables)} links but needs exactly one")
        (leaf,) = cables
        if leaf in named:
            raise ValueError(f"hosts {host} and {leaf} are linked to each other, but a host hangs on a switch")
        found[leaf] = None
    return tuple(found)


def _refuse_dead_ends(switches: Sequence[str], peers: Mapping[str, set[str]]) -> None:
    for name in switches:
        if len(peers[name]) == 1:
            (other,) = peers[name]
            raise ValueError(
                f"{name}, an end of the link to {other}, is neither a listed host nor a switch with more links"
            )


def _refuse_islands(hosts: Sequence[str], peers: Mapping[str, set[str]]) -> None:
    reached, frontier = {hosts[0]}, [hosts[0]]
    while frontier:
        for peer in peers[frontier.pop()] - reached:
            reached.add(peer)
            frontier.append(peer)
    for host in hosts:
        if host not in reached:
            raise ValueError(f"no path joins hosts {hosts[0]} and {host}")


@click.command()
@click.option("--host", "hosts", multiple=True, required=True, help="A host's name; give it once for each host.")
@click.option("--link", "links", multiple=True, required=True, nargs=3, metavar="A B RATE", help="One cable.")
def main(hosts: tuple[str, ...], links: tuple[tuple[str, str, str], ...]) -> None:
    """Open the Mininet prompt on a fabric given link by link."""
    open_prompt(
        {"kind": KIND, "hosts": list(hosts), "links": [{"between": [a, b], "rate": rate} for a, b, rate in links]}
    )


if __name__ == "__main__":
    main()
