"""A fabric that stands: Open vSwitch, network, shaping and controller, up together and checked.

`run` puts jobs on it and `prompt` opens Mininet's prompt on it; both are inside the sandbox by then.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harmonics_emu import shell
from harmonics_emu.emulate import tc
from harmonics_emu.emulate.control import ControllerClient
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.mininet_network import FabricNetwork
from harmonics_emu.emulate.network import namespace_of, tcp_timeouts
from harmonics_emu.emulate.sandbox import STATE, across, python_command
from harmonics_emu.emulate.vswitch import VSwitch, connect_controller, grow_socket_buffers, start_vswitch
from harmonics_emu.errors import RunFailed
from topologies.fabric import Fabric
from workloads.job import Job

OPENFLOW_PORT = 6653
CONTROLLER_SOCKET = STATE / "controller.sock"
SWITCHES_S = 15.0
LISTEN_S = 10.0


@dataclass(frozen=True, slots=True)
class HostCounters:
    """Packets dropped in a host's own egress queue, and TCP retransmission timeouts of its connections."""

    drops: int
    timeouts: int


@dataclass
class Testbed:
    """Everything of one run's fabric that lives. `faults` collects what died and was started again."""

    fabric: Fabric
    jobs: tuple[Job, ...]
    logs: Logs
    vswitch: VSwitch
    network: FabricNetwork
    controller_process: subprocess.Popen[bytes]
    controller: ControllerClient
    up_s: float = 0.0
    faults: list[str] = field(default_factory=list)

    def lower(self) -> None:
        """Take down what would otherwise hold up the sandbox's end; the kernel does the rest."""
        self.controller.close()
        self.controller_process.kill()
        self.vswitch.stop()

    def mend(self, time_s: float) -> bool:
        """Start again what died since the last call; True if something had, so that rules must be installed again."""
        mended = False
        if self.vswitch.daemon.poll() is not None:
            self.faults.append(f"ovs-vswitchd died {time_s:.1f} s into the run and was started again")
            self.vswitch.restart_daemon()
            if self.vswitch.datapath == "netdev":
                grow_socket_buffers(self.vswitch, self.fabric)
            mended = True
        if self.controller_process.poll() is not None:
            self.faults.append(f"the controller died {time_s:.1f} s into the run and was started again")
            self.controller.close()
            CONTROLLER_SOCKET.unlink(missing_ok=True)
            self.controller_process = _start_controller(self.logs)
            self.controller = ControllerClient(CONTROLLER_SOCKET)
            _wait_for_listener(self.controller_process)
            mended = True
        if self.vswitch.database.poll() is not None:
            raise RunFailed("ovsdb-server died; see logs/ovsdb-server.log")
        if mended:
            self.controller.wait_for_switches(len(self.fabric.switches), SWITCHES_S)
        return mended

    def host_counters(self) -> dict[str, HostCounters]:
        """What each host's queue and TCP have counted since the fabric came up."""
        names = {namespace_of(host.name): host.name for host in self.fabric.hosts}
        timeouts = dict(zip(names, across(names, lambda _: tcp_timeouts()), strict=True))
        return {
            host: HostCounters(sum(port.drops for port in tc.read_counters(netns).values()), timeouts[netns])
            for netns, host in names.items()
        }


def raise_testbed(fabric: Fabric, jobs: Sequence[Job], logs: Logs) -> Testbed:
    """Bring up the fabric with the jobs' addresses on it; rules are installed by whoever decides on the plan.

    Raises a HarmonicsError with a one-line cause if any part does not come up or is not as planned.
    """
    began = time.monotonic()
    controller_process = _start_controller(logs)
    vswitch = start_vswitch(logs)
    network = FabricNetwork(fabric, jobs, vswitch)
    network.start()
    controller = ControllerClient(CONTROLLER_SOCKET)
    _wait_for_listener(controller_process)
    connect_controller(vswitch, fabric, OPENFLOW_PORT)
    controller.wait_for_switches(len(fabric.switches), SWITCHES_S)
    return Testbed(
        fabric=fabric,
        jobs=tuple(jobs),
        logs=logs,
        vswitch=vswitch,
        network=network,
        controller_process=controller_process,
        controller=controller,
        up_s=time.monotonic() - began,
    )


def _start_controller(logs: Logs) -> subprocess.Popen[bytes]:
    arguments = ["--socket", str(CONTROLLER_SOCKET), "--openflow-port", str(OPENFLOW_PORT)]
    with logs.open("controller.log") as log:
        return shell.start(python_command("controller", *arguments), log=log)


def _wait_for_listener(process: subprocess.Popen[bytes]) -> None:
    """Until the controller takes switches. One that is refused waits a second before it tries again."""
    listening = f"0100007F:{OPENFLOW_PORT:04X} 00000000:0000 0A"
    deadline = time.monotonic() + LISTEN_S
    while listening not in Path("/proc/net/tcp").read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RunFailed(f"the controller takes no switches on port {OPENFLOW_PORT}; see logs/controller.log")
        time.sleep(0.005)
