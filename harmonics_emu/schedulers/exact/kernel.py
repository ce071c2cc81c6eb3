"""The compiled step of the search over schedules of chains on one link: all states after one more iteration.

A chain is a job as its link sees it: iterations that compute, then need the link for some seconds, and so on. A state
lists the finished iterations of each chain, the least time until its present iteration can be over (`wait`), and the
link seconds that this iteration still needs (`work`). States are kept in layers by the number of finished iterations
of all chains together; `expand` makes a layer from the one before.

One chain at a time uses the link, it is never idle while a chain has work for it, and it passes from one chain to
another only when work is done or becomes ready: schedulers.exact.serial says why nothing is lost by that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.simulate.kernel.jit import compiled
from harmonics_emu.simulate.kernel.sharing import Floats, Ints

ROUNDING_S = 1e-12
"""Seconds below which two times are one: computed in doubles, from times of at most some seconds."""
DEPTH = 256
"""Open branches while one state is expanded; each chain opens one at most each time that work becomes ready."""

Matrix = NDArray[np.float64]


class Chains(NamedTuple):
    """k chains. Iterations of chain j are first[j]:first[j+1], its buckets bucket[j]:bucket[j+1].

    compute, length: of each iteration, seconds of compute, and the least that it can last.
    later: of each iteration, the least that all after it last together.
    ready: of each bucket, the fraction of compute after which it is ready. until: link seconds up to its end.
    work: link seconds of an iteration. weight: of the chain's end in the objective.
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


class Layer(NamedTuple):
    """States, the first held[0] rows. done int64[S, k], wait, work float64[S, k].

    cost: what the time so far has cost, float64[S]. table: hash table of rows, -1 where free; its size is a power of 2.
    """

    held: Ints
    done: NDArray[np.int64]
    wait: Matrix
    work: Matrix
    cost: Floats
    table: Ints


def empty_layer(chains: int, states: int) -> Layer:
    """Room for so many states."""
    return Layer(
        held=np.zeros(1, np.int64),
        done=np.zeros((states, chains), np.int64),
        wait=np.zeros((states, chains)),
        work=np.zeros((states, chains)),
        cost=np.zeros(states),
        table=np.full(1 << (2 * states).bit_length(), -1, np.int64),
    )


@compiled
def least_rest(c: Chains, done: Ints, wait: Floats, work: Floats) -> float:
    """The least that a state can still cost: each chain as if it were alone."""
    rest = 0.0
    for j in range(done.shape[0]):
        at = c.first[j] + done[j]
        if at < c.first[j + 1]:
            rest += c.weight[j] * (max(wait[j], work[j]) + c.later[at])
    return rest


@compiled
def least_rests(c: Chains, layer: Layer) -> Floats:
    """`least_rest` of each state, float64[held]."""
    rests = np.empty(layer.held[0])
    for row in range(len(rests)):
        rests[row] = least_rest(c, layer.done[row], layer.wait[row], layer.work[row])
    return rests


@compiled
def expand(c: Chains, layer: Layer, after: Layer, box_s: float, merge: bool, limit: float) -> float:
    """Fill `after` with the states that follow those of `layer`; returns the least cost of a finished schedule.

    box_s: states whose times lie in the same box of this size become one. merge: that one is as good as either, so that
    costs are lower bounds; else it is the better of the two. States that can't end below `limit` are left out.
    -1 if `after` is too small.
    """
    k = layer.done.shape[1]
    finished = np.inf
    after.held[0] = 0
    after.table[:] = -1
    waits, works, costs = np.empty((DEPTH, k)), np.empty((DEPTH, k)), np.empty(DEPTH)
    available = np.empty(k)
    done = np.empty(k, np.int64)
    for row in range(layer.held[0]):
        waits[0], works[0], costs[0] = layer.wait[row], layer.work[row], layer.cost[row]
        done[:] = layer.done[row]
        rate = 0.0
        for j in range(k):
            if c.first[j] + done[j] < c.first[j + 1]:
                rate += c.weight[j]
        depth = 1
        while depth > 0:
            depth -= 1
            wait, work = waits[depth], works[depth]
            over, until, contenders = _look(c, done, wait, work, available)
            if over >= 0:
                end = _finish(c, after, done, wait, work, costs[depth], over, rate, box_s, merge, limit)
                if end < 0.0:
                    return -1.0
                finished = min(finished, end)
                continue
            if contenders == 0:
                _pass(wait, work, until, -1)
                costs[depth] += rate * until
                depth += 1
                continue
            here = depth
            cost = costs[here]
            left = contenders
            # The state's own place on the stack is the last to be written.
            top = here + contenders
            for j in range(k):
                if available[j] > 0.0:
                    left -= 1
                    place = here + left
                    if left > 0:
                        waits[place], works[place] = wait, work
                    else:
                        place = here
                    step = min(until, available[j])
                    _pass(waits[place], works[place], step, j)
                    costs[place] = cost + rate * step
            depth = top
    return finished


@compiled
def _look(c: Chains, done: Ints, wait: Floats, work: Floats, available: Floats) -> tuple[int, float, int]:
    """A chain whose iteration is over (-1 if none is), the time until something happens by itself, and how many chains
    have work for the link now; `available` gets the seconds of it.
    """
    over, until, contenders = -1, np.inf, 0
    for j in range(done.shape[0]):
        available[j] = 0.0
        at = c.first[j] + done[j]
        if at == c.first[j + 1]:
            continue
        if work[j] == 0.0:
            if wait[j] == 0.0:
                over = j
            until = min(until, wait[j])
            continue
        elapsed = c.length[at] - wait[j]
        sent = c.work[j] - work[j]
        coming = np.inf
        for b in range(c.bucket[j], c.bucket[j + 1]):
            ready_in = c.ready[b] * c.compute[at] - elapsed
            if ready_in <= ROUNDING_S:
                available[j] = max(0.0, c.until[b] - sent)
            elif c.until[b] > sent + ROUNDING_S:
                coming = ready_in
                break
        if coming == np.inf:
            available[j] = work[j]
            if wait[j] <= work[j]:
                wait[j] = 0.0
        if available[j] > ROUNDING_S:
            contenders += 1
        else:
            available[j] = 0.0
            until = min(until, coming)
    return over, until, contenders


@compiled
def _pass(wait: Floats, work: Floats, seconds: float, served: int) -> None:
    """Let time pass, with the link given to one chain or (-1) to none."""
    for j in range(wait.shape[0]):
        wait[j] = wait[j] - seconds if wait[j] > seconds + ROUNDING_S else 0.0
    if served >= 0:
        work[served] = work[served] - seconds if work[served] > seconds + ROUNDING_S else 0.0


@compiled
def _finish(
    c: Chains,
    after: Layer,
    done: Ints,
    wait: Floats,
    work: Floats,
    cost: float,
    over: int,
    rate: float,
    box_s: float,
    merge: bool,
    limit: float,
) -> float:
    """An iteration is over. Notes the state, or, where only one chain is left, returns what its end costs; -1: no room.

    `done`, `wait` and `work` are as before when it returns, but for wait and work of `over`.
    """
    done[over] += 1
    at = c.first[over] + done[over]
    if at < c.first[over + 1]:
        wait[over], work[over] = c.length[at], c.work[over]
    else:
        rate -= c.weight[over]
    last, left = -1, 0
    for j in range(done.shape[0]):
        if c.first[j] + done[j] < c.first[j + 1]:
            last, left = j, left + 1
    result = np.inf
    if left == 0:
        result = cost
    elif left == 1:
        at = c.first[last] + done[last]
        result = cost + c.weight[last] * (_alone(c, last, at, wait[last], work[last]) + c.later[at])
    elif cost + least_rest(c, done, wait, work) < limit and not _note(
        c, after, done, wait, work, cost, rate, box_s, merge
    ):
        result = -1.0
    done[over] -= 1
    return result


@compiled
def _alone(c: Chains, j: int, at: int, wait: float, work: float) -> float:
    """How long a chain's present iteration still lasts with the link for itself."""
    elapsed = c.length[at] - wait
    sent = c.work[j] - work
    now = 0.0
    for b in range(c.bucket[j], c.bucket[j + 1]):
        if c.until[b] > sent:
            now = max(now, c.ready[b] * c.compute[at] - elapsed) + c.until[b] - sent
            sent = c.until[b]
    return max(now, wait)


@compiled
def _note(
    c: Chains,
    layer: Layer,
    done: Ints,
    wait: Floats,
    work: Floats,
    cost: float,
    rate: float,
    box_s: float,
    merge: bool,
) -> bool:
    """Add a state to a layer, or make it one with the state of its box. False if there is no room."""
    k = done.shape[0]
    mask = layer.table.shape[0] - 1
    key = np.uint64(1469598103934665603)
    for j in range(k):
        for part in (done[j], np.int64(wait[j] / box_s), np.int64(work[j] / box_s)):
            key = (key ^ np.uint64(part)) * np.uint64(1099511628211)
            key ^= key >> np.uint64(29)
    slot = np.int64(key & np.uint64(mask))
    while True:
        row = layer.table[slot]
        if row < 0:
            break
        same = True
        for j in range(k):
            if (
                layer.done[row, j] != done[j]
                or np.int64(layer.wait[row, j] / box_s) != np.int64(wait[j] / box_s)
                or np.int64(layer.work[row, j] / box_s) != np.int64(work[j] / box_s)
            ):
                same = False
                break
        if same:
            _unite(layer, row, wait, work, cost, rate, merge)
            return True
        slot = (slot + 1) & mask
    row = layer.held[0]
    if row == layer.done.shape[0]:
        return False
    layer.held[0] = row + 1
    layer.table[slot] = row
    layer.done[row], layer.wait[row], layer.work[row], layer.cost[row] = done, wait, work, cost
    return True


@compiled
def _unite(layer: Layer, row: int, wait: Floats, work: Floats, cost: float, rate: float, merge: bool) -> None:
    """One state for two of a box.

    A state that is ahead by some seconds is worth at most what all chains pay for waiting as long; where it costs
    more than that, the other one is better and stays as it is.
    """
    ahead, behind = 0.0, 0.0
    wait_ahead, wait_behind = 0.0, 0.0
    for j in range(wait.shape[0]):
        wait_ahead = max(wait_ahead, layer.wait[row, j] - wait[j])
        wait_behind = max(wait_behind, wait[j] - layer.wait[row, j])
        ahead += max(0.0, layer.work[row, j] - work[j])
        behind += max(0.0, work[j] - layer.work[row, j])
    ahead += wait_ahead
    behind += wait_behind
    if cost >= layer.cost[row] + rate * ahead:
        return
    if layer.cost[row] >= cost + rate * behind or not merge:
        if merge or cost < layer.cost[row]:
            layer.wait[row], layer.work[row], layer.cost[row] = wait, work, cost
        return
    for j in range(wait.shape[0]):
        layer.wait[row, j] = min(layer.wait[row, j], wait[j])
        layer.work[row, j] = min(layer.work[row, j], work[j])
    layer.cost[row] = min(layer.cost[row], cost)
