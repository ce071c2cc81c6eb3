"""A run's own Open vSwitch: its database and switch daemon, its bridges, and room in the daemon's packet sockets.

Everything lives in the sandbox: no other ovsdb-server or ovs-vswitchd of the machine is touched or needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harmonics_emu import shell
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.sandbox import STATE
from harmonics_emu.emulate.worker import process_cpu_s
from harmonics_emu.errors import HarmonicsError
from topologies.addressing import datapath_ids, port_name, port_numbers, short_name
from topologies.fabric import Fabric

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
SOCKET_BUFFER = 32 * 2**20
"""What the kernel is asked for, and doubles. Packets waiting in HTB count against the send buffer of the socket that
sent them; packets that a port received wait in the receive buffer until the daemon comes to them."""
SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33
SEND_SOCKET_S = 5.0
STOP_S = 10.0
SYS_PIDFD_OPEN = 434
SYS_PIDFD_GETFD = 438

_libc = ctypes.CDLL(None, use_errno=True)


class VSwitchError(HarmonicsError):
    """Open vSwitch did not start, or did not do what it was asked."""


@dataclass
class VSwitch:
    """The two daemons of one run. `datapath` is 'netdev' (userspace, with TSO) or 'system' (kernel module)."""

    logs: Logs
    datapath: str
    database: subprocess.Popen[bytes]
    daemon: subprocess.Popen[bytes]

    def command(self, *arguments: str, timeout_s: float = 20.0) -> str:
        """Run one ovs-vsctl transaction and wait until the switch daemon has carried it out."""
        patience = f"--timeout={int(timeout_s)}"
        return shell.run(["ovs-vsctl", f"--db={_database_socket()}", patience, *arguments], timeout_s=timeout_s + 1)

    def restart_daemon(self) -> None:
        """Start ovs-vswitchd again after it died; bridges and ports come back from the database."""
        self.daemon = _start_daemon(self.logs)
        _wait_for(STATE / "vswitchd.pid", self.daemon, "ovs-vswitchd")
        # A transaction that changes something waits until the daemon has caught up with it, so that its bridges stand.
        self.command("set", "Open_vSwitch", ".", f"external_ids:restarted={time.monotonic_ns()}")

    def cpu_seconds(self) -> float:
        """CPU time that the switch daemon has used so far, all threads."""
        return process_cpu_s(self.daemon.pid)

    def stop(self) -> None:
        """End both daemons. Their sockets are taken over first: see `_close_side_by_side`."""
        taken = [] if self.daemon.poll() is not None else _borrow_packet_sockets(self.daemon.pid)
        for process in (self.daemon, self.database):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in (self.daemon, self.database):
            process.wait(timeout=STOP_S)
        _close_side_by_side(taken)


def kernel_datapath_available() -> bool:
    """Whether the kernel has the openvswitch module, built in or loaded."""
    return Path("/sys/module/openvswitch").exists()


def start_vswitch(logs: Logs, datapath: str | None = None) -> VSwitch:
    """Start a database and a switch daemon in this sandbox; the kernel datapath where there is one.

    Raises VSwitchError with the daemon's last line if either does not come up within ten seconds.
    """
    for program in ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl"):
        if shutil.which(program) is None:
            raise VSwitchError(f"{program} is not installed: run scripts/bootstrap (package openvswitch-switch)")
    chosen = datapath or ("system" if kernel_datapath_available() else "netdev")
    database_file = STATE / "conf.db"
    shell.run(["ovsdb-tool", "create", str(database_file), str(SCHEMA)])
    command = ["ovsdb-server", str(database_file), f"--remote=p{_database_socket()}", f"--unixctl={STATE}/ovsdb.ctl"]
    with logs.open("ovsdb-server.log") as log:
        database = shell.start(command, log=log, env=_environment())
    _wait_for(STATE / "db.sock", database, "ovsdb-server")
    settings = ["--no-wait", "init"]
    if chosen == "netdev":
        # Read once at the daemon's start: without it TCP through a userspace bridge stalls on unfinished checksums.
        settings += ["--", "set", "Open_vSwitch", ".", "other_config:userspace-tso-enable=true"]
    shell.run(["ovs-vsctl", f"--db={_database_socket()}", *settings])
    daemon = _start_daemon(logs)
    _wait_for(STATE / "vswitchd.pid", daemon, "ovs-vswitchd")
    return VSwitch(logs, chosen, database, daemon)


def create_bridges(vswitch: VSwitch, fabric: Fabric) -> None:
    """Make every switch of the fabric with all its ports in one transaction, then read the port numbers back."""
    ports, datapaths = port_numbers(fabric), datapath_ids(fabric)
    transaction: list[str] = []
    for switch in fabric.switches:
        bridge = short_name(switch.name)
        transaction += ["--", "add-br", bridge, "--", "set", "bridge", bridge]
        transaction += [f"datapath_type={vswitch.datapath}", "protocols=OpenFlow13", "fail_mode=secure"]
        transaction += [f"other-config:datapath-id={datapaths[switch.name]:016x}", "mcast_snooping_enable=false"]
        for peer, number in ports[switch.name].items():
            interface = port_name(switch.name, peer)
            transaction += ["--", "add-port", bridge, interface]
            transaction += ["--", "set", "interface", interface, f"ofport_request={number}"]
    vswitch.command(*transaction[1:], timeout_s=60)
    _check_ports(vswitch, fabric, ports)
    if vswitch.datapath == "netdev":
        grow_socket_buffers(vswitch, fabric)


def connect_controller(vswitch: VSwitch, fabric: Fabric, openflow_port: int) -> None:
    """Point every bridge to the controller on the sandbox's loopback."""
    transaction: list[str] = []
    for switch in fabric.switches:
        bridge = short_name(switch.name)
        transaction += ["--", "set-controller", bridge, f"tcp:127.0.0.1:{openflow_port}"]
        transaction += ["--", "set", "controller", bridge, "max_backoff=1000", "connection_mode=out-of-band"]
    vswitch.command("--no-wait", *transaction)


def grow_socket_buffers(vswitch: VSwitch, fabric: Fabric) -> int:
    """Give the daemon's packet sockets room for what waits in queues; returns how many sockets were changed.

    The sockets are borrowed through pidfd_getfd and forced past the global limit, which stays as it is. All ports send
    through one socket, which the daemon opens with its first packet: one is sent, to nobody, to have it there.
    """
    _send_to_nobody(short_name(fabric.switches[0].name))
    pid = vswitch.daemon.pid
    deadline = time.monotonic() + SEND_SOCKET_S
    while not _packet_sockets(pid)[1]:
        if time.monotonic() > deadline:
            raise VSwitchError(f"ovs-vswitchd opened no socket to send with within {SEND_SOCKET_S:g} s")
        time.sleep(0.005)
    borrowed = _borrow_packet_sockets(pid)
    for packet_socket in borrowed:
        with packet_socket:
            _grow(packet_socket)
    return len(borrowed)


def _borrow_packet_sockets(pid: int) -> list[socket.socket]:
    """The daemon's packet sockets as descriptors of this process, through pidfd_getfd."""
    inodes = set().union(*_packet_sockets(pid))
    pidfd = _libc.syscall(SYS_PIDFD_OPEN, pid, 0)
    if pidfd < 0:
        raise VSwitchError(f"can't reach ovs-vswitchd's sockets: {os.strerror(ctypes.get_errno())}")
    borrowed = []
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
                if found and found[1] in inodes:
                    copy = _libc.syscall(SYS_PIDFD_GETFD, pidfd, int(entry.name), 0)
                    if copy < 0:
                        why = os.strerror(ctypes.get_errno())
                        raise VSwitchError(f"can't borrow a socket of ovs-vswitchd's: {why}")
                    borrowed.append(socket.socket(fileno=copy))
    finally:
        os.close(pidfd)
    return borrowed


def _close_side_by_side(sockets: Sequence[socket.socket]) -> None:
    """Close the last descriptors of packet sockets, many at a time.

    The kernel waits out a grace period for each, some 8 ms. A dying daemon closes them one after the other, which
    takes 5 s with 640 ports; those who wait together wait once.
    """
    if sockets:
        with ThreadPoolExecutor(max_workers=min(len(sockets), 128)) as pool:
            list(pool.map(socket.socket.close, sockets))


def _send_to_nobody(bridge: str) -> None:
    """Have the daemon send one frame of an experimental protocol, which every host ignores, on the bridge's port 1."""
    frame = "ffffffffffff" + "020000000000" + "88b5" + "00" * 46
    packet_out = f"in_port=controller packet={frame} actions=output:1"
    shell.run(["ovs-ofctl", "-O", "OpenFlow13", "packet-out", f"unix:{STATE}/{bridge}.mgmt", packet_out])


def _packet_sockets(pid: int) -> tuple[set[str], set[str]]:
    """Inodes of the packet sockets in the daemon's namespace: those that receive (a protocol each), those that send."""
    receiving: set[str] = set()
    sending: set[str] = set()
    for line in Path(f"/proc/{pid}/net/packet").read_text().splitlines()[1:]:
        columns = line.split()
        (receiving if int(columns[3], 16) else sending).add(columns[8])
    return receiving, sending


def _grow(packet_socket: socket.socket) -> None:
    for force, ask in ((SO_SNDBUFFORCE, socket.SO_SNDBUF), (SO_RCVBUFFORCE, socket.SO_RCVBUF)):
        packet_socket.setsockopt(socket.SOL_SOCKET, force, SOCKET_BUFFER)
        granted = packet_socket.getsockopt(socket.SOL_SOCKET, ask)
        if granted < 2 * SOCKET_BUFFER:
            raise VSwitchError(f"ovs-vswitchd's packet socket got a buffer of {granted} bytes, not {2 * SOCKET_BUFFER}")


def _check_ports(vswitch: VSwitch, fabric: Fabric, ports: dict[str, dict[str, int]]) -> None:
    listing = vswitch.command("--format=csv", "--no-headings", "--columns=name,ofport,error", "list", "interface")
    found = {}
    for line in listing.splitlines():
        name, number, error = (field.strip('"') for field in line.split(",", 2))
        found[name] = (number, error)
    for switch in fabric.switches:
        for peer, wanted in ports[switch.name].items():
            number, error = found.get(port_name(switch.name, peer), ("missing", ""))
            if number != str(wanted):
                raise VSwitchError(f"port {switch.name} to {peer} got number {number}, not {wanted}: {error}")


def _database_socket() -> str:
    return f"unix:{STATE}/db.sock"


def _environment() -> dict[str, str]:
    return {**os.environ, "OVS_RUNDIR": str(STATE), "OVS_LOGDIR": str(STATE), "OVS_DBDIR": str(STATE)}


def _start_daemon(logs: Logs) -> subprocess.Popen[bytes]:
    (STATE / "vswitchd.pid").unlink(missing_ok=True)
    command = ["ovs-vswitchd", _database_socket(), f"--pidfile={STATE}/vswitchd.pid", f"--unixctl={STATE}/vswitchd.ctl"]
    with logs.open("ovs-vswitchd.log") as log:
        return shell.start(command, log=log, env=_environment())


def _wait_for(path: Path, process: subprocess.Popen[bytes], name: str, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not _stands(path):
        if process.poll() is not None:
            raise VSwitchError(f"{name} ended with status {process.returncode} at its start; see logs/{name}.log")
        if time.monotonic() > deadline:
            raise VSwitchError(f"{name} did not come up within {timeout_s:g} s; see logs/{name}.log")
        time.sleep(0.005)


def _stands(path: Path) -> bool:
    """Whether a daemon's file is there and, if it is a socket, taken care of: bound, it still refuses for a moment."""
    if not path.is_socket():
        return path.exists()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0
