"""Switches in memory: what OpenFlow tables do to a packet, and where a fabric of them takes it. For tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from controller.difference import Change
from controller.flows import IPV4, Flow, Group, Match, Tables
from topologies.addressing import GATEWAY_MAC, datapath_ids, port_numbers
from topologies.fabric import Fabric

MAX_HOPS = 32


@dataclass(frozen=True)
class Packet:
    """The fields of a packet that the rules look at; `stream` stands for the transport ports of its flow."""

    ipv4_src: str
    ipv4_dst: str
    dscp: int = 0
    eth_dst: str = GATEWAY_MAC
    eth_type: int = IPV4
    stream: int = 0


@dataclass(frozen=True)
class Trace:
    """Where a packet went: the links it crossed, the entries that took it, the host it came out at (None: dropped)."""

    packet: Packet
    links: tuple[str, ...]
    flows: tuple[Flow, ...]
    host: str | None


class Loop(Exception):
    """A packet crossed more switches than any path has."""


class FlowTables:
    """One switch: applies changes as a switch does, and says what becomes of a packet."""

    def __init__(self, tables: Tables | None = None) -> None:
        held = tables or Tables()
        self.flows = {flow.key: flow for flow in held.flows}
        self.groups = {group.number: group for group in held.groups}

    @property
    def tables(self) -> Tables:
        return Tables(frozenset(self.flows.values()), frozenset(self.groups.values()))

    def apply(self, change: Change) -> None:
        item = change.item
        if isinstance(item, Group):
            if change.operation == "add":
                self.groups[item.number] = item
            else:
                del self.groups[item.number]
        elif change.operation == "add":
            self.flows[item.key] = item
        else:
            del self.flows[item.key]

    def process(self, packet: Packet, in_port: int) -> tuple[list[int], Packet, list[Flow]]:
        """(output ports, the packet as it leaves, the entries that took it)."""
        outputs: list[int] = []
        used: list[Flow] = []
        table: int | None = 0
        while table is not None:
            flow = self._lookup(table, packet, in_port)
            table = None
            if flow is None:
                break
            used.append(flow)
            for action, argument in flow.actions:
                if action == "set_dscp":
                    packet = replace(packet, dscp=int(argument))
                elif action == "set_eth_dst":
                    packet = replace(packet, eth_dst=str(argument))
                elif action == "output":
                    outputs.append(int(argument))
                elif action == "group":
                    outputs.append(self._select(self.groups[int(argument)], packet))
                else:
                    table = int(argument)
        return outputs, packet, used

    def _lookup(self, table: int, packet: Packet, in_port: int) -> Flow | None:
        hits = [f for f in self.flows.values() if f.table == table and _matches(f.match, packet, in_port)]
        return max(hits, key=lambda flow: flow.priority, default=None)

    @staticmethod
    def _select(group: Group, packet: Packet) -> int:
        content = f"{packet.ipv4_src} {packet.ipv4_dst} {packet.stream}".encode()
        return group.ports[int.from_bytes(hashlib.blake2b(content, digest_size=4).digest(), "big") % len(group.ports)]


class SwitchedFabric:
    """A fabric whose switches hold `tables`, by datapath id."""

    def __init__(self, fabric: Fabric, tables: Mapping[int, Tables]) -> None:
        numbers = datapath_ids(fabric)
        self.switches = {name: FlowTables(tables.get(number)) for name, number in numbers.items()}
        self._fabric = fabric
        self._ports = port_numbers(fabric)
        self._peers = {name: {port: peer for peer, port in ports.items()} for name, ports in self._ports.items()}

    def send(self, host: str, packet: Packet) -> Trace:
        """Follow a packet from a host's NIC to where it ends. Loop if it never does; ValueError if it is copied."""
        node, previous = self._fabric.leaf_of(host), host
        links = [f"{host}>{node}"]
        flows: list[Flow] = []
        for _ in range(MAX_HOPS):
            outputs, packet, used = self.switches[node].process(packet, self._ports[node][previous])
            flows += used
            if len(outputs) > 1:
                raise ValueError(f"{node} sent a packet to {len(outputs)} ports")
            if not outputs:
                return Trace(packet, tuple(links), tuple(flows), None)
            previous, node = node, self._peers[node][outputs[0]]
            links.append(f"{previous}>{node}")
            if node in self._fabric.host_index:
                return Trace(packet, tuple(links), tuple(flows), node)
        raise Loop(f"from {host} to {packet.ipv4_dst}: {links[:8]}")


def _matches(match: Match, packet: Packet, in_port: int) -> bool:
    for field, value in match:
        if field == "in_port":
            if in_port != value:
                return False
        elif field == "eth_type":
            if packet.eth_type != value:
                return False
        elif not _in_block(getattr(packet, field), str(value)):
            return False
    return True


def _in_block(address: str, block: str) -> bool:
    base, _, mask = block.partition("/")
    bits = int(IPv4Address(mask or "255.255.255.255"))
    return int(IPv4Address(address)) & bits == int(IPv4Address(base)) & bits
