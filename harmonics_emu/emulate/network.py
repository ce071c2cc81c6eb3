"""Builds a fabric's namespaces, cables, addresses and routes in batches: the executor behind FabricNetwork.

One `ip -batch` makes every namespace and veth pair; then each host's own interface is configured by one more batch in
its namespace. Nothing is asked by ARP and nothing is flooded: hosts send to one gateway MAC (topologies.addressing).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harmonics_emu import shell
from harmonics_emu.emulate.sandbox import across
from harmonics_emu.errors import HarmonicsError
from topologies.addressing import (
    GATEWAY_ADDRESS,
    GATEWAY_MAC,
    NIC,
    host_interface,
    host_mac,
    job_interface,
    job_nic,
    port_name,
    short_name,
)
from topologies.fabric import Fabric
from workloads.job import Job

NAMESPACE_LENGTH = 60
CONGESTION_CONTROL = "cubic"
INITIAL_WINDOW = 100
"""Segments a flow may send before its first ACK: GPU fabrics have no slow start, and windows are bounded anyway."""
MINIMUM_RTO = "2s"
"""Above any wait that a higher level imposes in passing. Queues are sized so that nothing is dropped, so a timer that
fired earlier would only retransmit what is still queued and collapse the window."""

RECEIVE_BUFFER = 16 * 2**20
"""What is in flight is bounded by the sender's buffer; the window that the receiver offers must be far larger: pure
ACKs overtake data of a lower level that goes the same way, and TCP drops data whose own ACK is older than a window."""


class NetworkError(HarmonicsError):
    """An interface, address or route that is not as it was asked for."""


@dataclass(frozen=True, slots=True)
class HostAddresses:
    """What one host's NIC carries: its base address and one labelled address for each of its jobs."""

    host: str
    index: int
    jobs: tuple[int, ...]


def namespace_of(host: str) -> str:
    return short_name(host, NAMESPACE_LENGTH)


def plan_addresses(fabric: Fabric, jobs: Sequence[Job]) -> tuple[HostAddresses, ...]:
    """Which job subnets each host has an address in, in host order."""
    held: dict[str, set[int]] = {host.name: set() for host in fabric.hosts}
    for job in jobs:
        for host in job.hosts:
            held[host].add(job.index)
    return tuple(
        HostAddresses(host.name, index, tuple(sorted(held[host.name]))) for index, host in enumerate(fabric.hosts)
    )


def create_links(fabric: Fabric) -> None:
    """Make every namespace and cable; switches' ports are up but in no bridge, hosts' NICs have no address yet."""
    commands = [f"netns add {namespace_of(host.name)}" for host in fabric.hosts]
    for host in fabric.hosts:
        leaf, mac = fabric.leaf_of(host.name), host_mac(fabric.host_index[host.name])
        pair = f"{port_name(leaf, host.name)} type veth peer name {NIC} address {mac}"
        commands.append(f"link add {pair} netns {namespace_of(host.name)}")
        commands.append(f"link set {port_name(leaf, host.name)} up")
    for cable in fabric.cables.values():
        lower, upper = fabric.links[cable.up].src, fabric.links[cable.up].dst
        if lower not in fabric.host_index:
            commands.append(f"link add {port_name(lower, upper)} type veth peer name {port_name(upper, lower)}")
            commands.append(f"link set {port_name(lower, upper)} up")
            commands.append(f"link set {port_name(upper, lower)} up")
    _ip_batch(commands)


def configure_hosts(fabric: Fabric, jobs: Sequence[Job], window_bytes: int) -> None:
    """Give every host its addresses, its routes and its TCP settings, and read the routes back.

    window_bytes bounds what each TCP connection has in flight, so that an uncontended job overflows no queue.
    """
    plans = {namespace_of(plan.host): plan for plan in plan_addresses(fabric, jobs)}

    def configure(netns: str | None) -> None:
        plan = plans[str(netns)]
        _tune_host(window_bytes)
        # From inside, since `ip -n` mounts a /sys of its own for each call.
        _ip_batch(_host_commands(plan))
        _check_routes(plan)

    across(plans, configure)


def set_cable_state(fabric: Fabric, cable: str, *, up: bool) -> None:
    """Take a cable between switches down or up again, at both ends."""
    link = fabric.links[fabric.cables[cable].up]
    if link.src in fabric.host_index:
        ports = [port_name(link.dst, link.src)]
    else:
        ports = [port_name(link.src, link.dst), port_name(link.dst, link.src)]
    _ip_batch([f"link set {port} {'up' if up else 'down'}" for port in ports])


def _ip_batch(commands: Sequence[str]) -> None:
    shell.run(["ip", "-batch", "-"], stdin="\n".join(commands) + "\n", timeout_s=60)


def _host_commands(plan: HostAddresses) -> list[str]:
    commands = [
        "link set lo up",
        f"link set {NIC} up",
        f"neigh add {GATEWAY_ADDRESS} lladdr {GATEWAY_MAC} dev {NIC} nud permanent",
    ]
    held = [(host_interface(plan.index), NIC)]
    held += [(job_interface(job, plan.index), job_nic(job)) for job in plan.jobs]
    for interface, label in held:
        commands.append(f"addr add {interface} dev {NIC} label {label} noprefixroute")
        commands.append(
            f"route add {interface.network} via {GATEWAY_ADDRESS} dev {NIC} onlink src {interface.ip} "
            f"congctl {CONGESTION_CONTROL} initcwnd {INITIAL_WINDOW} rto_min {MINIMUM_RTO}"
        )
    return commands


def _tune_host(window_bytes: int) -> None:
    ipv4 = Path("/proc/sys/net/ipv4")
    settings = {
        ipv4 / "tcp_wmem": f"4096 {window_bytes} {window_bytes}",
        ipv4 / "tcp_rmem": f"4096 {RECEIVE_BUFFER} {RECEIVE_BUFFER}",
        # Training sends in bursts: the compute phase between them must not shrink the window.
        ipv4 / "tcp_slow_start_after_idle": "0",
        ipv4 / "tcp_no_metrics_save": "1",
        Path("/proc/sys/net/ipv6/conf/all/disable_ipv6"): "1",
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6"): "1",
    }
    for path, value in settings.items():
        if path.exists() or path.parent == ipv4:
            path.write_text(value)


def _check_routes(plan: HostAddresses) -> None:
    """Read one host's routes back from inside its namespace: one for its base subnet and one for each job's."""
    routes = [line.split() for line in Path("/proc/thread-self/net/route").read_text().splitlines()[1:]]
    found = sum(columns[0] == NIC for columns in routes)
    if found != 1 + len(plan.jobs):
        raise NetworkError(f"host {plan.host} has {found} routes on {NIC}, not {1 + len(plan.jobs)}")


def tcp_timeouts() -> int:
    """TCP retransmission timeouts so far in the calling thread's namespace."""
    lines = [line.split() for line in Path("/proc/thread-self/net/netstat").read_text().splitlines()]
    names, values = (line for line in lines if line[0] == "TcpExt:")
    return int(values[names.index("TCPTimeouts")])


def host_settings(host: str) -> dict[str, object]:
    """What is in force on a host, for the manifest: its addresses, routes and offloads as the kernel reports them."""
    name = namespace_of(host)
    return {
        "addresses": json.loads(shell.run(["ip", "-n", name, "-j", "addr", "show", NIC])),
        "routes": json.loads(shell.run(["ip", "-n", name, "-j", "-d", "route", "show"])),
    }
