"""The event loop from the first arrival to the last end, with one plan and no decision in between."""

from __future__ import annotations

from harmonics_emu.simulate.kernel.jit import compiled
from harmonics_emu.simulate.kernel.loop import Clock, Jobs, Progress, admit, advance
from harmonics_emu.simulate.kernel.queue import EventQueue, move
from harmonics_emu.simulate.kernel.sharing import Floats, Ints, Sharing, enter


@compiled
def run_to_the_end(
    s: Sharing, queue: EventQueue, p: Progress, jobs: Jobs, clock: Clock, order: Ints, start: Floats
) -> None:
    """Run jobs that have all their compute times drawn; entities without a job send all the time.

    order [J]: jobs in the order of their arrival, start [J]: when each job, by its number, arrives. A job that stalls
    is not done when this ends.
    """
    for entity in range(p.job.shape[0]):
        if p.job[entity] < 0:
            move(queue, entity, float("inf"))
            enter(s, entity)
    for place in range(order.shape[0]):
        at = start[order[place]]
        advance(s, queue, p, jobs, clock, at, False)
        admit(s, queue, jobs, order[place : place + 1], at)
    advance(s, queue, p, jobs, clock, float("inf"), False)
