"""Applies a scenario's link events to the standing fabric: a cable down, up again, or at another rate."""

from __future__ import annotations

from dataclasses import dataclass

from harmonics_emu.emulate import tc
from harmonics_emu.emulate.network import set_cable_state
from harmonics_emu.errors import RunFailed
from topologies.fabric import Fabric
from workloads.job import LinkEvent


@dataclass(frozen=True)
class LinkChange:
    """Directed links that stopped carrying, and that carry again."""

    lost: frozenset[str] = frozenset()
    restored: frozenset[str] = frozenset()


def apply_link_event(fabric: Fabric, event: LinkEvent) -> LinkChange:
    """Carry one event out. A cable goes down as a whole, both ways, whichever of its names the event uses."""
    cable = next(cable for cable in fabric.cables.values() if event.link in (cable.name, cable.up, cable.down))
    names = frozenset((cable.up, cable.down))
    if event.action == "down":
        set_cable_state(fabric, cable.name, up=False)
        return LinkChange(lost=names)
    if event.action == "up":
        set_cable_state(fabric, cable.name, up=True)
        return LinkChange(restored=names)
    if event.rate_bps is None:
        raise RunFailed(f"event {event.action!r} on {event.link} names no rate")
    for link in fabric.links_named(event.link):
        tc.set_rate(fabric, link.name, event.rate_bps)
    return LinkChange()
