"""Racks of hosts under leaf switches, every leaf joined to every spine.

         spine0      spine1
           | \\        / |
           |   \\    /   |          uplinks: uplink_rate
           |     \\/     |
           |     /\\     |
           |   /    \\   |
         leaf0       leaf1
        / | | \\     / | | \\        host links: host_rate
       h0 .. .. h3  h0 .. .. h3
         rack 0       rack 1        hosts are r0h0, r0h1, .. r1h0, ..

Two hosts of one rack have one path; hosts of different racks have one path through each spine. A rack is
oversubscribed by (hosts_per_rack * host_rate) / (spines * uplink_rate): above 1, jobs that cross racks
contend for the uplinks even where no two of them share a host.

    sudo python -m topologies.rack_spine --racks 2 --hosts 4

opens the Mininet prompt on this fabric, with the controller attached. Plain Mininet can build it too, with its own
switches, its own controller and without shaping (one spine only: a learning switch knows no loops):

    sudo PYTHONPATH=. .venv/bin/python .venv/bin/mn --custom topologies/rack_spine.py --topo rack-spine,2,4
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from topologies.fabric import CableSpec, Fabric, Host, Switch, assemble, require_positive
from topologies.standalone import open_prompt

if TYPE_CHECKING:
    from topologies.mininet_topo import FabricTopo

KIND = "rack-spine"


def rack_spine(
    racks: int,
    hosts_per_rack: int,
    spines: int,
    host_rate_bps: int,
    uplink_rate_bps: int,
    gpus_per_host: int = 1,
    intra_host_bps: int | None = None,
) -> Fabric:
    """Hosts r0h0.. on leaf0.., each leaf joined to each of spine0.. by one cable. ValueError for counts below 1."""
    require_positive(racks=racks, hosts_per_rack=hosts_per_rack, spines=spines)

    def cables() -> Iterator[CableSpec]:
        for rack in range(racks):
            for host in range(hosts_per_rack):
                yield CableSpec(f"r{rack}h{host}", f"leaf{rack}", host_rate_bps)
            for spine in range(spines):
                yield CableSpec(f"leaf{rack}", f"spine{spine}", uplink_rate_bps)

    return assemble(
        KIND,
        (Host(f"r{rack}h{host}", rack) for rack in range(racks) for host in range(hosts_per_rack)),
        (
            *(Switch(f"leaf{rack}", "leaf") for rack in range(racks)),
            *(Switch(f"spine{spine}", "spine") for spine in range(spines)),
        ),
        cables(),
        gpus_per_host=gpus_per_host,
        intra_host_bps=intra_host_bps,
    )


def mininet_topo(racks: int = 2, hosts_per_rack: int = 4, spines: int = 1) -> FabricTopo:
    """The Topo that `mn --topo rack-spine,RACKS,HOSTS` builds. It is not shaped, so its rates mean nothing."""
    from topologies.mininet_topo import FabricTopo

    return FabricTopo(rack_spine(racks, hosts_per_rack, spines, host_rate_bps=10**9, uplink_rate_bps=10**9))


topos = {KIND: mininet_topo}
"""What `mn --custom` looks for."""


@click.command()
@click.option("--racks", type=click.IntRange(1), default=2, show_default=True)
@click.option("--hosts", type=click.IntRange(1), default=4, show_default=True, help="Hosts in each rack.")
@click.option("--spines", type=click.IntRange(1), default=1, show_default=True)
@click.option("--host-rate", default="1Gbit", show_default=True)
@click.option("--uplink-rate", default="500Mbit", show_default=True)
def main(racks: int, hosts: int, spines: int, host_rate: str, uplink_rate: str) -> None:
    """Open the Mininet prompt on racks of hosts under spines."""
    open_prompt(
        {
            "kind": KIND,
            "racks": racks,
            "hosts_per_rack": hosts,
            "spines": spines,
            "host_rate": host_rate,
            "uplink_rate": uplink_rate,
        }
    )


if __name__ == "__main__":
    main()
