"""Builds a fabric's namespaces, cables, addresses and routes in batches: the executor behind FabricNetwork.

One `ip -batch` makes every namespace and veth pair; then each host's own interface is configured by one more batch in
its namespace. Nothing is asked by ARP and nothing is flooded: hosts send to one gateway MAC (topologies.addressing).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harmonics_emu.emulate import shell
from harmonics_emu.emulate.sandbox import enter_network_namespace
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


def create_network(fabric: Fabric, jobs: Sequence[Job], window_bytes: int) -> None:
    """Make every namespace, cable, address and route of the fabric; switches' ports are up but in no bridge yet.

    window_bytes bounds each TCP connection's window on the hosts, so that an uncontended job overflows no queue.
    """
    addresses = plan_addresses(fabric, jobs)
    names = [namespace_of(host.name) for host in fabric.hosts]
    commands = [f"netns add {name}" for name in names]
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
    in_namespaces(names, lambda: _tune_host(window_bytes))
    shell.run_many(
        [
            (["ip", "-n", name, "-batch", "-"], "\n".join(_host_commands(plan)) + "\n")
            for name, plan in zip(names, addresses, strict=True)
        ]
    )
    in_namespaces(names, _check_host, [plan.index for plan in addresses])


def in_namespaces(names: Sequence[str], act: Callable[..., None], arguments: Sequence[object] | None = None) -> None:
    """Call `act` in each namespace in turn, from one thread that moves through them; the first error is raised."""
    failures: list[BaseException] = []

    def walk() -> None:
        try:
            for position, name in enumerate(names):
                enter_network_namespace(name)
                if arguments is None:
                    act()
                else:
                    act(arguments[position])
        except Exception as error:
            failures.append(error)

    walker = threading.Thread(target=walk)
    walker.start()
    walker.join()
    if failures:
        raise failures[0]


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


def _check_host(index: object) -> None:
    """Read one host back from inside its namespace: the route to the fabric must be there."""
    routes = Path("/proc/thread-self/net/route").read_text().splitlines()[1:]
    if not any(line.split()[0] == NIC for line in routes):
        raise NetworkError(f"host number {index} has no route on {NIC} after it was configured")


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
