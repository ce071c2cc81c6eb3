"""`bench fabric`: how long a fabric takes to stand, and to be gone again."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from harmonics_emu import shell
from harmonics_emu.cli.output import print_json, print_table
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.sandbox import enter_sandbox, kill_sandbox, python_command, require_root, start_sandbox
from harmonics_emu.errors import RunFailed
from topologies.rack_spine import rack_spine

SIZES = (8, 64, 256)
HOSTS_PER_RACK = 8
SPINES = 2
RATE_BPS = 1_000_000_000
DEADLINE_S = 120.0
CANARY = "canary"
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


@click.command("fabric")
@click.option("--hosts", type=click.IntRange(2), multiple=True, metavar="N", help="Default: 8, 64 and 256.")
@click.option("--json", "as_json", is_flag=True, help='Print {"rows": [...]}.')
def command(hosts: tuple[int, ...], as_json: bool) -> None:
    """Time rack-spine fabrics of 8 hosts a leaf and two spines. Needs root.

    up_s: from nothing to shaped links, connected switches and rules read back. down_s: from the order to end until the
    last interface is gone, as the kernel shows it.
    """
    require_root()
    # The canaries' outer ends must not appear among the machine's own interfaces.
    if _libc.unshare(CLONE_NEWNET) != 0:
        raise RunFailed(f"can't make a network namespace: {os.strerror(ctypes.get_errno())}")
    rows = [measure(count) for count in hosts or SIZES]
    if as_json:
        print_json({"rows": rows})
    else:
        columns = ("hosts", "leaves", "up", "down")
        cells = [(r["hosts"], r["leaves"], f"{r['up_s']:.2f} s", f"{r['down_s']:.2f} s") for r in rows]
        print_table(columns, cells)


def measure(hosts: int) -> dict[str, Any]:
    """One fabric up and down."""
    with TemporaryDirectory(prefix="harmonics-") as logs:
        arguments = python_command("harmonics_emu.bench.fabric", str(hosts), logs)
        with Logs(Path(logs)).open("bench.log") as log:
            process = start_sandbox(arguments, log=log)
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            answer = process.stdout.readline().split()
            if len(answer) != 2:
                raise RunFailed(f"the fabric did not stand: {(Path(logs) / 'bench.log').read_text()[-500:]}")
            up_s, leaves = float(answer[0]), int(answer[1])
            inner = _child_of(process)
            shell.run(["ip", "link", "add", CANARY, "type", "veth", "peer", "name", CANARY, "netns", str(inner)])
            namespace = os.open(f"/proc/{inner}/ns/net", os.O_RDONLY)
            began = time.monotonic()
            process.stdin.close()
            process.wait(timeout=DEADLINE_S)
            _wait_until_hosts_are_gone(namespace)
            os.close(namespace)
            _wait_until_canary_is_gone()
            return {"hosts": hosts, "leaves": leaves, "up_s": up_s, "down_s": time.monotonic() - began}
        finally:
            kill_sandbox(process)


def _child_of(process: subprocess.Popen[bytes]) -> int:
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def _wait_until_hosts_are_gone(namespace: int) -> None:
    """Until no port towards a host is left in the sandbox's own namespace: each goes with its other end."""
    failures: list[Exception] = []

    def watch() -> None:
        try:
            _libc.setns(namespace, CLONE_NEWNET)
            _poll(lambda: not any("-r" in line for line in _interfaces("/proc/thread-self/net/dev")))
        except Exception as error:
            failures.append(error)

    watcher = threading.Thread(target=watch)
    watcher.start()
    watcher.join()
    if failures:
        raise failures[0]


def _wait_until_canary_is_gone() -> None:
    """The sandbox's own namespace goes last, and with it the peer of the canary in ours."""
    _poll(lambda: CANARY not in _interfaces("/proc/net/dev"))


def _interfaces(table: str) -> list[str]:
    return [line.partition(":")[0].strip() for line in Path(table).read_text().splitlines()[2:]]


def _poll(done: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        if time.monotonic() > deadline:
            raise RunFailed(f"interfaces were still there after {DEADLINE_S:g} s")
        time.sleep(0.01)


def _inside(hosts: int, logs: Path) -> None:
    """Process 1 of the sandbox: bring the fabric up, say how long it took, take it down at the end of input."""
    from harmonics_emu.emulate.control import network_state
    from harmonics_emu.emulate.testbed import raise_testbed
    from harmonics_emu.schedulers.interface import Plan

    enter_sandbox(keep=[logs])
    racks = max(2, hosts // HOSTS_PER_RACK)
    fabric = rack_spine(racks, hosts // racks, SPINES, RATE_BPS, RATE_BPS)
    began = time.monotonic()
    testbed = raise_testbed(fabric, (), Logs(logs))
    testbed.controller.install(network_state(fabric, (), Plan(policy="fair"), seed=0), DEADLINE_S)
    print(time.monotonic() - began, racks, flush=True)
    sys.stdin.read()
    testbed.lower()


if __name__ == "__main__":
    _inside(int(sys.argv[1]), Path(sys.argv[2]))
