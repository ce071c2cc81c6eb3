"""Hosts for launcher tests: network namespaces on one Linux bridge, and a supervisor that talks to a launcher."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from harmonics_emu import shell
from topologies.addressing import NIC, host_interface, job_interface, job_nic
from workloads.job_page import JobPage, State
from workloads.launch_messages import (
    JobFinished,
    JobStarted,
    LaunchJob,
    LineBuffer,
    Program,
    RankExited,
    RankPlace,
    Ready,
    Reply,
    Request,
    decode_reply,
    encode_line,
)

SOON_S = 60.0
T = TypeVar("T", Ready, JobStarted, RankExited, JobFinished, Any)


def make_hosts(count: int, jobs: int) -> list[str]:
    """Namespaces h0, h1, ... with a base address and one labelled address a job each; returns their paths."""
    lines = ["link add br0 type bridge", "link set br0 up"]
    for host in range(count):
        lines += [f"netns add h{host}", f"link add v{host} type veth peer name {NIC} netns h{host}"]
        lines += [f"link set v{host} master br0 up"]
    shell.run(["ip", "-batch", "-"], stdin="\n".join(lines) + "\n")
    for host in range(count):
        lines = ["link set lo up", f"link set {NIC} up", f"addr add {host_interface(host)} dev {NIC}"]
        lines += [f"addr add {job_interface(job, host)} dev {NIC} label {job_nic(job)}" for job in range(jobs)]
        shell.run(["ip", "-netns", f"h{host}", "-batch", "-"], stdin="\n".join(lines) + "\n")
    return [f"/run/netns/h{host}" for host in range(count)]


def open_to_everyone(paths: Iterable[Path]) -> None:
    """Let any user reach these directories, by mounts of this sandbox: a closed parent is covered by an open one."""
    covers = {
        path: next((up for up in reversed(path.parents) if not up.stat().st_mode & 0o001), None) for path in paths
    }
    closed = {path: cover for path, cover in covers.items() if cover is not None}
    kept = {path: Path(tempfile.mkdtemp(dir="/run")) for path in closed}
    for path, aside in kept.items():
        shell.run(["mount", "--bind", str(path), str(aside)])
    for cover in set(closed.values()):
        shell.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(cover)])
    for path, aside in kept.items():
        path.mkdir(parents=True, exist_ok=True)
        shell.run(["mount", "--bind", str(aside), str(path)])


def connections(host: int) -> list[tuple[str, str]]:
    """(local, remote) address of the TCP connections that stand in a host."""
    lines = shell.run(["ip", "netns", "exec", f"h{host}", "ss", "-Htn", "state", "established"]).splitlines()
    return [(fields[2].rsplit(":", 1)[0], fields[3].rsplit(":", 1)[0]) for fields in map(str.split, lines)]


def sent_bytes(host: int) -> int:
    """What a host has sent, by the counter of its bridge port."""
    return int(Path(f"/sys/class/net/v{host}/statistics/rx_bytes").read_text())


class Supervisor:
    """The other end of a launcher that the test started."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: subprocess.Popen[bytes] = shell.start(
            [sys.executable, "-m", "workloads.launcher"],
            log=(directory / "launcher.log").open("ab"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._lines = LineBuffer()
        self._replies: list[Reply] = []
        self.import_s = self.expect(Ready).import_s

    def send(self, request: Request) -> None:
        self.send_raw(encode_line(request))

    def send_raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def launch(
        self, name: str, program: Program, places: list[str | None], *, paged: bool = True, index: int = 0, **more: Any
    ) -> JobPage | None:
        """Launch a job with one rank a namespace, and wait until it is forked."""
        page, user = None, more.get("user")
        if paged:
            owner = None if user is None else (user.uid, user.gid)
            page = JobPage.create(self.directory / f"{index}.page", len(places), owner)
        settings: dict[str, Any] = {
            "nic_label": job_nic(index),
            "master_address": str(job_interface(index, 0).ip),
            "timeout_s": SOON_S,
            "output_dir": str(self.directory),
            **more,
        }
        self.send(
            LaunchJob(
                name=name,
                index=index,
                program=program,
                ranks=tuple(RankPlace(rank, 0, path) for rank, path in enumerate(places)),
                page_path=None if page is None else str(page.path),
                **settings,
            )
        )
        return page

    def expect(self, kind: type[T], timeout_s: float = SOON_S) -> T:
        """The next reply of this kind, whatever comes between; AssertionError if none comes in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            for reply in self._replies:
                if isinstance(reply, kind):
                    self._replies.remove(reply)
                    return reply
            now = time.monotonic()
            assert now < deadline, f"the launcher sent no {kind.__name__} in time; it had sent {self._replies}"
            self._read(deadline)

    def wait_for(self, page: JobPage, state: State) -> None:
        """Until all ranks of a job have come as far as `state`; AssertionError if one fails first or they take long."""
        deadline = time.monotonic() + SOON_S
        while not page.all_at_least(state):
            ended = [reply for reply in self._replies if isinstance(reply, RankExited) and reply.status != 0]
            assert not ended, f"a rank ended before all were {state.name}: {ended}"
            assert time.monotonic() < deadline, f"not all ranks came as far as {state.name}"
            self._read(time.monotonic() + 0.005)

    def release(self, page: JobPage) -> None:
        """Let a job begin once all its ranks are ready."""
        self.wait_for(page, State.READY)
        page.release(time.monotonic_ns() + 20_000_000)

    def _read(self, deadline: float) -> None:
        """Take in what the launcher has to say until `deadline`; returns at the first of it."""
        assert self.process.stdout is not None
        file = self.process.stdout.fileno()
        if select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
            data = os.read(file, 2**16)
            assert data, f"the launcher ended; it had sent {self._replies}"
            self._replies += [decode_reply(line) for line in self._lines.feed(data)]
