"""Jobs that wait for GPUs: who begins next, and on which hosts. Time is the caller's business.

Jobs keep their GPUs until they end. So what a waiting job has left to do is all of it: `srpt` is shortest job first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from harmonics_emu.scenario.placement import NoRoom, Placer
from topologies.fabric import Fabric


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for. placement: one of placement.RULES, or the host of each rank.

    length_s: how long it would run alone. seed: of its own random placement.
    """

    workers: int
    placement: str | tuple[str, ...]
    length_s: float
    seed: str


class WaitingRoom:
    """Hands out the GPUs of a fabric to requests, which are known by their position in `requests`.

    order: 'fifo', in which a job that does not fit holds up those after it, or 'srpt', in which it does not.
    """

    def __init__(self, fabric: Fabric, order: str, requests: Sequence[Request]) -> None:
        self._order = order
        self._requests = requests
        self._placer = Placer(fabric)
        self._waiting: list[int] = []
        self._held: dict[int, tuple[str, ...]] = {}

    @property
    def waiting(self) -> tuple[int, ...]:
        """Who waits, in the order in which they came."""
        return tuple(self._waiting)

    @property
    def running(self) -> tuple[int, ...]:
        """Who holds GPUs."""
        return tuple(self._held)

    def arrive(self, index: int) -> None:
        self._waiting.append(index)

    def leave(self, index: int) -> None:
        """The job has ended."""
        self._placer.release(self._held.pop(index))

    def admit(self) -> list[tuple[int, tuple[str, ...]]]:
        """The jobs that begin now, with the hosts of their ranks."""
        admitted: list[tuple[int, tuple[str, ...]]] = []
        for index in self._in_order():
            hosts = self._place(self._requests[index])
            if hosts is not None:
                self._waiting.remove(index)
                self._held[index] = hosts
                admitted.append((index, hosts))
            elif self._order == "fifo":
                break
        return admitted

    def _in_order(self) -> list[int]:
        if self._order == "fifo":
            return list(self._waiting)
        return sorted(self._waiting, key=lambda index: self._requests[index].length_s)

    def _place(self, request: Request) -> tuple[str, ...] | None:
        return place_request(self._placer, request.placement, request.workers, request.seed)


def place_request(placer: Placer, placement: str | tuple[str, ...], workers: int, seed: str) -> tuple[str, ...] | None:
    """Hosts by a rule, or the listed ones, and their GPUs taken; None if they are not free."""
    if isinstance(placement, tuple):
        if not placer.has_room(placement):
            return None
        placer.reserve(placement)
        return placement
    try:
        return placer.place(placement, workers, Random(seed))
    except NoRoom:
        return None
