"""What the Global Coordinator and a rack's Local Scheduler tell each other, and where they meet.

Bodies of `wire` frames over a Unix socket a rack. A request says how long it may take; an answer carries the request's
number and epoch, so that one that comes too late is known and dropped. A Local Scheduler keeps nothing from one request
to the next: it can die and come back at any time.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from harmonics_emu.emulate.sandbox import STATE
from harmonics_emu.schedulers.harmonics.messages import EpochReport, Fitted, Fixed, View


class Propose(msgspec.Struct, tag=True, frozen=True):
    """What does the rack wish? Answered by an EpochReport."""

    epoch: int
    view: View


class Fit(msgspec.Struct, tag=True, frozen=True):
    """Fit the rack's own jobs to what was fixed. Answered by a Fitted."""

    view: View
    fixed: Fixed


class Failed(msgspec.Struct, tag=True, frozen=True):
    """Answer to a request that broke the Local Scheduler's work: the cause in one line."""

    cause: str


class Reported(msgspec.Struct, tag=True, frozen=True):
    """Answer to Propose."""

    report: EpochReport


class Fits(msgspec.Struct, tag=True, frozen=True):
    """Answer to Fit."""

    fitted: Fitted


Request = Propose | Fit
Answer = Reported | Fits | Failed

encode = msgspec.msgpack.encode
requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def socket_path(rack: int, directory: Path = STATE) -> Path:
    """Where the Local Scheduler of a rack takes requests."""
    return directory / f"rack{rack}.sock"
