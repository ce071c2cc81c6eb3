"""Which way along a link a flow goes: by the fabric's paths where it is known, else by who sends to whom."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence.address_groups import Address, Groups, addresses_of
from topologies.fabric import Fabric

Directions = NDArray[np.int64]
"""Of each flow 0 or 1, or -1 where it is not known."""


def directions_on_cable(flows: NDArray[Any], fabric: Fabric, cable: str, groups: Groups) -> Directions:
    """Directions on a cable of the fabric: 0 up, 1 down. KeyError if there is no such cable."""
    up, down = fabric.cables[cable].up, fabric.cables[cable].down
    found = np.full(len(flows), -1, np.int64)
    known: dict[tuple[str, str], int] = {}
    for place, flow in enumerate(flows):
        src, dst = (groups.hosts.get(address) for address in addresses_of(flow))
        if src is None or dst is None:
            continue
        if (src, dst) not in known:
            crossed = {link for path in fabric.paths(src, dst) for link in path}
            known[src, dst] = 0 if up in crossed else 1 if down in crossed else -1
        found[place] = known[src, dst]
    return found


def guess_directions(flows: NDArray[Any]) -> Directions:
    """Directions on a link of which nothing else is known.

    Both ends of a flow lie on different sides of the link, and addresses that send with one MAC on the same side. What
    is connected so is divided into two sides; of parts that are not connected, the lowest address is put on the same
    side, which may be wrong.
    """
    side: dict[Any, int] = {}
    neighbours: dict[Any, list[tuple[Any, int]]] = {}
    ends = [addresses_of(flow) for flow in flows]
    senders: dict[int, set[Address]] = {}
    for (src, _), flow in zip(ends, flows, strict=True):
        senders.setdefault(int(flow["source_mac"]), set()).add(src)
    # A MAC that sends for both ends of a flow (a router's, or none) says nothing of sides.
    telling = {mac for mac, behind in senders.items() if mac and not any(s in behind and d in behind for s, d in ends)}
    for (src, dst), flow in zip(ends, flows, strict=True):
        _join(neighbours, src, dst, 1)
        if flow["source_mac"] in telling:
            _join(neighbours, src, int(flow["source_mac"]), 0)
    for start in sorted({src for src, _ in ends}, key=lambda address: (address.version, int(address))):
        if start in side:
            continue
        side[start] = 0
        waiting: list[Any] = [start]
        while waiting:
            node = waiting.pop()
            for other, apart in neighbours[node]:
                if other not in side:
                    side[other] = side[node] ^ apart
                    waiting.append(other)
    return np.array([side[src] for src, _ in ends], np.int64)


def _join(neighbours: dict[Any, list[tuple[Any, int]]], a: Address, b: Address | int, apart: int) -> None:
    neighbours.setdefault(a, []).append((b, apart))
    neighbours.setdefault(b, []).append((a, apart))
