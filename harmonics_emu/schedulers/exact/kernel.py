"""The compiled step of the search over schedules of chains on one link: all states after one more iteration.

A chain is a job as its link sees it: iterations that compute, then need the link for some seconds, and so on. A state
lists the finished iterations of each chain, the least time until its present iteration can be over (`wait`), and the
link seconds that this iteration still needs (`work`). States are kept in layers by the number of finished iterations
of all chains together; `expand` makes a layer from the one before.

One chain at a time uses the link, it is never idle while a chain has work for it, and it passes from one chain to
another only when work is done or becomes ready: schedulers.exact.serial says why nothing is lost by that.
"""

from __future__ import annotations

import numpy as np

from harmonics_emu.schedulers.exact.states import HELD, Chains, Finished, Layer
from harmonics_emu.simulate.kernel.jit import compiled
from harmonics_emu.simulate.kernel.sharing import Floats, Ints

ROUNDING_S = 1e-12
"""Seconds below which two times are one: computed in doubles, from times of at most some seconds."""


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
def expand(
    c: Chains, level: Ints, layer: Layer, after: Layer, finished: Finished, box_s: float, merge: bool, limit: float
) -> bool:
    """Fill `after` with the states that follow those of `layer`, and `finished`; False if `after` is too small.

    level: of each chain, 0 first, to look only at schedules that fixed levels and held starts lead to: an iteration
    that has begun to send gives way only to earlier levels. Empty for all schedules.
    box_s: states whose times lie in the same box of this size become one. merge: that one is as good as either, so that
    costs are lower bounds; else it is the better of the two. States that can't end below `limit` are left out.
    """
    k = layer.done.shape[1]
    after.held[0] = 0
    after.table[:] = -1
    finished.cost[0] = np.inf
    # Until an iteration ends each bucket becomes ready once and is sent once; all choices but one are put off then.
    room = (2 * c.ready.shape[0] + 2 * k) * k
    waits, works, releases = np.empty((room, k)), np.empty((room, k)), np.empty((room, k))
    costs, nows = np.empty(room), np.empty(room)
    available = np.empty(k)
    done = np.empty(k, np.int64)
    for row in range(layer.held[0]):
        waits[0], works[0], releases[0] = layer.wait[row], layer.work[row], layer.release[row]
        costs[0], nows[0] = layer.cost[row], layer.now[row]
        done[:] = layer.done[row]
        rate = -c.price
        for j in range(k):
            if c.first[j] + done[j] < c.first[j + 1]:
                rate += c.weight[j]
        depth = 1
        while depth > 0:
            depth -= 1
            here, cost, now = depth, costs[depth], nows[depth]
            wait, work, release = waits[here], works[here], releases[here]
            over, until = _look(c, done, wait, work, available)
            if over >= 0:
                if not _finish(
                    c, after, finished, done, wait, work, release, cost, now, row, over, rate, box_s, merge, limit
                ):
                    return False
                continue
            choices = _bar(c, level, work, available)
            if choices == 0:
                _pass(wait, work, until, -1)
                costs[here], nows[here] = cost + rate * until, now + until
                depth += 1
                continue
            depth += choices
            # The state's own place on the stack is the last to be written.
            for j in range(k):
                if available[j] > 0.0:
                    choices -= 1
                    place = here + choices
                    if choices > 0:
                        waits[place], works[place], releases[place] = wait, work, release
                    step = min(until, available[j])
                    _let(c, level, works[place], releases[place], available, j, now)
                    _pass(waits[place], works[place], step, j)
                    costs[place], nows[place] = cost + rate * step, now + step
    return True


@compiled
def _bar(c: Chains, level: Ints, work: Floats, available: Floats) -> int:
    """How many chains may be served. Those that would have to push aside a begun one of an earlier level may not: their
    `available` becomes negative.
    """
    first = np.int64(2**62)
    if level.shape[0] > 0:
        for j in range(work.shape[0]):
            if available[j] > 0.0 and work[j] < c.work[j]:
                first = min(first, level[j])
    choices = 0
    for j in range(work.shape[0]):
        if available[j] > 0.0:
            if level.shape[0] > 0 and level[j] > first:
                available[j] = -1.0
            else:
                choices += 1
    return choices


@compiled
def _let(c: Chains, level: Ints, work: Floats, release: Floats, available: Floats, served: int, now: float) -> None:
    """Note who begins now after it was held, and who is held while a chain of a later level is served."""
    if level.shape[0] == 0:
        return
    for j in range(work.shape[0]):
        if available[j] > 0.0 and work[j] == c.work[j] and level[j] < level[served]:
            release[j] = HELD
    if release[served] == HELD:
        release[served] = now


@compiled
def _look(c: Chains, done: Ints, wait: Floats, work: Floats, available: Floats) -> tuple[int, float]:
    """A chain whose iteration is over (-1 if none is), and the time until something happens by itself.

    `available` gets the seconds of link time that each chain can use now.
    """
    over, until = -1, np.inf
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
        if available[j] <= ROUNDING_S:
            available[j] = 0.0
            until = min(until, coming)
    return over, until


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
    finished: Finished,
    done: Ints,
    wait: Floats,
    work: Floats,
    release: Floats,
    cost: float,
    now: float,
    row: int,
    over: int,
    rate: float,
    box_s: float,
    merge: bool,
    limit: float,
) -> bool:
    """An iteration of `over` is over. Notes the state or, where one chain is left, the end; False if there is no room.

    `done` is as before when it returns.
    """
    opened = release[over]
    release[over] = 0.0
    if c.endless:
        cost -= c.weight[over] * c.length[c.first[over]]
    else:
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
    room = True
    if left <= 1:
        if left == 1:
            at = c.first[last] + done[last]
            cost += c.weight[last] * (_alone(c, last, at, wait[last], work[last]) + c.later[at])
        if cost < finished.cost[0]:
            finished.cost[0], finished.parent[0], finished.over[0], finished.opened[0] = cost, row, over, opened
            finished.last[0] = last
            finished.rest[0] = release[last] if left == 1 else 0.0
    elif cost + least_rest(c, done, wait, work) < limit:
        place = _place(after, done, wait, work, box_s)
        room = place >= 0
        if room:
            if place == after.held[0]:
                after.held[0] += 1
                better = True
                after.wait[place], after.work[place], after.cost[place] = wait, work, cost
            else:
                better = _unite(after, place, wait, work, cost, rate, merge)
            if better:
                after.done[place], after.now[place], after.release[place] = done, now, release
                after.parent[place], after.over[place], after.opened[place] = row, over, opened
    if not c.endless:
        done[over] -= 1
    return room


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
def _place(layer: Layer, done: Ints, wait: Floats, work: Floats, box_s: float) -> int:
    """The row of the state in the same box, or else the next free row, which it then is; -1 if there is none."""
    k = done.shape[0]
    mask = layer.table.shape[0] - 1
    key = np.uint64(1469598103934665603)
    for j in range(k):
        for part in (done[j], np.int64(wait[j] / box_s), np.int64(work[j] / box_s)):
            key = (key ^ np.uint64(part)) * np.uint64(1099511628211)
            key ^= key >> np.uint64(29)
    slot = np.int64(key & np.uint64(mask))
    while layer.table[slot] >= 0:
        row = int(layer.table[slot])
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
            return row
        slot = (slot + 1) & mask
    row = int(layer.held[0])
    if row == layer.done.shape[0]:
        return -1
    layer.table[slot] = row
    layer.done[row] = done
    return row


@compiled
def _unite(layer: Layer, row: int, wait: Floats, work: Floats, cost: float, rate: float, merge: bool) -> bool:
    """One state for two of a box; True if it is the new one.

    A state that is ahead by some seconds is worth at most what all chains pay for waiting as long; where it costs
    more than that, the other one is better and stays as it is.
    """
    if not merge:
        better = bool(cost < layer.cost[row])
        if better:
            layer.wait[row], layer.work[row], layer.cost[row] = wait, work, cost
        return better
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
        return False
    if layer.cost[row] >= cost + rate * behind:
        layer.wait[row], layer.work[row], layer.cost[row] = wait, work, cost
        return True
    for j in range(wait.shape[0]):
        layer.wait[row, j] = min(layer.wait[row, j], wait[j])
        layer.work[row, j] = min(layer.work[row, j], work[j])
    layer.cost[row] = min(layer.cost[row], cost)
    return False
