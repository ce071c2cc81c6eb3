"""How to get from the entries that switches hold to those they shall hold, without losing a packet under way.

Make before break. Each stage is carried out on all switches, up to a barrier, before the next one begins:

  1. new groups
  2. new and changed routes, which no packet of a new path has reached yet
  3. new and changed ingress entries: each moves its pair to the new path at once, as an entry is replaced atomically
  4. entries that nothing needs any more; packets still on an old path fall to the default routes, which reach every
     destination from every switch
  5. groups that nothing points to any more
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from controller.flows import Flow, Group, Tables
from controller.rules import INGRESS


@dataclass(frozen=True, slots=True)
class Change:
    """Put an entry or group into a switch, in the place of one of the same key if there is one, or take it out."""

    operation: Literal["add", "delete"]
    item: Flow | Group


Stage = dict[int, list[Change]]
"""Changes of each switch, by datapath id; switches without any are left out."""


def stages(installed: Mapping[int, Tables], wanted: Mapping[int, Tables]) -> list[Stage]:
    """The stages, in order, that turn `installed` into `wanted` (both by datapath id); empty ones are left out."""
    found: list[Stage] = [{} for _ in range(5)]
    for datapath_id, target in wanted.items():
        for number, change in _changes(installed[datapath_id], target):
            found[number].setdefault(datapath_id, []).append(change)
    return [stage for stage in found if stage]


def _changes(held: Tables, target: Tables) -> Iterator[tuple[int, Change]]:
    for group in target.groups - held.groups:
        yield 0, Change("add", group)
    for flow in target.flows - held.flows:
        yield (2 if flow.table == INGRESS else 1), Change("add", flow)
    taken = {flow.key for flow in target.flows}
    for flow in held.flows - target.flows:
        if flow.key not in taken:
            yield 3, Change("delete", flow)
    for group in held.groups - target.groups:
        yield 4, Change("delete", group)
