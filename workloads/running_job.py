"""One job in the launcher's hands: its rank processes, its deadlines, and what is said of it in the end."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workloads.launch_messages import JobFinished, LaunchJob, RankExited
from workloads.output_files import log_path, rendezvous_path
from workloads.rank import live

TAIL_LINES = 20
TAIL_BYTES = 8192
ERROR_LENGTH = 300
KILL_AFTER_S = 1.0
"""From SIGTERM to SIGKILL."""
GRACE_S = 0.5
"""How long a rank that only lost its peer is not taken for the culprit, while the peer may still be dying."""
_LOST_PEER = re.compile(
    r"connection (was )?(closed|reset|refused)|broken pipe|socket (is )?closed|failed to recv|timed out waiting for",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RankProcess:
    """A forked rank. pidfd becomes readable when it ends; `errors` takes what it says before it has a log."""

    rank: int
    pid: int
    pidfd: int
    errors: int


class RunningJob:
    """A job from its launch until its last rank is gone. Its owner watches `processes` and calls `reap` and `tick`."""

    def __init__(self, request: LaunchJob) -> None:
        self.request = request
        self.processes: dict[int, RankProcess] = {}
        self._exits: list[RankExited] = []
        self._ended: tuple[Literal["failed", "killed"], str] | None = None
        self._deadline = time.monotonic() + request.timeout_s
        self._terminate_at: float | None = None
        self._kill_at: float | None = None

    def start(self) -> None:
        """Fork the ranks. OSError if that fails; those already forked are then being ended."""
        self._remove_rendezvous()
        launcher = os.getpid()
        try:
            for place in self.request.ranks:
                errors, its_errors = os.pipe()
                pid = os.fork()
                if pid == 0:
                    live(self.request, place, launcher, its_errors)
                os.close(its_errors)
                os.set_blocking(errors, False)
                # The child does the same; whoever comes first, the group is there before anyone signals it.
                with suppress(OSError):
                    os.setpgid(pid, pid)
                self.processes[place.rank] = RankProcess(place.rank, pid, os.pidfd_open(pid), errors)
        except OSError as error:
            self.end(f"the ranks could not be started: {error.strerror}", "failed")
            raise

    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self.processes.values())

    def reap(self, process: RankProcess) -> RankExited:
        """Collect a rank that has ended, with all that it left running, and begin to end the job if it failed."""
        # The dead leader still holds the group's number, so no other group can be meant.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _, wait_status = os.waitpid(process.pid, 0)
        os.close(process.pidfd)
        del self.processes[process.rank]
        code = os.waitstatus_to_exitcode(wait_status)
        exited = RankExited(
            job=self.request.name,
            rank=process.rank,
            status=code if code >= 0 else None,
            signal=_signal_name(-code) if code < 0 else None,
            tail=self._tail(process),
        )
        if self._kill_at is None:
            self._exits.append(exited)
            if failed(exited) and self._ended is None:
                grace = GRACE_S if lost_its_peer(exited) else 0.0
                proposed = time.monotonic() + grace
                self._terminate_at = proposed if self._terminate_at is None else min(self._terminate_at, proposed)
        if not self.processes:
            self._remove_rendezvous()
        return exited

    def end(self, reason: str, status: Literal["failed", "killed"] = "killed") -> None:
        """Terminate the job, if it is not being terminated yet; `reason` becomes its error."""
        if self._kill_at is None:
            self._ended = (status, reason)
            self._terminate()

    def tick(self, now: float) -> None:
        """Do what is due at `now` (time.monotonic)."""
        if self._kill_at is not None:
            if now >= self._kill_at:
                self._signal_all(signal.SIGKILL)
                self._kill_at = now + KILL_AFTER_S
        elif self._terminate_at is not None and now >= self._terminate_at:
            self._terminate()
        elif now >= self._deadline:
            self.end(f"it did not finish within its deadline of {self.request.timeout_s:g} s")

    def due(self) -> float:
        """When `tick` has something to do next."""
        if self._kill_at is not None:
            return self._kill_at
        return self._deadline if self._terminate_at is None else min(self._terminate_at, self._deadline)

    def outcome(self) -> JobFinished:
        """What became of the job, once no process is left."""
        failures = [exited for exited in self._exits if failed(exited)]
        if failures:
            culprit = first_failure(failures)
            return JobFinished(self.request.name, "failed", describe(culprit), culprit.tail)
        if self._ended is not None:
            return JobFinished(self.request.name, *self._ended)
        return JobFinished(self.request.name, "done")

    def _terminate(self) -> None:
        self._signal_all(signal.SIGTERM)
        self._kill_at = time.monotonic() + KILL_AFTER_S

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def _tail(self, process: RankProcess) -> tuple[str, ...]:
        """Last lines of the rank's log; what it said before it had one, if it never got that far."""
        said = b""
        with suppress(BlockingIOError):
            said = os.read(process.errors, TAIL_BYTES)
        os.close(process.errors)
        if not said:
            path = log_path(Path(self.request.output_dir), self.request.name, process.rank)
            with suppress(OSError):
                said = _end_of(path)
        return tuple(said.decode(errors="replace").splitlines()[-TAIL_LINES:])

    def _remove_rendezvous(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(rendezvous_path(Path(self.request.output_dir), self.request.name))


def failed(exited: RankExited) -> bool:
    return exited.status != 0


def lost_its_peer(exited: RankExited) -> bool:
    """Whether the rank's last words are that another one is gone: a consequence of some other rank's failure."""
    return exited.signal is None and any(_LOST_PEER.search(line) for line in exited.tail)


def first_failure(failures: Sequence[RankExited]) -> RankExited:
    """The rank to blame: the first that failed for reasons of its own, else the first. `failures` in time order."""
    return next((exited for exited in failures if not lost_its_peer(exited)), failures[0])


def describe(exited: RankExited) -> str:
    """One line: which rank ended, how, and the last thing it said."""
    if exited.signal is not None:
        how = f"rank {exited.rank} was killed by {exited.signal}"
    else:
        how = f"rank {exited.rank} ended with status {exited.status}"
    said = next((line.strip() for line in reversed(exited.tail) if line.strip()), "")
    line = f"{how}: {said}" if said else how
    return line if len(line) <= ERROR_LENGTH else line[: ERROR_LENGTH - 3] + "..."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _end_of(path: Path) -> bytes:
    """The last TAIL_BYTES of a file, which must not be a link: the user owns the directory, and this may be root."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.lseek(file, max(0, os.fstat(file).st_size - TAIL_BYTES), os.SEEK_SET)
        return os.read(file, TAIL_BYTES)
    finally:
        os.close(file)
