"""What the service asks of a connected switch, whichever framework (or test) provides it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from controller.difference import Change
from controller.flows import Flow, Tables
from harmonics_emu.errors import HarmonicsError


class SwitchError(HarmonicsError):
    """A switch that is not there, went away, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Count:
    """What an entry has counted."""

    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Contents:
    """What a switch says that it holds, and what its entries have counted."""

    tables: Tables
    counts: dict[Flow, Count]


class Ticket:
    """A batch under way to one switch: done when its last answer has come, or the switch has gone.

    errors: what the switch answered to changes that it refused. flows, groups: its answers, still undecoded.
    """

    def __init__(self, datapath_id: int) -> None:
        self._datapath_id = datapath_id
        self._done = threading.Event()
        self._lost = False
        self.errors: dict[Change, str] = {}
        self.flows: list[Any] = []
        self.groups: list[Any] = []

    def finish(self, *, lost: bool = False) -> None:
        self._lost = self._lost or lost
        self._done.set()

    def wait(self, deadline: float) -> None:
        """Wait for the end of the batch. SwitchError if that does not come before `deadline` (monotonic seconds)."""
        if not self._done.wait(max(0.0, deadline - time.monotonic())):
            raise SwitchError(f"switch with datapath id {self._datapath_id} did not answer in time")
        if self._lost:
            raise SwitchError(f"switch with datapath id {self._datapath_id} disconnected before it answered")


class Switch(Protocol):
    """A connected switch. What is sent to it is carried out in order; sending returns at once."""

    datapath_id: int

    def submit(self, changes: Sequence[Change]) -> Ticket:
        """Send changes and a barrier. Once the ticket is done, `ticket.errors` says which ones the switch refused."""

    def request_contents(self, table: int | None = None) -> Ticket:
        """Ask for all entries (or those of one table) and groups; give the ticket to `contents` once it is done."""

    def contents(self, ticket: Ticket) -> Contents:
        """The answer to `request_contents`."""


class Listener(Protocol):
    """Who wants to know which switches there are. Called from the framework's loop: must not wait for a switch."""

    def connected(self, switch: Switch) -> None: ...

    def disconnected(self, switch: Switch) -> None: ...
