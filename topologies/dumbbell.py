"""Two groups of hosts with one cable between them: the smallest fabric on which jobs contend.

       r0h0 --\\                        /-- r1h0
       r0h1 --- leaf0 ---------- leaf1 --- r1h1
        ..  --/       uplink_rate      \\-- ..
          host_rate

Every flow from one side to the other crosses `leaf0-leaf1`, so what a policy does about one shared link shows here
with nothing else in the way; hosts of one side reach each other without it. Both switches are leaves: the cable is
named after the lower-numbered one, and its `up` direction is leaf0>leaf1.

    sudo python -m topologies.dumbbell --hosts 2

opens the Mininet prompt on this fabric, with the controller attached.
"""

from __future__ import annotations

import click

from topologies.fabric import CableSpec, Fabric, Host, Switch, assemble, require_positive
from topologies.standalone import open_prompt

KIND = "dumbbell"


def dumbbell(
    hosts_per_side: int,
    host_rate_bps: int,
    uplink_rate_bps: int,
    gpus_per_host: int = 1,
    intra_host_bps: int | None = None,
) -> Fabric:
    """Hosts r0h0.. on leaf0 and r1h0.. on leaf1, joined by the cable leaf0-leaf1. ValueError for counts below 1."""
    require_positive(hosts_per_side=hosts_per_side)
    hosts = [Host(f"r{side}h{host}", side) for side in range(2) for host in range(hosts_per_side)]
    return assemble(
        KIND,
        hosts,
        (Switch("leaf0", "leaf"), Switch("leaf1", "leaf")),
        (
            *(CableSpec(host.name, f"leaf{host.rack}", host_rate_bps) for host in hosts),
            CableSpec("leaf0", "leaf1", uplink_rate_bps),
        ),
        gpus_per_host=gpus_per_host,
        intra_host_bps=intra_host_bps,
    )


@click.command()
@click.option("--hosts", type=click.IntRange(1), default=2, show_default=True, help="Hosts on each side.")
@click.option("--host-rate", default="1Gbit", show_default=True)
@click.option("--uplink-rate", default="500Mbit", show_default=True)
def main(hosts: int, host_rate: str, uplink_rate: str) -> None:
    """Open the Mininet prompt on two groups of hosts that share one cable."""
    open_prompt({"kind": KIND, "hosts_per_side": hosts, "host_rate": host_rate, "uplink_rate": uplink_rate})


if __name__ == "__main__":
    main()
