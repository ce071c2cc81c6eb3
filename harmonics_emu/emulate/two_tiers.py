"""Has harmonics plan in two tiers: the Global Coordinator in the controller, a Local Scheduler's process a rack.

It is asked like a `Solver`, and so serves the same supervisor. What is asked goes to the controller over a connection
of its own, so that rules are installed while the Coordinator thinks. The controller's death is told as WorkerLost, and
met by `restart` once another one stands; forecasts come from a solver's process, as for every policy.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harmonics_emu.emulate import wire
from harmonics_emu.emulate.control import Coordinate, Coordinated, Failure, answers
from harmonics_emu.emulate.local_scheduler import Replaced, Standing, news
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.sandbox import STATE
from harmonics_emu.emulate.solving import Begin, Forecast, Heard, Refused, Solver, ask_of, encode
from harmonics_emu.emulate.worker import Worker, WorkerLost
from harmonics_emu.schedulers.interface import Plan, Snapshot

STANDING_S = 60.0
"""How long the Local Schedulers may take to import, and on a new machine to compile, what they need."""
TRANSFER_S = 1.0
HANGING = 5
"""So many plans in a row without a word from a rack are told as a fault."""


class TwoTiers:
    """The policy harmonics of one run. One question at a time.

    faults: what broke and was mended, for the verdict, since `take_faults` was called last.
    """

    def __init__(self, begin: Begin, racks: Sequence[int], controller: Path, logs: Logs) -> None:
        arguments = ["--racks", *map(str, racks), "--seed", str(begin.seed), "--directory", str(STATE)]
        self._begin, self._controller = begin, controller
        self._racks = Worker("harmonics_emu.emulate.local_scheduler", logs, "local-schedulers", arguments)
        self._foreseer = Solver(begin, logs)
        self._connection: socket.socket | None = None
        self._request = 0
        self._asked: Snapshot | None = None
        self._due = 0.0
        self._standing = False
        self._held: Snapshot | None = None
        self._silent: dict[int, int] = {}
        self._faults: list[str] = []

    @property
    def asked(self) -> bool:
        """Whether a question waits for its answer."""
        return self._asked is not None or self._held is not None

    def ask(self, snapshot: Snapshot, timeout_s: float) -> None:
        """Have a plan made. WorkerLost if the controller is gone."""
        self._due = time.monotonic() + timeout_s
        if not self._standing:
            # What is asked before the Local Schedulers stand is passed on when they do.
            self._held = snapshot
            return
        self._pass_on(snapshot)

    def foresee(self, snapshot: Snapshot, plan: Plan, timeout_s: float) -> None:
        """Have only a forecast made. WorkerLost if the process that makes them is gone."""
        self._foreseer.foresee(snapshot, plan, timeout_s)

    def poll(self, timeout_s: float = 0.0) -> Heard | None:
        """What has come, None if nothing has. WorkerLost if who was asked is gone or has not answered in time."""
        self._hear_of_racks()
        if self._held is not None and self._standing:
            held, self._held = self._held, None
            self._pass_on(held)
        if self.asked and time.monotonic() > self._due:
            raise WorkerLost("the Global Coordinator did not answer in time")
        if self._connection is not None and self._asked is not None:
            if select.select([self._connection], [], [], timeout_s)[0]:
                return self._receive(self._connection, self._asked)
            timeout_s = 0.0
        heard = self._foreseer.poll(timeout_s)
        return heard if heard is not None and isinstance(heard.reply, Forecast) else None

    def restart(self) -> None:
        """Forget what was asked, and begin anew: with the controller that is there by then, and another foreseer."""
        self._asked = self._held = None
        self._disconnect()
        self._foreseer.restart()

    def stop(self) -> None:
        self._disconnect()
        self._foreseer.stop()
        self._racks.stop()

    def take_faults(self) -> list[str]:
        """What broke since the last call, one line each."""
        found, self._faults = self._faults, []
        return found

    def cpu_seconds(self) -> dict[str, float]:
        """As Planner has it. The Coordinator's is the controller's."""
        return {"local schedulers": self._racks.cpu_seconds(), "forecasts": self._foreseer.cpu_seconds()["solver"]}

    def _pass_on(self, snapshot: Snapshot) -> None:
        self._request += 1
        body = msgspec.Raw(encode(Coordinate(self._begin, ask_of(snapshot))))
        now = time.monotonic()
        frame = wire.Frame(wire.VERSION, self._request, self._due - now, body)
        try:
            if self._connection is None:
                self._connection = wire.connect(self._controller, "controller", TRANSFER_S)
            wire.send_frame(self._connection, frame, now + TRANSFER_S)
        except wire.WireError as error:
            raise WorkerLost(f"the Global Coordinator: {error}") from None
        self._asked = snapshot

    def _receive(self, connection: socket.socket, asked: Snapshot) -> Heard | None:
        try:
            frame = wire.receive_frame(connection, time.monotonic() + TRANSFER_S)
            if frame is None:
                raise wire.WireError("it closed the connection")
            answer = answers.decode(frame.body)
        except (wire.WireError, msgspec.MsgspecError) as error:
            raise WorkerLost(f"the Global Coordinator: {error}") from None
        if frame.request != self._request:
            return None
        self._asked = None
        if isinstance(answer, Failure):
            return Heard(asked, Refused(answer.cause))
        if not isinstance(answer, Coordinated):
            raise WorkerLost(f"the Global Coordinator answered {type(answer).__name__}")
        self._note_silence(answer.silent, asked.time_s)
        self._foreseer.foresee(asked, answer.answer.plan, STANDING_S)
        return Heard(asked, answer.answer)

    def _note_silence(self, silent: Sequence[int], time_s: float) -> None:
        """A rack may be late now and then; one that goes on saying nothing hangs."""
        self._silent = {rack: self._silent.get(rack, 0) + 1 for rack in silent}
        for rack, epochs in self._silent.items():
            if epochs == HANGING:
                self._faults.append(
                    f"the Local Scheduler of rack {rack} said nothing for {HANGING} plans ({time_s:.1f} s)"
                )

    def _hear_of_racks(self) -> None:
        """Note that the Local Schedulers stand, and those that were replaced. All gone: they are started anew."""
        try:
            while (frame := self._racks.poll()) is not None:
                heard = news.decode(frame.body)
                if isinstance(heard, Standing):
                    self._standing = True
                elif isinstance(heard, Replaced):
                    self._faults.append(f"the Local Scheduler of rack {heard.rack} {heard.how} and was started again")
        except (WorkerLost, msgspec.MsgspecError) as error:
            self._faults.append(f"the Local Schedulers were lost ({error}) and started again")
            self._racks.restart()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None
