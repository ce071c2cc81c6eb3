"""The supervisor's end of the rank launcher: starts jobs through it and hears how they end."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harmonics_emu import shell
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.network import namespace_of
from harmonics_emu.emulate.sandbox import SHARED_PAGES, STATE, python_command
from harmonics_emu.errors import RunFailed
from harmonics_emu.ownership import Owner
from topologies.addressing import host_interface, job_interface, job_nic
from topologies.fabric import Fabric
from workloads.job import Background, Job
from workloads.job_page import JobPage
from workloads.launch_messages import (
    AllReduce,
    BackgroundFlow,
    Command,
    LaunchJob,
    LineBuffer,
    Program,
    RankPlace,
    Ready,
    Reply,
    Request,
    Shutdown,
    StopJob,
    Training,
    User,
    decode_reply,
    encode_line,
)
from workloads.own_scripts.watching import lay_out

READY_S = 60.0
"""How long importing torch may take on a busy machine."""
RENDEZVOUS_PORT = 29500
WATCH = STATE / "watch"
"""What has users' scripts looked at; see workloads.own_scripts."""
BACKGROUND_PORT = 29000
LONGEST_JOB_S = 7 * 24 * 3600.0
"""The launcher's own bound. What ends a stuck job in practice is the supervisor's watch over its progress."""


@dataclass(frozen=True)
class RankSettings:
    """As whom and with what ranks run. environment: the caller's, for commands; owner None leaves them root."""

    owner: Owner | None
    groups: tuple[int, ...]
    environment: Mapping[str, str]
    working_directory: str
    output_dir: Path
    seed: int


class Launcher:
    """A running rank launcher. Start it early: importing torch takes seconds, which the fabric's building hides."""

    def __init__(self, logs: Logs) -> None:
        self._replies: queue.Queue[Reply | None] = queue.Queue()
        command = python_command("workloads.launcher")
        with logs.open("launcher.log") as log:
            self._process = shell.start(command, log=log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self._listen, name="launcher replies", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self, timeout_s: float = READY_S) -> float:
        """Seconds that the launcher spent importing. RunFailed if it does not come up."""
        reply = self.next_reply(timeout_s)
        if not isinstance(reply, Ready):
            raise RunFailed(f"the rank launcher did not come up within {timeout_s:g} s; see logs/launcher.log")
        return reply.import_s

    def next_reply(self, timeout_s: float) -> Reply | None:
        """The next thing the launcher says, None if it says nothing in time. RunFailed once it is dead."""
        try:
            reply = self._replies.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if reply is None:
            self._replies.put(None)
            raise RunFailed(f"the rank launcher died (status {self._process.poll()}); see logs/launcher.log")
        return reply

    def launch(self, fabric: Fabric, job: Job, settings: RankSettings) -> JobPage:
        """Start a job's ranks, each in its host's namespace; they wait for the page's release."""
        if job.command and not WATCH.exists():
            lay_out(WATCH)
        page = JobPage.create(SHARED_PAGES / f"job{job.index}", job.ranks, settings.owner)
        master = job_interface(job.index, fabric.host_index[job.hosts[0]]).ip
        request = LaunchJob(
            name=job.name,
            index=job.index,
            program=_program(job, fabric, settings.working_directory),
            ranks=_places(job.hosts, fabric),
            output_dir=str(settings.output_dir),
            timeout_s=LONGEST_JOB_S,
            nic_label=job_nic(job.index),
            master_address=str(master),
            master_port=RENDEZVOUS_PORT,
            user=_user(settings),
            environment=dict(settings.environment),
            page_path=str(page.path),
            seed=settings.seed,
            device=job.device,
            backend=job.backend,
        )
        self._send(request)
        return page

    def launch_background(self, fabric: Fabric, flow: Background, index: int, settings: RankSettings) -> JobPage:
        """Start a steady flow between two hosts' base addresses, as a pseudo-job of two ranks."""
        page = JobPage.create(SHARED_PAGES / f"background{index}", 2, settings.owner)
        address = host_interface(fabric.host_index[flow.dst]).ip
        request = LaunchJob(
            name=background_name(index),
            index=0,
            program=BackgroundFlow(str(address), BACKGROUND_PORT + index, flow.rate_bps),
            ranks=_places((flow.src, flow.dst), fabric),
            output_dir=str(settings.output_dir),
            timeout_s=LONGEST_JOB_S,
            user=_user(settings),
            page_path=str(page.path),
            seed=settings.seed,
        )
        self._send(request)
        return page

    def stop_job(self, name: str) -> None:
        self._send(StopJob(name))

    def shut_down(self, timeout_s: float = 5.0) -> None:
        """End every job and the launcher; it is killed if it takes longer than `timeout_s`."""
        with contextlib.suppress(RunFailed):
            self._send(Shutdown())
        try:
            self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=timeout_s)

    def _send(self, request: Request) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode_line(request))
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise RunFailed("the rank launcher is gone; see logs/launcher.log") from None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        lines = LineBuffer()
        while chunk := self._process.stdout.read1(65536):  # type: ignore[attr-defined]
            for line in lines.feed(chunk):
                with contextlib.suppress(msgspec.MsgspecError):
                    self._replies.put(decode_reply(line))
        self._process.wait()
        self._replies.put(None)


def background_name(index: int) -> str:
    return f"background flow {index}"


def _program(job: Job, fabric: Fabric, directory: str) -> Program:
    if job.program == "command":
        return Command(job.command, directory, watch=str(WATCH))
    if job.program == "allreduce":
        return AllReduce(sizes=job.bucket_bytes, iterations=job.iterations, warmup=job.warmup)
    return Training(
        iterations=job.iterations,
        bucket_bytes=job.bucket_bytes,
        compute_s=job.compute_s,
        overlap=job.overlap,
        compute_cv=job.compute_cv,
        collective=job.collective,
        servers=job.servers,
        stages=job.stages,
        racks=tuple(fabric.rack_of[host] for host in job.hosts),
        program=job.program,
        real_compute=job.real_compute,
    )


def _places(hosts: tuple[str, ...], fabric: Fabric) -> tuple[RankPlace, ...]:
    seen: dict[str, int] = {}
    places = []
    for rank, host in enumerate(hosts):
        beside = seen.get(host, 0)
        gpu = fabric.host_index[host] * fabric.gpus_per_host + beside
        places.append(RankPlace(rank, beside, f"/run/netns/{namespace_of(host)}", gpu))
        seen[host] = seen.get(host, 0) + 1
    return tuple(places)


def _user(settings: RankSettings) -> User | None:
    if settings.owner is None:
        return None
    return User(settings.owner[0], settings.owner[1], settings.groups)
