"""What the search over schedules of chains on one link works on, as arrays for the kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.simulate.kernel.sharing import Floats, Ints

HELD = -1.0
"""In place of a release time: not released yet."""
Matrix = NDArray[np.float64]


class Chains(NamedTuple):
    """k chains. Iterations of chain j are first[j]:first[j+1], its buckets bucket[j]:bucket[j+1].

    compute, length: of each iteration, seconds of compute, and the least that it can last.
    later: of each iteration, the least that all after it last together.
    ready: of each bucket, the fraction of compute after which it is ready. until: link seconds up to its end.
    work: link seconds of an iteration. weight: of the chain's end in the objective.
    endless: each chain has one iteration, over and over. The cost is then the weighted delays, without what the present
    iterations have behind them, minus `price` for each second.
    """

    first: Ints
    compute: Floats
    length: Floats
    later: Floats
    bucket: Ints
    ready: Floats
    until: Floats
    work: Floats
    weight: Floats
    endless: bool
    price: float


class Layer(NamedTuple):
    """States, the first held[0] rows. done int64[S, k], wait, work float64[S, k].

    cost: what the time so far has cost, float64[S]. now: the time, float64[S]. release, float64[S, k]: when the present
    iteration of a chain was let at the link; 0 if it was never kept from it, HELD while it is.
    parent, over int64[S], opened float64[S]: the state of the layer before, the chain whose iteration is over, and the
    `release` of that iteration. table: hash table of rows, -1 where free; its size is a power of 2.
    """

    held: Ints
    done: NDArray[np.int64]
    wait: Matrix
    work: Matrix
    cost: Floats
    now: Floats
    release: Matrix
    parent: Ints
    over: Ints
    opened: Floats
    table: Ints


class Finished(NamedTuple):
    """The cheapest end that was found from a layer: its cost [1], and as in Layer `parent`, `over` and `opened` [1].

    last: the chain that then goes on alone [1], -1 for none. rest: the `release` of its present iteration [1].
    """

    cost: Floats
    parent: Ints
    over: Ints
    opened: Floats
    last: Ints
    rest: Floats


def empty_layer(chains: int, states: int) -> Layer:
    """Room for so many states."""
    return Layer(
        held=np.zeros(1, np.int64),
        done=np.zeros((states, chains), np.int64),
        wait=np.zeros((states, chains)),
        work=np.zeros((states, chains)),
        cost=np.zeros(states),
        now=np.zeros(states),
        release=np.zeros((states, chains)),
        parent=np.zeros(states, np.int64),
        over=np.zeros(states, np.int64),
        opened=np.zeros(states),
        table=np.full(1 << (2 * states).bit_length(), -1, np.int64),
    )


def no_end() -> Finished:
    return Finished(
        cost=np.full(1, np.inf),
        parent=np.zeros(1, np.int64),
        over=np.zeros(1, np.int64),
        opened=np.zeros(1),
        last=np.full(1, -1, np.int64),
        rest=np.zeros(1),
    )
