"""The fluid engine: jobs on a fabric under a policy, as rates that change at events.

The compiled loop runs from one decision to the next. Here is what happens between: jobs arrive, links change, the
policy is asked and its plan laid out, counters are sampled, and a stall that nothing can end is named.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harmonics_emu.errors import RunFailed, UsageError
from harmonics_emu.records import Decision, JobOutcome, Records
from harmonics_emu.schedulers.fair import policy as fair
from harmonics_emu.schedulers.interface import Plan, Policy, Snapshot, WeightedPolicy
from harmonics_emu.simulate.counters import LinkCounters
from harmonics_emu.simulate.decisions import Observer, decide
from harmonics_emu.simulate.entities import Granularity, entities_of, job_flows, waiting_entities
from harmonics_emu.simulate.jitter import SlowestRank
from harmonics_emu.simulate.kernel.loop import (
    ABSENT,
    DONE,
    DRAW,
    ENDED,
    Progress,
    admit,
    advance,
    new_clock,
    pause,
    regate,
    resume,
)
from harmonics_emu.simulate.kernel.queue import empty_queue
from harmonics_emu.simulate.kernel.sharing import Flags, Floats, rates_are_due
from harmonics_emu.simulate.network import Network
from harmonics_emu.simulate.stalls import explain_stall
from harmonics_emu.simulate.state import check_inputs, new_jobs
from topologies.fabric import Fabric
from workloads.job import Background, Event, Job, LinkEvent, RankEvent

if TYPE_CHECKING:  # scenario reaches this module
    from harmonics_emu.scenario.waiting import WaitingRoom

MAX_DECISIONS = 100_000
FUTILE_EPOCHS = 3
"""Epochs in a row in which nothing at all moves before a stall counts as one that nothing ends."""


@dataclass(frozen=True)
class Options:
    """How to simulate.

    granularity: 'collective' gives each job's collective one pace, 'flow' shares links flow by flow.
    sample_s: interval of link counters, None for their last values only.
    epoch_s: the policy is asked again at this interval as well as at arrivals, departures and link events; None for
    these alone.
    policy: the scenario's `policy` section without its name.
    """

    granularity: Granularity = "collective"
    sample_s: float | None = 0.1
    epoch_s: float | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in (("sample_s", self.sample_s), ("epoch_s", self.epoch_s)):
            if value is not None and not 0 < value < np.inf:
                raise UsageError(f"{name} is {value} but must be above zero, and finite")


def simulate(
    fabric: Fabric,
    jobs: Sequence[Job],
    policy: Policy = fair,
    seed: int = 0,
    background: Sequence[Background] = (),
    events: Sequence[Event] = (),
    options: Options | None = None,
    room: WaitingRoom | None = None,
) -> Records:
    """Run jobs to their end. The same arguments give the same records, but for the solve times of decisions.

    room: where jobs wait for GPUs, an empty one, which is used up; jobs then run on the hosts that it gives them. None
    lets each begin on its own hosts when it comes.

    UsageError for jobs, traffic or events that can't be simulated; RunFailed for a plan that can't be carried out.
    A job that stalls for good ends as failed, with the cause in its outcome.
    """
    return Simulation(fabric, jobs, policy, seed, background, events, options or Options(), room).run()


class Simulation:
    """One run. `events_handled` counts the events of the compiled loop."""

    def __init__(
        self,
        fabric: Fabric,
        jobs: Sequence[Job],
        policy: Policy,
        seed: int,
        background: Sequence[Background],
        events: Sequence[Event],
        options: Options,
        room: WaitingRoom | None = None,
    ) -> None:
        check_inputs(fabric, jobs, background, events)
        _refuse_short_epochs(jobs, policy, options.epoch_s)
        self._fabric, self._specs, self._policy, self._seed = fabric, list(jobs), policy, seed
        self._submitted = [job.start_s for job in jobs]
        self._room = room
        self._background, self._options = tuple(background), options
        if room is not None and options.granularity != "collective":
            raise UsageError("jobs that queue are simulated with whole collectives only")
        entities = (
            entities_of(jobs, background, fabric, options.granularity)
            if room is None
            else waiting_entities(jobs, background)
        )
        self._network = Network(fabric, seed, entities)
        in_order = sorted(events, key=lambda event: event.at_s)
        self._changes = deque(event for event in in_order if isinstance(event, LinkEvent))
        self._slowings = deque(event for event in in_order if isinstance(event, RankEvent))
        self._slowed = {job.name: [1.0] * job.ranks for job in jobs}
        self._arrivals = deque(sorted(range(len(jobs)), key=lambda index: jobs[index].start_s))
        self._jitter = {i: SlowestRank(job, seed) for i, job in enumerate(jobs) if job.compute_cv > 0}
        weight = policy.weight if isinstance(policy, WeightedPolicy) else None
        if weight is not None and options.granularity != "collective":
            raise UsageError(f"policy {policy.name} changes weights as jobs send; simulate it with whole collectives")
        self._jobs = new_jobs(jobs, entities, weight)
        for index in self._jitter:
            self._draw(index)
        self._progress = Progress(
            left=np.array([np.inf if entity.job < 0 else 0.0 for entity in entities]),
            sent=np.zeros(len(entities)),
            since=np.zeros(len(entities)),
            scale=np.ones(len(entities)),
            weight=np.ones(len(entities)),
            job=np.array([entity.job for entity in entities], np.int64),
        )
        self._queue = empty_queue(len(entities) + len(jobs))
        self._clock = new_clock()
        self._counters = LinkCounters(options.sample_s)
        self._carried = np.empty(0)
        self._counted = np.zeros(len(entities))
        self._observer = Observer(jobs, fabric)
        self._plan = Plan(policy=policy.name)
        self._decisions: list[Decision] = []
        self._layout = self._network.lay_out(self._plan)
        self._go_on(self._progress.job < 0, now=0.0)

    @property
    def events_handled(self) -> int:
        return int(self._clock.events[0])

    def run(self) -> Records:
        """Run to the end of all jobs, or to a stall that nothing ends."""
        epoch_s, epochs, futile = self._options.epoch_s, 1, 0
        while not (self._jobs.phase == DONE).all():
            outside = self._next_outside()
            next_epoch = np.inf if epoch_s is None else epochs * epoch_s
            still = not rates_are_due(self._layout.sharing) and self._queue.time.min() == np.inf
            stalled = still and outside == np.inf
            if stalled and (next_epoch == np.inf or futile == FUTILE_EPOCHS):
                break
            why = advance(
                self._layout.sharing,
                self._queue,
                self._progress,
                self._jobs,
                self._clock,
                min(outside, next_epoch, self._counters.due_s),
                True,
            )
            if why == DRAW:
                self._draw(int(self._clock.job[0]))
                continue
            now = float(self._clock.now[0])
            while self._counters.due_s <= now:
                self._counters.take(self._counters.due_s, self._bytes_carried(now))
            changed = self._take_changes(now)
            self._slow_down(now)
            arriving = self._take_arrivals(now)
            if self._room is not None:
                arriving = self._begin_waiting(self._room, arriving, now)
                changed = changed or bool(arriving)
            epoch_due = next_epoch <= now
            if epoch_due:
                epochs += 1
                futile = futile + 1 if stalled else 0
            if changed or arriving or epoch_due or why == ENDED:
                self._decide(now, arriving, changed)
            admit(self._layout.sharing, self._queue, self._jobs, np.array(arriving, np.int64), now)
        return self._records()

    def _next_outside(self) -> float:
        """When the next job arrives, link changes or ranks become slower or quicker; infinity if none does."""
        arrival = self._specs[self._arrivals[0]].start_s if self._arrivals else np.inf
        return min(arrival, *(due[0].at_s for due in (self._changes, self._slowings) if due), np.inf)

    def _take_changes(self, now: float) -> bool:
        taken = False
        while self._changes and self._changes[0].at_s <= now:
            self._network.apply(self._changes.popleft())
            taken = True
        return taken

    def _slow_down(self, now: float) -> None:
        """Let jobs compute as long as their slowest rank from their next iteration on. No policy is told.

        With compute jitter the slowest draw is taken to be the slow rank's.
        """
        while self._slowings and self._slowings[0].at_s <= now:
            event = self._slowings.popleft()
            index = next(index for index, job in enumerate(self._specs) if job.name == event.job)
            for rank in event.ranks:
                self._slowed[event.job][rank] = event.factor
            self._jobs.compute[index] = self._specs[index].compute_s * max(self._slowed[event.job])

    def _take_arrivals(self, now: float) -> list[int]:
        arriving = []
        while self._arrivals and self._specs[self._arrivals[0]].start_s <= now:
            arriving.append(self._arrivals.popleft())
        return arriving

    def _begin_waiting(self, room: WaitingRoom, arrived: Sequence[int], now: float) -> list[int]:
        """Free the GPUs of jobs that have ended, and give them to those that wait or come now; which of them begin."""
        for index in room.running:
            if self._jobs.phase[index] == DONE:
                room.leave(index)
                self._network.give_flows(index, ())
        for index in arrived:
            room.arrive(index)
        begun = []
        for index, hosts in room.admit():
            job = replace(self._specs[index], hosts=hosts, start_s=now)
            flows = job_flows(job, self._fabric)
            self._specs[index] = job
            self._network.give_flows(index, flows)
            self._observer.moved(index, job)
            if not flows:
                self._jobs.bucket_bytes[self._jobs.bucket[index] : self._jobs.bucket[index + 1]] = 0.0
            begun.append(index)
        return begun

    def _draw(self, index: int) -> None:
        """Give a job with jitter its next compute factors, from the next iteration on."""
        drawn, width = int(self._jobs.drawn[index]), self._jobs.factor.shape[1]
        self._jobs.factor[index, (drawn + np.arange(width)) % width] = self._jitter[index].draw(width)
        self._jobs.drawn[index] = drawn + width

    def _decide(self, now: float, arriving: Sequence[int], changed: bool) -> None:
        """Ask the policy, and carry out what differs from the plan so far."""
        if len(self._decisions) == MAX_DECISIONS:
            raise RunFailed(
                f"policy {self._policy.name} has been asked {MAX_DECISIONS:,} times by {now:g} s; "
                "give it a longer epoch"
            )
        states = self._observer.look(self._jobs, self._queue, self._progress, arriving, now)
        plan = self._plan
        if states:
            snapshot = Snapshot(
                time_s=now,
                fabric=self._fabric,
                jobs=states,
                seed=self._seed,
                background=self._background,
                links_down=self._network.router.down,
                options=self._options.policy,
            )
            plan, decision = decide(self._policy, snapshot)
            self._decisions.append(decision)
        if changed or plan != self._plan:
            self._carry_out(plan, now)

    def _carry_out(self, plan: Plan, now: float) -> None:
        pause(self._layout.sharing, self._progress, now)
        self._carried = self._bytes_carried(now)
        self._counted = self._progress.sent.copy()
        active = self._layout.sharing.active
        self._layout = self._network.lay_out(plan)
        self._go_on(active, now)
        if plan != self._plan:
            starts = [plan.of(job.name).starts_s for job in self._specs]
            ends = np.cumsum([len(own) for own in starts])
            self._jobs = self._jobs._replace(gate=np.array([at for own in starts for at in own], np.float64))
            self._jobs.gate_end[:] = ends
            self._jobs.gate_next[:] = ends - [len(own) for own in starts]
            regate(self._layout.sharing, self._queue, self._jobs, now)
        self._plan = plan

    def _go_on(self, active: Flags, now: float) -> None:
        """Let entities send on, at the rates of the present layout."""
        self._progress = self._progress._replace(scale=self._layout.scale)
        resume(self._layout.sharing, self._queue, self._progress, active, now)

    def _bytes_carried(self, now: float) -> Floats:
        """Bytes on each link of Network.links since time zero."""
        sharing, progress = self._layout.sharing, self._progress
        moving = np.minimum(sharing.rate * (now - progress.since) / progress.scale, progress.left)
        moved = progress.sent - self._counted + np.where(sharing.active, moving, 0.0)
        carried = self._layout.bytes_on_links(moved, len(self._network.links))
        carried[: len(self._carried)] += self._carried
        return carried

    def _records(self) -> Records:
        now, jobs = float(self._clock.now[0]), self._jobs
        self._counters.take(now, self._bytes_carried(now))
        outcomes = {}
        for index, job in enumerate(self._specs):
            if jobs.phase[index] == DONE:
                outcome = JobOutcome(job.name, "done", self._submitted[index], float(jobs.ended[index]))
            else:
                error = (
                    f"still waited for GPUs at {now:g} s, behind jobs that stalled"
                    if jobs.phase[index] == ABSENT
                    else explain_stall(self._network, self._layout, self._plan, jobs, index, now)
                )
                outcome = JobOutcome(job.name, "failed", self._submitted[index], now, error)
            outcomes[job.name] = outcome
        rows = zip(self._specs, jobs.row, jobs.done, strict=False)
        return Records(
            engine="simulate",
            policy=self._policy.name,
            seed=self._seed,
            iterations={job.name: jobs.rows[row : row + done] for job, row, done in rows},
            outcomes=outcomes,
            links=self._counters.rows({n: i for n, i in self._network.links.items() if n in self._fabric.links}),
            decisions=self._decisions,
            hosts=self._given_hosts(),
        )

    def _given_hosts(self) -> dict[str, tuple[str, ...]]:
        """Of jobs that waited for GPUs and got them."""
        if self._room is None:
            return {}
        return {
            job.name: job.hosts for job, phase in zip(self._specs, self._jobs.phase, strict=True) if phase != ABSENT
        }


def _refuse_short_epochs(jobs: Sequence[Job], policy: Policy, epoch_s: float | None) -> None:
    """UsageError if the jobs' compute alone lasts for more epochs than there may be decisions."""
    least_s = max(job.start_s + job.iterations * job.compute_s for job in jobs)
    if epoch_s is not None and least_s > MAX_DECISIONS * epoch_s:
        raise UsageError(
            f"policy {policy.name} would be asked at least {least_s / epoch_s:,.0f} times, every {epoch_s:g} s for "
            f"{least_s:g} s; at most {MAX_DECISIONS:,} times are possible: give it a longer epoch"
        )
