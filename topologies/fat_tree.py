"""The three-tier fat-tree of k-port switches (Al-Fares, Loukissas, Vahdat: SIGCOMM 2008), all cables of one rate.

    core0   core1   core2   core3         (k/2)^2 cores; core i hangs on switch i // (k/2) of every pod's
      |  \\   ...     ...   /  |           aggregation tier
      |                       |
    p0a0   p0a1    ...    p3a0   p3a1     k pods of k/2 aggregation switches
      |  \\/  |             |  \\/  |
      |  /\\  |             |  /\\  |
    p0e0   p0e1    ...    p3e0   p3e1     k pods of k/2 edge switches (tier 'leaf')
     /\\     /\\             /\\     /\\
    h0 h1  h0 h1          h0 h1  h0 h1    k/2 hosts an edge switch, named p0e0h0, p0e0h1, p0e1h0, ..
                                          (drawn for k = 4)

Nothing is oversubscribed: any pairing of hosts could run at full rate, if flows were spread well over the paths. Two
hosts have 1 path under one edge switch, k/2 within a pod and (k/2)^2 between pods, so what contention there is comes
from path choice. `k` must be even.

    sudo python -m topologies.fat_tree --k 4

opens the Mininet prompt on this fabric, with the controller attached.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from topologies.fabric import CableSpec, Fabric, Host, Switch, assemble
from topologies.standalone import open_prompt

KIND = "fat-tree"


def fat_tree(k: int, rate_bps: int, gpus_per_host: int = 1, intra_host_bps: int | None = None) -> Fabric:
    """k pods, k^3/4 hosts p0e0h0.., edge switches p0e0.., aggregation p0a0.., core0... ValueError unless k is even."""
    if k < 2 or k % 2:
        raise ValueError(f"k is {k} but a fat-tree needs an even number of at least 2")
    half = k // 2
    edges = [f"p{pod}e{edge}" for pod in range(k) for edge in range(half)]
    aggregations = [f"p{pod}a{position}" for pod in range(k) for position in range(half)]

    def cables() -> Iterator[CableSpec]:
        for rack, edge in enumerate(edges):
            for host in range(half):
                yield CableSpec(f"{edge}h{host}", edge, rate_bps)
            for position in range(half):
                yield CableSpec(edge, f"p{rack // half}a{position}", rate_bps)
        for number, aggregation in enumerate(aggregations):
            for port in range(half):
                yield CableSpec(aggregation, f"core{number % half * half + port}", rate_bps)

    return assemble(
        KIND,
        (Host(f"{edge}h{host}", rack) for rack, edge in enumerate(edges) for host in range(half)),
        (
            *(Switch(name, "leaf") for name in edges),
            *(Switch(name, "aggregation") for name in aggregations),
            *(Switch(f"core{number}", "core") for number in range(half * half)),
        ),
        cables(),
        gpus_per_host=gpus_per_host,
        intra_host_bps=intra_host_bps,
    )


@click.command()
@click.option("--k", type=click.IntRange(2), default=4, show_default=True, help="Ports of each switch, even.")
@click.option("--rate", default="1Gbit", show_default=True)
def main(k: int, rate: str) -> None:
    """Open the Mininet prompt on a fat-tree of k-port switches."""
    if k % 2:
        raise click.BadParameter("a fat-tree needs an even number", param_hint="--k")
    open_prompt({"kind": KIND, "k": k, "rate": rate})


if __name__ == "__main__":
    main()
