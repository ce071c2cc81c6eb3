"""The engine a second time, plain and slow: no arrays, no heaps, all rates anew at each event.

Written from what the fluid model says, not from the engine. It knows fair sharing, strict priority by the scenario's
levels, hashed paths, overlap, jitter, background traffic and link events; no gates and no rate caps.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from harmonics_emu.scenario import Scenario
from harmonics_emu.simulate.jitter import SlowestRank
from topologies.fabric import Fabric, hashed_path_index
from workloads.collectives import rank_transfers
from workloads.job import DEFAULT_LEVEL, Job

INSTANT = 1e-11
DRAWS = 256


@dataclass
class Sender:
    """Flows at one pace. uses: what a rate of 1 takes of each link; unit: the rate that moves a byte a second."""

    level: int
    uses: dict[str, float]
    unit: float
    cap: float = math.inf
    left: float = 0.0
    rate: float = 0.0

    @property
    def end_s(self) -> float:
        return self.left * self.unit / self.rate if self.left > 0 and self.rate > 0 else math.inf


@dataclass
class Runner:
    """A job on its way: it waits until `due_s`, then begins, sends or ends an iteration; infinite while it sends."""

    job: Job
    draws: SlowestRank
    senders: list[Sender] = field(default_factory=list)
    due_s: float = 0.0
    began_s: float = -1.0
    compute_s: float = 0.0
    bucket: int = 0
    factors: list[float] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)

    def ready_s(self, bucket: int) -> float:
        last = len(self.job.bucket_bytes) - 1
        share = 1 - self.job.overlap * (last - bucket) / last if last else 1.0
        return self.began_s + self.compute_s * share

    def begin(self, now: float) -> None:
        if not self.factors:
            self.factors = self.draws.draw(DRAWS).tolist() if self.job.compute_cv else [1.0] * DRAWS
        self.began_s, self.compute_s, self.bucket = now, self.job.compute_s * self.factors.pop(0), 0
        self.wait(now)

    def wait(self, now: float) -> None:
        sending = self.senders and self.bucket < len(self.job.bucket_bytes)
        self.due_s = max(now, self.ready_s(self.bucket) if sending else self.began_s + self.compute_s)

    def step(self, now: float, limit: float) -> None:
        """What is due now: to come, to send the buckets that are ready, or to be done with an iteration."""
        if self.began_s < 0:
            self.begin(now)
        elif self.senders and self.bucket < len(self.job.bucket_bytes):
            amount = 0.0
            while self.bucket < len(self.job.bucket_bytes) and self.ready_s(self.bucket) <= limit:
                amount += self.job.bucket_bytes[self.bucket]
                self.bucket += 1
            for sender in self.senders:
                sender.left = amount
            self.due_s = math.inf
        else:
            self.ends_s.append(now)
            self.due_s = math.inf
            if len(self.ends_s) < self.job.iterations:
                self.begin(now)


def iteration_ends(scenario: Scenario, *, by_priority: bool, by_flow: bool) -> dict[str, list[float]]:
    """When each iteration of each job ends, in seconds. by_flow: each flow by itself, else a collective at one pace."""
    fabric, now = scenario.fabric(), 0.0
    nominal = {name: link.rate_bps / 8 for name, link in fabric.links.items()}
    nominal |= {host.name: (fabric.intra_host_bps or 0) / 8 for host in fabric.hosts}
    capacity, down = dict(nominal), set[str]()
    changes = sorted(scenario.events(), key=lambda event: event.at_s)
    runners = [Runner(job, SlowestRank(job, scenario.seed), due_s=job.start_s) for job in scenario.jobs()]

    def route() -> list[Sender]:
        """Sets the senders of all jobs anew; returns those of background traffic."""
        for runner in runners:
            job, before = runner.job, runner.senders
            level = job.level if by_priority and job.level is not None else DEFAULT_LEVEL
            flows = [(fabric_path(fabric, scenario.seed, job.name, *pair, down), share) for pair, share in pairs(job)]
            flows = [(path, share) for path, share in flows if nominal[path[0]] > 0 and job.bytes > 0]
            groups = [[flow] for flow in flows] if by_flow else [flows] if flows else []
            runner.senders = [sender(group, level, nominal) for group in groups]
            for new, old in zip(runner.senders, before, strict=False):
                new.left = old.left
        return [
            Sender(
                DEFAULT_LEVEL,
                dict.fromkeys(fabric_path(fabric, scenario.seed, "background", flow.src, flow.dst, down), 1.0),
                1.0,
                flow.rate_bps / 8,
                math.inf,
            )
            for flow in scenario.background()
        ]

    def pairs(job: Job) -> list[tuple[tuple[str, str], float]]:
        moved = rank_transfers(job, fabric.rack_of)
        return [((job.hosts[src], job.hosts[dst]), share) for (src, dst), share in moved.items()]

    background = route()
    while any(len(runner.ends_s) < runner.job.iterations for runner in runners):
        everyone = [*background, *(own for runner in runners for own in runner.senders if own.left > 0)]
        share_links(everyone, {name: 0.0 if name in down else rate for name, rate in capacity.items()})
        due = min(runner.due_s for runner in runners)
        following = min(now + min((own.end_s for own in everyone), default=math.inf), due)
        following = min(following, changes[0].at_s if changes else math.inf)
        if following == math.inf:
            raise AssertionError(f"nothing moves any more at {now} s")
        limit = following * (1 + INSTANT)
        for own in everyone:
            own.left = 0.0 if now + own.end_s <= limit else own.left - own.rate * (following - now) / own.unit
        now = following
        while changes and changes[0].at_s <= now:
            event = changes.pop(0)
            names = {link.name for link in fabric.links_named(event.link)}
            down = down | names if event.action == "down" else down - names if event.action == "up" else down
            if event.rate_bps is not None:
                capacity |= dict.fromkeys(names, event.rate_bps / 8)
            background = route()
        for runner in runners:
            sends = runner.due_s == math.inf and runner.bucket > 0 and len(runner.ends_s) < runner.job.iterations
            if sends and not any(own.left > 0 for own in runner.senders):
                runner.wait(now)
            while runner.due_s <= limit:
                runner.step(now, limit)
    return {runner.job.name: runner.ends_s for runner in runners}


def fabric_path(fabric: Fabric, seed: int, owner: str, src: str, dst: str, down: set[str]) -> tuple[str, ...]:
    """The hashed path, or the hashed one of those that are up; inside a host, its own link by the host's name."""
    if src == dst:
        return (src,)
    every = list(fabric.paths(src, dst))
    path = every[hashed_path_index(seed, owner, src, dst, len(every))]
    if down & set(path) and (left := [other for other in every if not down & set(other)]):
        path = left[hashed_path_index(seed, owner, src, dst, len(left))]
    return tuple(path)


def sender(flows: list[tuple[tuple[str, ...], float]], level: int, nominal: dict[str, float]) -> Sender:
    """A unit of rate is that of one of its flows on the link that it fills first."""
    carried: defaultdict[str, float] = defaultdict(float)
    count: defaultdict[str, int] = defaultdict(int)
    for path, share in flows:
        for link in path:
            carried[link] += share
            count[link] += 1
    tightest = max(carried, key=lambda link: carried[link] / nominal[link])
    unit = carried[tightest] / count[tightest]
    return Sender(level, {link: size / unit for link, size in carried.items()}, unit)


def share_links(senders: list[Sender], free: dict[str, float]) -> None:
    """Rates by filling: within a level all rise together until a link of theirs is full, or their cap is met."""
    nominal = dict(free)
    for level in sorted({own.level for own in senders}):
        rising, rate = [own for own in senders if own.level == level], 0.0
        while rising:
            load: defaultdict[str, float] = defaultdict(float)
            for own in rising:
                for link, uses in own.uses.items():
                    load[link] += uses
            growth = min(min(free[link] / uses for link, uses in load.items()), min(own.cap for own in rising) - rate)
            rate += growth
            for link, uses in load.items():
                free[link] -= growth * uses
            full = {link for link in load if free[link] <= 1e-11 * nominal[link]}
            free |= dict.fromkeys(full, 0.0)
            for own in rising:
                own.rate = rate
            rising = [own for own in rising if rate < own.cap * (1 - 1e-12) and not full & own.uses.keys()]
