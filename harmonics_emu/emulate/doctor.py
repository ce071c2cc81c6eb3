"""What this machine can do, proven by trying each thing in a scratch sandbox."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from harmonics_emu import shell
from harmonics_emu.emulate import tc
from harmonics_emu.emulate.capacity import measure_goodput
from harmonics_emu.emulate.control import network_state
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.sandbox import enter_sandbox, kill_sandbox, python_command, start_sandbox
from harmonics_emu.emulate.testbed import raise_testbed
from harmonics_emu.emulate.vswitch import kernel_datapath_available
from harmonics_emu.errors import HarmonicsError
from harmonics_emu.schedulers.interface import Plan
from topologies.rack_spine import rack_spine
from topologies.shaping import goodput_bps

BOOTSTRAP = "run scripts/bootstrap"
DEADLINE_S = 120.0
PROGRAMS = {
    "ovs-vswitchd": "openvswitch-switch",
    "ovsdb-server": "openvswitch-switch",
    "mnexec": "mininet",
    "tc": "iproute2",
    "ip": "iproute2",
    "ethtool": "ethtool",
    "tcpdump": "tcpdump",
    "ping": "iputils-ping",
}
PACKAGES = {"mininet": "mininet.net", "os-ken": "os_ken", "torch": "torch.distributed", "scapy": "scapy"}
QUEUES = {
    "htb": (True, "shapes every link", "htb default 1"),
    "bfifo": (True, "bounds every queue in bytes", "bfifo limit 100000"),
    "netem": (False, "links with a delay or a loss", "netem delay 1ms"),
}
TRIED_BPS = 200_000_000


class Check(msgspec.Struct, frozen=True):
    """One thing that was tried. needed: without it nothing is emulated. hint: what to do about it, None if it works."""

    name: str
    works: bool
    needed: bool
    detail: str
    hint: str | None = None


_checks = msgspec.json.Decoder(list[Check])


def examine_without_root() -> list[Check]:
    """What can be tried by anybody: interpreter, packages, programs."""
    checks = [
        Check("python", (3, 11) <= sys.version_info[:2] <= (3, 13), True, sys.version.split()[0], "use 3.11 to 3.13")
    ]
    for package, module in PACKAGES.items():
        checks.append(_attempt(package, package != "scapy", partial(_import, package, module), BOOTSTRAP))
    for program, package in PROGRAMS.items():
        found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
        hint = None if found else f"install {package} ({BOOTSTRAP})"
        checks.append(Check(program, found is not None, program != "tcpdump", found or "not found", hint))
    return checks


def examine_as_root() -> list[Check]:
    """What takes root, tried in a sandbox of its own that is gone afterwards."""
    with TemporaryDirectory(prefix="harmonics-") as logs:
        with Logs(Path(logs)).open("doctor.log") as log:
            process = start_sandbox(python_command("harmonics_emu.emulate.doctor", logs), log=log, stdin=None)
        try:
            answer, _ = process.communicate(timeout=DEADLINE_S)
        except Exception as error:
            kill_sandbox(process)
            return [Check("sandbox", False, True, f"did not answer: {error}", "see the kernel's log")]
        if process.returncode != 0 or not answer:
            said = (Path(logs) / "doctor.log").read_text(errors="replace").strip().splitlines()
            hint = "namespaces must be allowed here (a container needs --privileged)"
            return [Check("sandbox", False, True, said[-1] if said else "ended without a word", hint)]
        return _checks.decode(answer)


def _inside(logs: Path) -> list[Check]:
    """Process 1 of the scratch sandbox."""
    enter_sandbox(keep=[logs])
    checks = [Check("sandbox", True, True, "network, process and mount namespaces")]
    for kind, (needed, purpose, arguments) in QUEUES.items():
        checks.append(_attempt(f"queue {kind}", needed, partial(_try_queue, kind, arguments, purpose), None))
    detail = "kernel module" if kernel_datapath_available() else "userspace (no openvswitch kernel module; none needed)"
    checks.append(Check("datapath", True, True, detail))
    checks.append(_attempt("fabric", True, lambda: _try_fabric(logs), "see docs/troubleshooting.md"))
    return checks


def _attempt(name: str, needed: bool, act: Callable[[], str], hint: str | None) -> Check:
    try:
        return Check(name, True, needed, act())
    except (HarmonicsError, ImportError, PackageNotFoundError, OSError) as error:
        return Check(name, False, needed, str(error).splitlines()[0][:200], hint)


def _import(package: str, module: str) -> str:
    import_module(module)
    return version(package)


def _try_queue(kind: str, arguments: str, purpose: str) -> str:
    device = f"try-{kind}"
    shell.run(["ip", "link", "add", device, "type", "veth", "peer", "name", f"{device}-p"])
    try:
        tc.try_queue(device, arguments)
    finally:
        shell.run(["ip", "link", "del", device])
    return purpose


def _try_fabric(logs: Path) -> str:
    """Two racks, a spine, the controller, and TCP through all of them: what 'it hangs' usually comes from."""
    fabric = rack_spine(2, 1, 1, TRIED_BPS, TRIED_BPS)
    began = time.monotonic()
    testbed = raise_testbed(fabric, (), Logs(logs))
    testbed.controller.install(network_state(fabric, (), Plan(policy="fair"), seed=0), 10.0)
    up_s = time.monotonic() - began
    goodput = measure_goodput(fabric, "r0h0", "r1h0")
    share = goodput / goodput_bps(TRIED_BPS)
    if share < 0.9:
        raise HarmonicsError(f"TCP reached {share:.0%} of what a link of {TRIED_BPS // 10**6} Mbit/s carries")
    return f"up in {up_s:.1f} s, TCP at {share:.0%} of a {TRIED_BPS // 10**6} Mbit/s link"


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_inside(Path(sys.argv[1]))))
