"""What a Coordinator keeps from one epoch to the next, so that an epoch in which little changed costs little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from harmonics_emu.schedulers.harmonics.views import Task
from harmonics_emu.schedulers.interface import Snapshot

DRIFT = 0.05
"""A job whose compute time has changed by more, in parts of its iteration alone, calls for a new search."""

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Known:
    """What a search depends on, but for where each job is in its iteration."""

    jobs: tuple[str, ...]
    links_down: frozenset[str]
    compute_s: tuple[float, ...]
    iteration_s: tuple[float, ...]

    def like(self, other: Known) -> bool:
        """Whether what was found for the one is still to be used for the other."""
        return (
            self.jobs == other.jobs
            and self.links_down == other.links_down
            and all(
                abs(now - then) <= DRIFT * iteration_s
                for now, then, iteration_s in zip(self.compute_s, other.compute_s, self.iteration_s, strict=True)
            )
        )


def known_of(snapshot: Snapshot, tasks: Sequence[Task]) -> Known:
    return Known(
        jobs=tuple(task.name for task in tasks),
        links_down=snapshot.links_down,
        compute_s=tuple(task.compute_s for task in tasks),
        iteration_s=tuple(task.alone_iteration_s for task in tasks),
    )


class Memory(Generic[Kept]):
    """The last search's outcome. One for a run; without it, every epoch searches anew."""

    def __init__(self) -> None:
        self._known: Known | None = None
        self._kept: Kept | None = None

    def recall(self, known: Known) -> Kept | None:
        """What was kept, if it was found for the same; else nothing."""
        return self._kept if self._known is not None and self._known.like(known) else None

    def keep(self, known: Known, kept: Kept) -> None:
        self._known, self._kept = known, kept
