"""Emulated runs by the command, as tests start them, and what they look at while those go on."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from workloads.job_page import JobPage

COMMAND = [sys.executable, "-P", "-m", "harmonics_emu"]
SMALL = """
name: {name}
fabric: {{kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 1, host_rate: 100Mbit, uplink_rate: 50Mbit}}
jobs:
  - {{name: one, gradients: 200kB, workers: 2, compute: {{iteration: 20ms}}, iterations: {iterations}, priority: 1}}
  - {{name: two, gradients: 200kB, workers: 2, compute: {{iteration: 20ms}}, iterations: {iterations}, priority: 2}}
"""


def harmonics(*arguments: str, timeout_s: float = 60, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=timeout_s, **options)


def start(*arguments: str, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def offer_policy(directory: Path, name: str, code: str) -> dict[str, str]:
    """Install a policy as another package would offer it; the environment in which it is found."""
    (directory / f"{name}.py").write_text(code)
    folder = directory / f"{name}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[harmonics_emu.policies]\n{name} = {name}:policy\n")
    return {**os.environ, "PYTHONPATH": str(directory)}


def wait_for_iterations(directory: Path, process: subprocess.Popen[str], timeout_s: float = 40) -> None:
    deadline = time.monotonic() + timeout_s
    while not any(path.stat().st_size > 200 for path in directory.glob("spans/*.spans")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no iteration ended"
        time.sleep(0.05)


def processes_in_sandbox(of: str) -> list[int]:
    """Pids of the processes of a run whose command line begins with `of`, seen from the host."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if entry.name.isdecimal() and (entry / "cmdline").read_bytes().startswith(of.encode()):
                found.append(int(entry.name))
    return sorted(found)


def python_processes(module: str) -> list[int]:
    """Those that run a module of ours, the first of them first."""
    return processes_in_sandbox(f"{sys.executable}\0-P\0-m\0{module}")


def open_page(job_index: int) -> JobPage:
    """The page of a job of the one run that goes on, from outside its sandbox."""
    (inside,) = python_processes("harmonics_emu.emulate.inside")
    return JobPage.open(Path(f"/proc/{inside}/root/dev/shm/job{job_index}"))


def wait_for_another(begins: str, pid: int, timeout_s: float = 20) -> None:
    """Until a process that begins so, and is not `pid`, has lived for two seconds."""
    deadline = time.monotonic() + timeout_s
    while not [other for other in processes_in_sandbox(begins) if other != pid]:
        assert time.monotonic() < deadline, f"{begins} was not started again"
        time.sleep(0.05)
    time.sleep(2)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
