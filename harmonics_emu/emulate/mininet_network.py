"""The fabric as a Mininet network: Mininet's objects and prompt over namespaces and switches built in batches.

Plain Mininet starts a shell in each host and runs a command for each setting, which takes 10 s for 256 hosts. Here
the whole fabric is built by `network` and `vswitch`; a host's shell starts when something first asks for it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, Node, OVSSwitch

from harmonics_emu.emulate import tc
from harmonics_emu.emulate.network import configure_hosts, create_links, namespace_of
from harmonics_emu.emulate.sandbox import STATE
from harmonics_emu.emulate.vswitch import VSwitch, create_bridges
from topologies.addressing import PREFIX, host_interface, host_mac, short_name
from topologies.fabric import Fabric
from topologies.mininet_topo import FabricTopo
from topologies.shaping import plan_shaping, tcp_window_bytes
from workloads.job import Job


class LazyShellNode(Node):
    """A node whose shell starts at its first command, in a namespace or bridge that exists already."""

    configured = False
    """Set once the network stands: what Mininet's constructors would run before that has been done in batches."""

    def startShell(self, mnopts: str | None = None) -> None:
        if self.configured:
            super().startShell(mnopts)

    def _popen(self, cmd: Sequence[str], **params: Any) -> Any:
        return super()._popen(self.enter(cmd), **params)

    def enter(self, command: Sequence[str]) -> list[str]:
        """`command` as it must be called to run where the node is."""
        return list(command)

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        if not self.configured:
            return ""
        self._have_shell()
        return super().cmd(*args, **kwargs)

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:
        self._have_shell()
        super().sendCmd(*args, **kwargs)

    def _have_shell(self) -> None:
        if self.shell is None:
            self.startShell()

    def terminate(self) -> None:
        if self.shell is not None:
            super().terminate()

    def popen(self, *args: Any, **kwargs: Any) -> Any:
        """Start a command on the node; Mininet's own goes through the pid of a shell that may not be there."""
        words = args[0] if len(args) == 1 else args
        command = shlex.split(words) if isinstance(words, str) else [str(word) for word in words]
        return self._popen(command, **kwargs)


class NamespaceHost(LazyShellNode, Host):
    """A Mininet host in the named network namespace that `create_network` made."""

    def __init__(self, name: str, **params: Any) -> None:
        # The namespace is entered by name: Mininet must not make one of its own.
        super().__init__(name, **{**params, "inNamespace": False})

    def enter(self, command: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{namespace_of(self.name)}", "--", *command]


class BridgeSwitch(LazyShellNode, OVSSwitch):
    """A Mininet switch over a bridge that `create_bridges` made."""

    @classmethod
    def setup(cls) -> None:
        cls.OVSVersion = "2.10"

    @classmethod
    def batchStartup(cls, switches: Sequence[Any], run: Any = None) -> Sequence[Any]:
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence[Any], run: Any = None) -> Sequence[Any]:
        return switches

    def start(self, controllers: Sequence[Any]) -> None:
        """Nothing to do: the bridge and its controller were set in one transaction for all switches."""

    def dpctl(self, *args: Any) -> Any:
        return self.cmd("ovs-ofctl", "-O", "OpenFlow13", args[0], short_name(self.name), *args[1:])


class ExistingInterface(Intf):
    """An interface that is configured already: Mininet only notes it, and need not ask ifconfig."""

    def config(self, **params: Any) -> dict[str, Any]:
        return {}

    def updateIP(self) -> Any:
        return self.ip

    def updateMAC(self) -> Any:
        return self.mac

    def updateAddr(self) -> Any:
        return self.ip, self.mac


class ExistingLink(Link):
    """A cable whose two ends exist already."""

    @classmethod
    def makeIntfPair(cls, *args: Any, **kwargs: Any) -> None:
        """Nothing to make."""

    def __init__(self, node1: Any, node2: Any, **params: Any) -> None:
        super().__init__(node1, node2, **{**params, "intf": ExistingInterface})

    def delete(self) -> None:
        """Nothing to do: the cable goes with the sandbox."""


class FabricNetwork(Mininet):
    """A Mininet network of a Fabric, built in batches and shaped, inside the sandbox that the caller has entered.

    Hosts, links, switches and the prompt are Mininet's own; `jobs` decides which job addresses each host carries.
    """

    def __init__(self, fabric: Fabric, jobs: Sequence[Job], vswitch: VSwitch) -> None:
        self.fabric, self.jobs, self.vswitch = fabric, tuple(jobs), vswitch
        self.window_bytes = tcp_window_bytes(fabric)
        self.shapes = plan_shaping(fabric)
        # Mininet's own start-up writes system-wide sysctls.
        Mininet.inited = True
        super().__init__(
            topo=FabricTopo(fabric),
            host=NamespaceHost,
            switch=BridgeSwitch,
            link=ExistingLink,
            controller=None,
            build=False,
        )

    def build(self) -> None:
        create_links(self.fabric)
        # The switch daemon takes up its ports while hosts are configured: the two don't touch each other's ends.
        with ThreadPoolExecutor(max_workers=1) as pool:
            bridges = pool.submit(create_bridges, self.vswitch, self.fabric)
            configure_hosts(self.fabric, self.jobs, self.window_bytes)
            tc.apply(shape for shape in self.shapes if shape.on_host)
            bridges.result()
        tc.apply(shape for shape in self.shapes if not shape.on_host)
        os.environ.setdefault("OVS_RUNDIR", str(STATE))
        self.buildFromTopo(self.topo)
        for index, host in enumerate(self.hosts):
            interface = host.defaultIntf()
            interface.mac = host_mac(index)
            interface.ip, interface.prefixLen = str(host_interface(index).ip), PREFIX
        for node in (*self.hosts, *self.switches):
            node.configured = True
        self.built = True
