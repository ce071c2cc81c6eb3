"""What an OpenFlow 1.3 switch holds, as plain data: flow entries and select groups."""

from __future__ import annotations

from dataclasses import dataclass

Match = tuple[tuple[str, int | str], ...]
"""(OpenFlow field, value), sorted by field. An IPv4 value is 'address' or 'address/mask'; masks may have holes."""
Actions = tuple[tuple[str, int | str], ...]
"""(name, argument) in order: set_dscp CODE POINT, set_eth_dst MAC, output PORT, group ID, goto TABLE. Empty drops."""
FlowKey = tuple[int, int, Match]

IPV4 = 0x0800


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow entry. A switch holds one for each (table, priority, match): a new one takes the old one's place."""

    table: int
    priority: int
    cookie: int
    match: Match
    actions: Actions

    @property
    def key(self) -> FlowKey:
        return (self.table, self.priority, self.match)


@dataclass(frozen=True, slots=True)
class Group:
    """A select group: the switch spreads flows over `ports` by a hash of their addresses, protocol and TCP ports.

    Open vSwitch's default hash ignores UDP ports, so UDP between two hosts stays on one port.
    """

    number: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """All that one switch holds, or shall hold."""

    flows: frozenset[Flow] = frozenset()
    groups: frozenset[Group] = frozenset()


def matching(**fields: int | str) -> Match:
    """A match on these fields, in the order that makes equal matches equal."""
    return tuple(sorted(fields.items()))
