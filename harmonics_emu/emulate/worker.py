"""A helper process on a socketpair: it may be slow or die, and whoever asks it never waits for it longer than it says.

Requests and answers are `wire` frames, and what their bodies mean is the business of the modules that use this one (see
`solving`). The parent sends, and looks now and then what has come; a request that is not answered in time, like the
process's death, is told by WorkerLost. The worker can then be restarted; answers to what was asked before are gone.

A worker runs niced and on one thread: it shares the machine's cores with the traffic whose times are measured.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from harmonics_emu import shell
from harmonics_emu.emulate import wire
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.sandbox import python_command
from harmonics_emu.errors import HarmonicsError

NICENESS = 5
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
TRANSFER_S = 1.0
"""How long one message may be under way: no worker that lives takes a fraction of it."""
STOP_S = 5.0


class WorkerLost(HarmonicsError):
    """A worker that died, fell silent, or said what is no message. `restart` brings another one."""


class Worker:
    """A running `python -m MODULE` on the other end of a socketpair. Not for use from several threads."""

    def __init__(self, module: str, logs: Logs, name: str, arguments: Iterable[str] = ()) -> None:
        self.name = name
        self._command = python_command(module, *arguments)
        self._logs = logs
        self._request = 0
        self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        """CPU time that the present process, and those that it has forked, have used; 0 once it is gone."""
        try:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            return sum(process_cpu_s(pid) for pid in (self.pid, *map(int, children)))
        except FileNotFoundError:
            return 0.0

    def send(self, body: bytes, timeout_s: float) -> int:
        """Ask something that must be answered within `timeout_s`; returns the request's number, by which to know it."""
        self._request += 1
        now = time.monotonic()
        frame = wire.Frame(wire.VERSION, self._request, timeout_s, msgspec.Raw(body))
        with self._told():
            wire.send_frame(self._connection, frame, now + TRANSFER_S)
        self._due[self._request] = now + timeout_s
        return self._request

    def poll(self, timeout_s: float = 0.0) -> wire.Frame | None:
        """The next answer, None if none has come within `timeout_s`. WorkerLost once one is overdue."""
        ready, _, _ = select.select([self._connection], [], [], timeout_s)
        now = time.monotonic()
        if not ready:
            if min(self._due.values(), default=now) < now:
                raise WorkerLost(f"{self.name} did not answer in time")
            return None
        with self._told():
            frame = wire.receive_frame(self._connection, now + TRANSFER_S)
        if frame is None:
            raise WorkerLost(self._end())
        self._due.pop(frame.request, None)
        return frame

    def restart(self) -> None:
        """End the process, whatever it does, and start another that knows nothing yet."""
        self.stop()
        self._start()

    def stop(self) -> None:
        self._connection.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(timeout=STOP_S)

    def _start(self) -> None:
        self._due: dict[int, float] = {}
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs, self._logs.open(f"{self.name}.log") as log:
            environment = {**os.environ, **ONE_THREAD}
            self._process = shell.start(self._command, log=log, env=environment, stdin=theirs.fileno())

    def _end(self) -> str:
        """How the process ended, or that it did not."""
        try:
            status = self._process.wait(timeout=TRANSFER_S)
        except subprocess.TimeoutExpired:
            return f"{self.name} lives but does not listen"
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"{self.name} {how}; see logs/{self.name}.log"

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except wire.WireError as error:
            raise WorkerLost(f"{self._end()} ({error})") from None


def process_cpu_s(pid: int) -> float:
    """CPU time that a process has used so far, all threads. FileNotFoundError if there is no such process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Speaker:
    """The worker's end of the connection, which is its standard input. Made first thing in the worker's process."""

    def __init__(self) -> None:
        os.nice(NICENESS)
        self.connection = socket.socket(fileno=os.dup(0))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def say(self, body: bytes, request: int = 0, timeout_s: float = TRANSFER_S) -> None:
        """Tell the parent something: the answer to a request of its, or unasked."""
        frame = wire.Frame(wire.VERSION, request, 0.0, msgspec.Raw(body))
        wire.send_frame(self.connection, frame, time.monotonic() + timeout_s)

    def is_there(self, timeout_s: float) -> bool:
        """Whether the parent still is, after waiting for its end for that long. For workers that are asked nothing."""
        return not select.select([self.connection], [], [], timeout_s)[0]


def attend(answer: Callable[[bytes], Iterable[bytes]]) -> None:
    """Be a worker: answer each request with the bodies that `answer` makes of it, one by one, until the parent is gone.

    Called first thing in the worker's process.
    """
    speaker = Speaker()
    while (frame := wire.receive_frame(speaker.connection, None)) is not None:
        for body in answer(bytes(frame.body)):
            speaker.say(body, frame.request, max(TRANSFER_S, frame.timeout_s))
