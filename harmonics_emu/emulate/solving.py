"""What the supervisor and the solver's process tell each other, and the supervisor's end of the conversation.

The policy runs in a worker of its own (`solver`), so that a plan that takes long, or a policy that breaks, stops
neither the supervisor's watch over the jobs nor the leases of their gates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.worker import Worker, WorkerLost
from harmonics_emu.schedulers.interface import JobState, Plan, Snapshot
from topologies.fabric import Fabric
from workloads.job import Background

READY_S = 30.0
"""How long a solver's process may take to start, on a machine that is busy."""


class Begin(msgspec.Struct, tag=True, frozen=True):
    """What stays the same for a whole run. epoch_s: how long a plan is expected to hold, None where none can tell.

    guarded: whether forecasts are also made of fair sharing, for a guard to compare with.
    """

    policy: str
    options: dict[str, Any]
    fabric: Fabric
    seed: int
    background: tuple[Background, ...]
    epoch_s: float | None
    guarded: bool = False


class Ask(msgspec.Struct, tag=True, frozen=True):
    """Make a plan for these jobs. The rest of the snapshot is in Begin."""

    time_s: float
    jobs: tuple[JobState, ...]
    links_down: frozenset[str]


def ask_of(snapshot: Snapshot) -> Ask:
    """The question about a snapshot."""
    return Ask(snapshot.time_s, snapshot.jobs, snapshot.links_down)


def snapshot_of(begin: Begin, ask: Ask) -> Snapshot:
    """What a question is about."""
    return Snapshot(
        time_s=ask.time_s,
        fabric=begin.fabric,
        jobs=ask.jobs,
        seed=begin.seed,
        background=begin.background,
        links_down=ask.links_down,
        options=begin.options,
    )


class Foresee(msgspec.Struct, tag=True, frozen=True):
    """Only a Forecast, of a plan that was made elsewhere."""

    ask: Ask
    plan: Plan


class Ready(msgspec.Struct, tag=True, frozen=True):
    """Answer to Begin."""


class Answer(msgspec.Struct, tag=True, frozen=True):
    """Answer to Ask. Times in seconds; fallback: the policy fell back to a simpler plan."""

    plan: Plan
    solve_s: float
    critical_path_s: float
    fallback: bool


class Forecast(msgspec.Struct, tag=True, frozen=True):
    """After an Answer: mean seconds of an iteration that the fluid model expects of each job under the plan.

    fair_s, alone_s: the same under fair sharing, and of each job alone; empty unless the run is guarded.
    """

    iteration_s: dict[str, float]
    fair_s: dict[str, float] = {}
    alone_s: dict[str, float] = {}


class Refused(msgspec.Struct, tag=True, frozen=True):
    """Answer to an Ask or Begin that could not be met: the cause in one line."""

    cause: str


Request = Begin | Ask | Foresee
Reply = Ready | Answer | Forecast | Refused

encode = msgspec.msgpack.encode
requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


@dataclass(frozen=True)
class Heard:
    """What a solver said to the question about `snapshot`."""

    snapshot: Snapshot
    reply: Answer | Forecast | Refused


class Planner(Protocol):
    """Who makes a run's plans, in some other process. One question at a time; `asked` while it waits for its answer."""

    @property
    def asked(self) -> bool: ...

    def ask(self, snapshot: Snapshot, timeout_s: float) -> None:
        """Have a plan made. WorkerLost if whoever makes it is gone."""

    def foresee(self, snapshot: Snapshot, plan: Plan, timeout_s: float) -> None:
        """Have only a forecast made, of a plan from elsewhere. WorkerLost if whoever makes it is gone."""

    def poll(self, timeout_s: float = 0.0) -> Heard | None:
        """What has come, None if nothing has. WorkerLost if whoever was asked is gone, or has not answered in time."""

    def restart(self) -> None:
        """Begin anew with another process; what was asked is forgotten."""

    def stop(self) -> None: ...

    def take_faults(self) -> list[str]:
        """What broke and was mended without anybody's doing since the last call, one line each."""

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time that the processes of now have used, by what they are called."""


class Solver:
    """The policy of one run, in a process of its own. One question at a time."""

    def __init__(self, begin: Begin, logs: Logs) -> None:
        self._begin = begin
        self._asked: dict[int, Snapshot] = {}
        self._waiting = False
        self._worker = Worker("harmonics_emu.emulate.solver", logs, "solver")
        self._introduce()

    @property
    def pid(self) -> int:
        return self._worker.pid

    @property
    def asked(self) -> bool:
        """Whether a question waits for its answer."""
        return self._waiting

    def ask(self, snapshot: Snapshot, timeout_s: float) -> None:
        """Have a plan made. WorkerLost if the process is gone."""
        self._asked[self._worker.send(encode(ask_of(snapshot)), timeout_s)] = snapshot
        self._waiting = True

    def foresee(self, snapshot: Snapshot, plan: Plan, timeout_s: float) -> None:
        """Have only a forecast made, of a plan from elsewhere. WorkerLost if the process is gone."""
        self._asked = {self._worker.send(encode(Foresee(ask_of(snapshot), plan)), timeout_s): snapshot}

    def poll(self, timeout_s: float = 0.0) -> Heard | None:
        """What has come, None if nothing has. WorkerLost if the process died, or has not answered in time."""
        frame = self._worker.poll(timeout_s)
        if frame is None:
            return None
        try:
            reply = _replies.decode(frame.body)
        except msgspec.MsgspecError as error:
            raise WorkerLost(f"{self._worker.name} said what is no answer: {error}") from None
        if isinstance(reply, Ready):
            return None
        if frame.request not in self._asked and isinstance(reply, Forecast):
            return None  # of a plan that another has followed meanwhile
        if frame.request not in self._asked:
            cause = reply.cause if isinstance(reply, Refused) else f"it answered {type(reply).__name__} unasked"
            raise WorkerLost(f"{self._worker.name}: {cause}")
        snapshot = self._asked[frame.request]
        if not isinstance(reply, Forecast):
            self._waiting = False
            self._asked = {frame.request: snapshot}
        return Heard(snapshot, reply)

    def take_faults(self) -> list[str]:
        """What broke and was mended without anybody's doing since the last call: nothing, here."""
        return []

    def cpu_seconds(self) -> dict[str, float]:
        return {"solver": self._worker.cpu_seconds()}

    def restart(self) -> None:
        """Begin anew with another process; what was asked is forgotten."""
        self._worker.restart()
        self._introduce()

    def stop(self) -> None:
        self._worker.stop()

    def _introduce(self) -> None:
        self._asked.clear()
        self._waiting = False
        self._worker.send(encode(self._begin), READY_S)
