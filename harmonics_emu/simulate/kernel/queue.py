"""An event queue over a fixed set of items, each with one time: infinity where nothing is due.

A binary heap that knows where each item stands, so that a time can be moved when a rate changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.simulate.kernel.jit import compiled


class EventQueue(NamedTuple):
    """time: float64[items], when each is due. heap: int64[items], items in heap order. place: its inverse."""

    time: NDArray[np.float64]
    heap: NDArray[np.int64]
    place: NDArray[np.int64]


def empty_queue(items: int) -> EventQueue:
    return EventQueue(np.full(items, np.inf), np.arange(items), np.arange(items))


@compiled
def first(queue: EventQueue) -> int:
    """The item that is due first."""
    return queue.heap[0]  # type: ignore[no-any-return]


@compiled
def move(queue: EventQueue, item: int, at: float) -> None:
    """Make `item` due at `at`."""
    time, heap, place = queue
    earlier = at < time[item]
    time[item] = at
    hole = place[item]
    if earlier:
        while hole > 0:
            parent = (hole - 1) >> 1
            above = heap[parent]
            if time[above] <= at:
                break
            heap[hole] = above
            place[above] = hole
            hole = parent
    else:
        size = heap.shape[0]
        while True:
            child = 2 * hole + 1
            if child >= size:
                break
            if child + 1 < size and time[heap[child + 1]] < time[heap[child]]:
                child += 1
            below = heap[child]
            if time[below] >= at:
                break
            heap[hole] = below
            place[below] = hole
            hole = child
    heap[hole] = item
    place[item] = hole
