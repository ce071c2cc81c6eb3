"""The rank launcher: imports torch once, then forks a process for every rank it is asked for.

`python -m workloads.launcher` reads requests on stdin and writes replies on stdout, as workloads.launch_messages
defines them. It ends, and all ranks with it, when it is told to or when its stdin closes. It must be told everything
that it needs: it reads no files but the ends of its ranks' logs.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module

import msgspec

from workloads.launch_messages import (
    BackgroundFlow,
    Command,
    JobStarted,
    LaunchJob,
    LineBuffer,
    Ready,
    Rejected,
    Reply,
    Shutdown,
    StopJob,
    decode_request,
    encode_line,
)
from workloads.running_job import RankProcess, RunningJob

LONGEST_SLEEP_S = 60.0


PRELOADED = (
    "encodings.idna",
    "linecache",
    "torch.distributed",
    "torch.nn.parallel",
    "workloads.programs.allreduce",
    "workloads.programs.background",
    "workloads.programs.exchange",
    "workloads.programs.training",
)


def preload() -> float:
    """Import all that ranks may need, and return the seconds it took.

    A rank that has dropped its privileges may be unable to read the folder that holds these modules, so nothing may
    be left to be imported on first use. No thread may be started either, since the process is about to fork.
    """
    began = time.monotonic()
    # OpenMP reads it once, when it is loaded.
    os.environ["OMP_NUM_THREADS"] = "1"
    for module in PRELOADED:
        import_module(module)
    # Ranks share this memory with the launcher until somebody writes to it, as a garbage collection would.
    gc.collect()
    gc.freeze()
    return time.monotonic() - began


class Launcher:
    """The loop: requests, ends of ranks, and deadlines, each handled as it comes."""

    def __init__(self, requests: int, replies: int) -> None:
        self._requests = requests
        self._replies = replies
        self._selector = selectors.DefaultSelector()
        self._lines = LineBuffer()
        self._jobs: dict[str, RunningJob] = {}
        self._closing = False

    def run(self, import_s: float) -> None:
        """Serve until a Shutdown, or until the requests end."""
        self._selector.register(self._requests, selectors.EVENT_READ)
        self._reply(Ready(import_s))
        while self._jobs or not self._closing:
            now = time.monotonic()
            due = min((now + LONGEST_SLEEP_S, *(job.due() for job in self._jobs.values())))
            for key, _ in self._selector.select(max(0.0, due - now)):
                if key.data is None:
                    self._read_requests()
                else:
                    self._reap(*key.data)
            for job in self._jobs.values():
                job.tick(time.monotonic())

    def _read_requests(self) -> None:
        data = os.read(self._requests, 2**16)
        if not data:
            self._close("the supervisor is gone")
            return
        for line in self._lines.feed(data):
            if line.strip():
                self._handle(line)

    def _handle(self, line: bytes) -> None:
        try:
            request = decode_request(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._reply(Rejected(f"not a request ({error}): {line[:80].decode(errors='replace')}"))
            return
        match request:
            case LaunchJob():
                self._launch(request)
            case StopJob(name):
                if name in self._jobs:
                    self._jobs[name].end("stopped on request")
                else:
                    self._reply(Rejected("no such job is running", name))
            case Shutdown():
                self._close("the launcher was told to shut down")

    def _launch(self, request: LaunchJob) -> None:
        problem = self._problem_with(request)
        if problem is not None:
            self._reply(Rejected(problem, request.name))
            return
        job = RunningJob(request)
        self._jobs[request.name] = job
        with suppress(OSError):
            job.start()
        for process in job.processes.values():
            self._selector.register(process.pidfd, selectors.EVENT_READ, (job, process))
        self._reply(JobStarted(request.name, job.pids()))
        if not job.processes:
            self._finish(job)

    def _problem_with(self, request: LaunchJob) -> str | None:
        if self._closing:
            return "the launcher is shutting down"
        if request.name in self._jobs:
            return "a job of this name is running"
        if not request.ranks or [place.rank for place in request.ranks] != list(range(len(request.ranks))):
            return "ranks must be numbered from 0, in order"
        if isinstance(request.program, BackgroundFlow) and len(request.ranks) != 2:
            return "background traffic has two ranks, a sender and a receiver"
        if isinstance(request.program, BackgroundFlow) and request.page_path is None:
            return "background traffic needs a page: nothing else can stop it"
        if isinstance(request.program, Command) and not request.program.argv:
            return "the command is empty"
        if not request.timeout_s > 0:
            return "timeout_s must be above zero"
        return None

    def _reap(self, job: RunningJob, process: RankProcess) -> None:
        self._selector.unregister(process.pidfd)
        self._reply(job.reap(process))
        if not job.processes:
            self._finish(job)

    def _finish(self, job: RunningJob) -> None:
        del self._jobs[job.request.name]
        self._reply(job.outcome())

    def _close(self, reason: str) -> None:
        if self._requests in self._selector.get_map():
            self._selector.unregister(self._requests)
        self._closing = True
        for job in self._jobs.values():
            job.end(reason)

    def _reply(self, message: Reply) -> None:
        """Tell the supervisor; if it is gone, its end of stdin says so as well."""
        line = encode_line(message)
        with suppress(BrokenPipeError):
            while line:
                line = line[os.write(self._replies, line) :]


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a library prints must not get between the replies.
    replies = os.dup(1)
    os.dup2(2, 1)
    try:
        import_s = preload()
    except ImportError as error:
        print(f"error: ranks can't be run: {error}; install harmonics-emu[emulate]", file=sys.stderr)
        return 1
    Launcher(requests=0, replies=replies).run(import_s)
    return 0


if __name__ == "__main__":
    sys.exit(main())
