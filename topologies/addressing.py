"""Addresses, interface names and port numbers of a fabric: pure functions of its nodes' positions.

Every host has a base address in 10.0.0.0/16. Job number j (from 0) has the subnet 10.(j+1).0.0/16, in which each of
its hosts holds one more address on the same NIC, so that switch rules can tell jobs apart where they share a NIC.
Hosts send everything to one gateway MAC, as in a routed fabric; the last leaf writes the destination host's MAC.
"""

from __future__ import annotations

import hashlib
import re
from ipaddress import IPv4Address, IPv4Interface

from topologies.fabric import Fabric

NIC = "eth0"
PREFIX = 16
MAX_HOSTS = 2**16 - 512
MAX_JOBS = 254
GATEWAY_ADDRESS = IPv4Address("10.0.255.254")
GATEWAY_MAC = "02:00:ff:00:00:01"
IFNAME_LENGTH = 15


def host_interface(host_index: int) -> IPv4Interface:
    """A host's base address with its prefix length."""
    return IPv4Interface((int(IPv4Address("10.0.0.0")) + host_index + 1, PREFIX))


def job_interface(job_index: int, host_index: int) -> IPv4Interface:
    """A host's address in a job's subnet, with its prefix length."""
    return IPv4Interface((int(IPv4Address("10.0.0.0")) + ((job_index + 1) << 16) + host_index + 1, PREFIX))


def job_nic(job_index: int) -> str:
    """The label of a job's address on each host's NIC: what GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME name.

    Without the customary colon, at which NCCL would cut it off.
    """
    return f"{NIC}j{job_index}"


def host_mac(host_index: int) -> str:
    return f"02:00:00:00:{host_index >> 8:02x}:{host_index & 255:02x}"


def short_name(name: str, length: int = IFNAME_LENGTH) -> str:
    """`name` itself if the kernel takes it as an interface name, else a stable hash of it that fits."""
    if len(name) <= length and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        return name
    return "x" + hashlib.blake2b(name.encode(), digest_size=(length - 1) // 2).hexdigest()


def port_name(switch: str, peer: str) -> str:
    """The interface that a switch has towards `peer`."""
    return short_name(f"{switch}-{peer}")


def port_numbers(fabric: Fabric) -> dict[str, dict[str, int]]:
    """OpenFlow port number of each switch towards each of its neighbours, from 1."""
    return {
        switch.name: {peer: number for number, peer in enumerate(fabric.neighbours[switch.name], start=1)}
        for switch in fabric.switches
    }


def datapath_ids(fabric: Fabric) -> dict[str, int]:
    """OpenFlow datapath id of each switch, from 1."""
    return {switch.name: number for number, switch in enumerate(fabric.switches, start=1)}
