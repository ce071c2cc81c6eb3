"""The Local Schedulers as the Global Coordinator reaches them: all asked at once, none waited for too long.

A rack that says nothing in time is taken to wish what it wished last, for a few epochs, and then to wish nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from harmonics_emu.emulate import wire
from harmonics_emu.emulate.racks import (
    Answer,
    Failed,
    Fit,
    Fits,
    Propose,
    Reported,
    Request,
    answers,
    encode,
    socket_path,
)
from harmonics_emu.emulate.sandbox import STATE
from harmonics_emu.emulate.worker import NICENESS
from harmonics_emu.schedulers.harmonics.memory import Memory
from harmonics_emu.schedulers.harmonics.messages import EpochReport, Fitted, Fixed, View, Wish, Wishes
from harmonics_emu.schedulers.harmonics.outcome import Outcome

EPOCHS_REMEMBERED = 3
"""For so many epochs a rack that says nothing is taken to wish what it wished last."""
LEAST_S = 0.05
"""Racks have at least so long for an answer: they are processes, to which the machine must come."""
MORE_S = 0.05
"""How much longer the Coordinator waits than racks may take."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Remembered:
    """A rack's last report, with the names of the jobs that it numbers, and how old it is."""

    report: EpochReport
    jobs: tuple[str, ...]
    age: int = 0


class Racks:
    """Connections to the Local Schedulers whose sockets lie in `directory`. Asked by one epoch at a time.

    silent: racks that have said nothing when they were asked last. memory: what earlier epochs found.
    """

    def __init__(self, directory: Path = STATE) -> None:
        self._directory = directory
        self._connections: dict[int, socket.socket] = {}
        self._remembered: dict[int, _Remembered] = {}
        self._request = 0
        self._epoch = 0
        self.silent: set[int] = set()
        self.memory: Memory[Outcome] = Memory()

    def report(self, views: Mapping[int, View], jobs: Sequence[str], timeout_s: float) -> list[EpochReport]:
        """What racks wish now, or wished last."""
        self._epoch += 1
        said = self._ask({rack: Propose(self._epoch, view) for rack, view in views.items()}, timeout_s)
        found = []
        for rack in views:
            answer = said.get(rack)
            if isinstance(answer, Reported) and answer.report.epoch == self._epoch:
                self._remembered[rack] = _Remembered(answer.report, tuple(jobs))
                found.append(answer.report)
            elif (report := self._remember(rack, jobs)) is not None:
                found.append(report)
        self.silent = views.keys() - {rack for rack, answer in said.items() if isinstance(answer, Reported)}
        return found

    def fit(self, views: Mapping[int, View], fixed: Fixed, timeout_s: float) -> list[Fitted]:
        """How racks fit their own jobs to what was fixed; one that says nothing leaves its jobs as they are."""
        said = self._ask({rack: Fit(view, fixed) for rack, view in views.items()}, timeout_s)
        self.silent |= views.keys() - said.keys()
        return [answer.fitted for answer in said.values() if isinstance(answer, Fits)]

    def close(self) -> None:
        for rack in list(self._connections):
            self._drop(rack)

    def _remember(self, rack: int, jobs: Sequence[str]) -> EpochReport | None:
        """A rack's last report in the numbers of now, None if there is none that is recent."""
        last = self._remembered.get(rack)
        if last is None or last.age == EPOCHS_REMEMBERED:
            self._remembered.pop(rack, None)
            return None
        self._remembered[rack] = replace(last, age=last.age + 1)
        return renumbered(last.report, last.jobs, jobs)

    def _ask(self, requests: Mapping[int, Request], timeout_s: float) -> dict[int, Answer]:
        """What racks answer in time, asked side by side; those that could not be reached are left out."""
        patience_s = max(timeout_s, LEAST_S)
        deadline = time.monotonic() + patience_s + MORE_S
        self._request += 1
        waiting = {}
        for rack, request in requests.items():
            with self._dropped_if_broken(rack):
                frame = wire.Frame(wire.VERSION, self._request, patience_s, msgspec.Raw(encode(request)))
                wire.send_frame(self._connection(rack), frame, deadline)
                waiting[self._connections[rack]] = rack
        said: dict[int, Answer] = {}
        while waiting and (left_s := deadline - time.monotonic()) > 0:
            for connection in select.select(list(waiting), [], [], left_s)[0]:
                rack = waiting[connection]
                if (answer := self._receive(rack, deadline)) is not None:
                    said[rack] = answer
                if answer is not None or rack not in self._connections:
                    del waiting[connection]
        for rack in waiting.values():
            log.warning("rack %d said nothing within %.3f s", rack, patience_s)
        return said

    def _receive(self, rack: int, deadline: float) -> Answer | None:
        """An answer to the request of now; None for a late one to an earlier request, or where the rack is gone."""
        with self._dropped_if_broken(rack):
            frame = wire.receive_frame(self._connections[rack], deadline)
            if frame is None:
                raise wire.WireError("it closed the connection")
            if frame.request == self._request:
                answer = answers.decode(frame.body)
                if isinstance(answer, Failed):
                    log.warning("rack %d failed: %s", rack, answer.cause)
                return answer
        return None

    def _connection(self, rack: int) -> socket.socket:
        if rack not in self._connections:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(socket_path(rack, self._directory)))
            except OSError as error:
                connection.close()
                raise wire.WireError(f"nothing answers: {error.strerror}") from None
            self._connections[rack] = connection
        return self._connections[rack]

    @contextlib.contextmanager
    def _dropped_if_broken(self, rack: int) -> Iterator[None]:
        try:
            yield
        except (wire.WireError, msgspec.MsgspecError) as error:
            log.warning("rack %d: %s", rack, error)
            self._drop(rack)

    def _drop(self, rack: int) -> None:
        if (connection := self._connections.pop(rack, None)) is not None:
            connection.close()


_shared: list[Racks] = []
_turn = threading.Lock()


@contextlib.contextmanager
def shared_racks() -> Iterator[Racks]:
    """The racks of this process's run, one epoch at a time, by a thread that from then on yields to all others."""
    with _turn:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        if not _shared:
            _shared.append(Racks())
        yield _shared[0]


def renumbered(report: EpochReport, then: Sequence[str], now: Sequence[str]) -> EpochReport:
    """An earlier report in the numbers that jobs have now; wishes of jobs that have gone are left out."""
    number = {name: place for place, name in enumerate(now)}
    wishes = [
        Wish(number[then[wish.number]], wish.place, wish.first_cost, wish.last_cost)
        for wish in report.wishes
        if then[wish.number] in number
    ]
    return msgspec.structs.replace(report, wishes=Wishes.of(wishes))
