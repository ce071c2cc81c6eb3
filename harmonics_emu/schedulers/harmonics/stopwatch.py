"""How long an epoch takes, here and where each rack has a processor of its own."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Value = TypeVar("Value")


class Stopwatch:
    """Seconds by step, in the order in which steps follow one another; of what runs side by side, the slowest."""

    def __init__(self) -> None:
        self.steps_s: dict[str, float] = {}

    @property
    def critical_path_s(self) -> float:
        return sum(self.steps_s.values())

    def one(self, step: str, work: Callable[[], Value]) -> Value:
        """What the Coordinator does."""
        with _garbage_left():
            began = time.perf_counter()
            value = work()
            self._add(step, time.perf_counter() - began)
        return value

    def side_by_side(self, step: str, works: Iterable[Callable[[], Value]]) -> list[Value]:
        """What all racks do, each for itself: here one after the other.

        In processor time, as the slowest of thousands in a row is otherwise the one that something else interrupted.
        """
        values, slowest_s = [], 0.0
        with _garbage_left():
            for work in works:
                began = time.thread_time()
                values.append(work())
                slowest_s = max(slowest_s, time.thread_time() - began)
        self._add(step, slowest_s)
        return values

    def _add(self, step: str, seconds: float) -> None:
        self.steps_s[step] = self.steps_s.get(step, 0.0) + seconds


@contextmanager
def _garbage_left() -> Iterator[None]:
    """The collector would look through the objects of the whole cluster on one rack's time, or on the Coordinator's."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
