"""Takes the supervisor's requests from a Unix socket. One thread a connection; the service puts them in order."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from dataclasses import replace

import msgspec

from controller.service import ControllerService
from harmonics_emu.emulate import wire
from harmonics_emu.emulate.control import (
    Answer,
    Connected,
    Coordinate,
    Coordinated,
    Counters,
    Counts,
    Datapaths,
    Done,
    Failure,
    Install,
    Ping,
    Report,
    Request,
    Shutdown,
)
from harmonics_emu.emulate.solving import Ask, Begin
from harmonics_emu.errors import HarmonicsError

ANSWER_S = 10.0
"""How long a client may take to read an answer."""
ANSWER_EARLIER = 0.9
"""Part of a request's time after which an answer is due, so that it arrives before the client gives up."""

log = logging.getLogger(__name__)
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)


def serve(listener: socket.socket, service: ControllerService) -> None:
    """Serve connections until a Shutdown has been answered."""
    ended = threading.Event()

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_converse, args=(connection, service, ended), daemon=True).start()

    threading.Thread(target=accept, name="accept", daemon=True).start()
    ended.wait()


def _converse(connection: socket.socket, service: ControllerService, ended: threading.Event) -> None:
    with contextlib.closing(connection):
        try:
            while (frame := wire.receive_frame(connection, None)) is not None:
                answer, last = _answer(frame, service)
                body = msgspec.Raw(msgspec.msgpack.encode(answer))
                reply = wire.Frame(wire.VERSION, frame.request, 0.0, body)
                wire.send_frame(connection, reply, time.monotonic() + ANSWER_S)
                if last:
                    ended.set()
        except HarmonicsError as error:
            log.warning("a client's connection ends: %s", error)
        except Exception:
            log.exception("a client's connection ends")


def _answer(frame: wire.Frame, service: ControllerService) -> tuple[Answer, bool]:
    """The answer to one request, and whether it is the last one. An error becomes a Failure with its cause."""
    began = time.monotonic()
    deadline = began + ANSWER_EARLIER * frame.timeout_s
    try:
        request = _requests.decode(frame.body)
        answer = _carry_out(request, service, deadline)
    except (HarmonicsError, msgspec.MsgspecError) as error:
        log.warning("a request failed: %s", error)
        return Failure(str(error)), False
    except Exception as error:
        log.exception("a request failed")
        return Failure(f"{type(error).__name__}: {error} (see the controller's log)"), False
    log.info("%s took %.3f s", type(request).__name__, time.monotonic() - began)
    return answer, isinstance(request, Shutdown)


def _carry_out(request: Request, service: ControllerService, deadline: float) -> Answer:
    match request:
        case Ping() | Shutdown():
            return Done()
        case Connected(at_least):
            return Datapaths(service.wait_connected(at_least, deadline))
        case Install(state):
            return Report(service.install(state, deadline))
        case Counters():
            return Counts(service.counters(deadline))
        case Coordinate(begin, ask):
            return _coordinate(begin, ask)


def _coordinate(begin: Begin, ask: Ask) -> Coordinated:
    """Be the Global Coordinator for one epoch. Only runs of harmonics ask for that, and pay for what it imports."""
    from controller.coordinator import coordinate
    from controller.racks import shared_racks

    with shared_racks() as racks:
        answer = coordinate(begin, ask, racks, racks.memory)
        silent = sorted(racks.silent)
        plan = replace(answer.plan, facts={**answer.plan.facts, "silent_racks": silent})
        return Coordinated(msgspec.structs.replace(answer, plan=plan), tuple(silent))
