"""Which job an address belongs to: as a run's addressing says, as the user says, or as far as its packets tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.errors import UsageError
from topologies.addressing import job_interface
from topologies.fabric import Fabric
from workloads.job import Job

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

GUESSED_NAME = "group-{}"


@dataclass(frozen=True)
class Groups:
    """Jobs as sets of networks. hosts: names of addresses, where they are known. guessed: whether packets told them."""

    networks: Mapping[str, tuple[Network, ...]]
    hosts: Mapping[Address, str] = field(default_factory=dict)
    guessed: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.networks)

    @cached_property
    def _found(self) -> dict[Address, str | None]:
        return {}

    def job_of(self, address: Address) -> str | None:
        """The job whose network holds the address, the narrowest where several do; None if none does."""
        if address not in self._found:
            holding = [
                (network.prefixlen, name)
                for name, networks in self.networks.items()
                for network in networks
                if network.version == address.version and address in network
            ]
            self._found[address] = max(holding)[1] if holding else None
        return self._found[address]

    def host_name(self, address: Address) -> str:
        return self.hosts.get(address, str(address))


def groups_of_run(fabric: Fabric, jobs: Sequence[Job]) -> Groups:
    """The jobs of an emulated run: each has a subnet of its own, and its hosts an address in it."""
    networks: dict[str, tuple[Network, ...]] = {}
    hosts: dict[Address, str] = {}
    for job in jobs:
        for host in dict.fromkeys(job.hosts):
            interface = job_interface(job.index, fabric.host_index[host])
            networks[job.name] = (interface.network,)
            hosts[interface.ip] = host
    return Groups(networks, hosts)


def groups_given(texts: Iterable[str]) -> Groups:
    """Groups as users write them: `vision=10.1.0.0/16` or `text=10.0.0.5,10.0.0.6`. UsageError says what is wrong."""
    networks: dict[str, tuple[Network, ...]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        if not equals or not name.strip() or not listed.strip():
            raise UsageError(f"--job {text!r} is not NAME=ADDRESS[/BITS][,...], as vision=10.1.0.0/16")
        try:
            given = tuple(ip_network(part.strip(), strict=False) for part in listed.split(","))
        except ValueError as error:
            raise UsageError(f"--job {text!r}: {error}") from None
        networks[name.strip()] = networks.get(name.strip(), ()) + given
    return Groups(networks)


def guess_groups(tables: Iterable[NDArray[Any]]) -> Groups:
    """Addresses that send each other payload, directly or through others, are taken for one job.

    tables: rows of FLOW. Broadcast and multicast are passed over. Right for jobs that share no address, as where each
    has a subnet of its own; jobs that share addresses come out as one.
    """
    leader: dict[Address, Address] = {}

    def lead(address: Address) -> Address:
        while leader.setdefault(address, address) != address:
            leader[address] = leader[leader[address]]
            address = leader[address]
        return address

    for table in tables:
        for flow in table[table["payload_bytes"] > 0]:
            src, dst = addresses_of(flow)
            if not (src.is_multicast or dst.is_multicast or _is_broadcast(dst)):
                leader[lead(src)] = lead(dst)
    members: dict[Address, list[Address]] = {}
    for address in sorted(leader, key=_order):
        members.setdefault(lead(address), []).append(address)
    return Groups(
        {
            GUESSED_NAME.format(number): tuple(ip_network(address) for address in group)
            for number, group in enumerate(members.values(), start=1)
        },
        guessed=True,
    )


def addresses_of(flow: Any) -> tuple[Address, Address]:
    """Source and destination of a row of FLOW."""
    if flow["version"] == 4:
        return IPv4Address(int(flow["src_low"])), IPv4Address(int(flow["dst_low"]))
    return (
        IPv6Address(int(flow["src_high"]) << 64 | int(flow["src_low"])),
        IPv6Address(int(flow["dst_high"]) << 64 | int(flow["dst_low"])),
    )


def jobs_of_flows(flows: NDArray[Any], groups: Groups) -> NDArray[np.int64]:
    """Number (in `groups.names`) of each flow's job; -1 where its two ends are not of one job."""
    numbers = {name: number for number, name in enumerate(groups.names)}
    found = np.full(len(flows), -1, np.int64)
    for place, flow in enumerate(flows):
        src, dst = (groups.job_of(address) for address in addresses_of(flow))
        if src is not None and src == dst:
            found[place] = numbers[src]
    return found


def _is_broadcast(address: Address) -> bool:
    return address.version == 4 and int(address) == 2**32 - 1


def _order(address: Address) -> tuple[int, int]:
    return (address.version, int(address))
