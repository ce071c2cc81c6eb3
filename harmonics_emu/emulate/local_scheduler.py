"""`python -m harmonics_emu.emulate.local_scheduler`: the Local Schedulers of a run, a process for each rack.

This process imports and compiles once, forks one process a rack, and forks again whichever dies, as fast as a fork is.
It is a worker of the supervisor's, whom it tells of deaths. The Local Schedulers are asked by the Global Coordinator,
each over its own socket; between requests they sleep.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from harmonics_emu.emulate import wire
from harmonics_emu.emulate.racks import Answer, Failed, Fit, Fits, Reported, encode, requests, socket_path
from harmonics_emu.emulate.worker import Speaker
from harmonics_emu.schedulers.harmonics.local_scheduler import LocalScheduler
from harmonics_emu.schedulers.harmonics.rollout import compile_rollouts
from workloads.namespaces import die_with_parent

LOOK_S = 0.1
"""How often the parent looks for children that have died."""
ANSWER_S = 1.0


class Standing(msgspec.Struct, tag=True, frozen=True):
    """What the supervisor is told once: all Local Schedulers take requests."""


class Replaced(msgspec.Struct, tag=True, frozen=True):
    """What the supervisor is told: the process of a rack has ended, and another one stands in its place."""

    rack: int
    how: str


News = Standing | Replaced
news: msgspec.msgpack.Decoder[News] = msgspec.msgpack.Decoder(News)


def serve_rack(scheduler: LocalScheduler, listener: socket.socket) -> None:
    """Answer whoever connects, one connection at a time: there is one Coordinator."""
    while True:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(wire.WireError):
            while (frame := wire.receive_frame(connection, None)) is not None:
                body = msgspec.Raw(encode(answer(scheduler, bytes(frame.body), frame.timeout_s)))
                wire.send_frame(connection, wire.Frame(wire.VERSION, frame.request, 0.0, body), _soon())


def answer(scheduler: LocalScheduler, body: bytes, timeout_s: float) -> Answer:
    """What the Local Scheduler says to one request, within the time that it may take."""
    deadline = time.monotonic() + timeout_s
    try:
        request = requests.decode(body)
        if isinstance(request, Fit):
            return Fits(scheduler.fit(request.view, request.fixed, deadline))
        return Reported(scheduler.propose(request.epoch, request.view, deadline))
    except Exception as error:
        traceback.print_exc()
        return Failed(f"{type(error).__name__}: {error}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m harmonics_emu.emulate.local_scheduler")
    parser.add_argument("--racks", type=int, nargs="+", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--directory", type=Path, required=True, help="where the sockets of the racks lie")
    given = parser.parse_args(arguments)
    supervisor = Speaker()
    compile_rollouts()
    # Sockets are made before the processes are: whoever asks while a process is replaced finds the next one there.
    listeners = {rack: _listen(socket_path(rack, given.directory)) for rack in given.racks}
    racks = {_fork(rack, given.seed, listeners): rack for rack in given.racks}
    supervisor.say(encode(Standing()))
    while supervisor.is_there(LOOK_S):
        for pid in list(racks):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                rack = racks.pop(pid)
                racks[_fork(rack, given.seed, listeners)] = rack
                supervisor.say(encode(Replaced(rack, _how(status))))


def _listen(path: Path) -> socket.socket:
    """Where an earlier process of this kind may have listened."""
    path.unlink(missing_ok=True)
    return wire.listen(path)


def _fork(rack: int, seed: int, listeners: dict[int, socket.socket]) -> int:
    parent, child = os.getpid(), os.fork()
    if child == 0:
        _be(rack, seed, listeners, parent)
    return child


def _be(rack: int, seed: int, listeners: dict[int, socket.socket], parent: int) -> NoReturn:
    status = 1
    try:
        die_with_parent(parent)
        for other, listener in listeners.items():
            if other != rack:
                listener.close()
        serve_rack(LocalScheduler(rack, seed), listeners[rack])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def _soon() -> float:
    return time.monotonic() + ANSWER_S


if __name__ == "__main__":
    main()
