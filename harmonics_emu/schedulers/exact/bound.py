"""A lower bound of S that holds for every policy: however it orders, delays, splits and routes collectives.

It is put together from bounds on groups of jobs that meet on a link which no path avoids. For a group, all other jobs
and links are left out, which only helps the group; so what the best schedule of the group alone costs is a bound. A
job's weight may be divided among several groups, and then the bounds of all groups, each with the parts of the weights
that it has, add up. Which groups get which parts is the linear program that gives the most.

Groups: pairs of jobs by an exact search, with several ratios of their weights; three or four jobs without jitter by
what they cause for ever; all jobs of a link by what it can carry.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from harmonics_emu.schedulers.exact.capacity import capacity_bound
from harmonics_emu.schedulers.exact.demands import Bottlenecks, Demand
from harmonics_emu.schedulers.exact.endless import endless_bound
from harmonics_emu.schedulers.exact.packing import best_packing
from harmonics_emu.schedulers.exact.serial import Chain, bounds, compile_search
from harmonics_emu.simulate.network import links_of
from harmonics_emu.simulate.predict import alone
from harmonics_emu.simulate.routing import capacities
from topologies.fabric import Fabric
from workloads.job import Job, LinkEvent

ROUNDING = 1e-9
"""Of the bound: what doubles may have added to it."""
RATIOS = ((1.0, 0.5), (0.5, 1.0), (1.0, 0.25), (0.25, 1.0))
"""Parts of their weights that two jobs put on each other, beside all or equal parts."""
LARGEST_CROWD = 4
"""Jobs on a link up to which they are looked at together; of more, each three of them are."""
MOST_TRIPLES = 20
LEAST_GAIN = 1e-6
MOST_BLOCKS = 500
"""Those of the largest gains, of jobs that hang together, that the linear program is given."""

Group = tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """Jobs of a group, the part of its weight that each puts into it, and what that adds to S beyond the jobs alone."""

    group: Group
    parts: tuple[float, ...]
    gain: float


@dataclass(frozen=True)
class Bound:
    """value: S is at least this. how: one line on what it follows from. complete: no time limit cut the search short.

    groups: names of the jobs that were looked at together, with what each group adds to S beyond the jobs alone.
    """

    value: float
    how: str
    complete: bool
    groups: tuple[tuple[tuple[str, ...], float], ...]


def lower_bound(
    fabric: Fabric,
    jobs: Sequence[Job],
    seed: int = 0,
    events: Sequence[LinkEvent] = (),
    *,
    time_limit_s: float = 20.0,
) -> Bound:
    """Of the S of these jobs over their whole run, whatever the policy, with the compute times that `seed` draws.

    A job that takes no time counts for nothing. UsageError for jobs that can't be simulated.
    """
    compile_search()
    deadline = time.monotonic() + time_limit_s
    isolated = [alone(fabric, job, seed)[1] for job in jobs]
    shares = [job.ranks * job.weight for job in jobs]
    bottlenecks = Bottlenecks(fabric, _highest_capacities(fabric, events))
    demands = [
        bottlenecks.demand(job, seed, share / sum(shares) / training_s if training_s > 0 else 0.0)
        for job, share, training_s in zip(jobs, shares, isolated, strict=True)
    ]
    return bound_of(demands, deadline)


def bound_of(demands: Sequence[Demand], deadline: float) -> Bound:
    """The least weighted sum of the jobs' times from start to end. deadline: on the monotonic clock."""
    packed = _pack(_blocks(demands, deadline))
    value = sum(demand.least for demand in demands) + sum(gain for _, gain in packed)
    groups = tuple((tuple(demands[index].job.name for index in group), gain) for group, gain in packed)
    return Bound(value * (1 - ROUNDING), _how(groups), time.monotonic() < deadline, groups)


def _highest_capacities(fabric: Fabric, events: Iterable[LinkEvent]) -> dict[str, float]:
    """Bytes a second of each link at its best: a link that fails or slows down for a time only makes jobs wait."""
    capacity = capacities(fabric)
    for event in events:
        for name in links_of(event, fabric):
            if event.rate_bps is not None:
                capacity[name] = max(capacity[name], event.rate_bps / 8)
    return capacity


def _blocks(demands: Sequence[Demand], deadline: float) -> list[Block]:
    users: defaultdict[str, list[int]] = defaultdict(list)
    for index, demand in enumerate(demands):
        for link in demand.link_s:
            users[link].append(index)
    links: defaultdict[Group, set[str]] = defaultdict(set)
    crowds: set[Group] = set()
    for link, indices in users.items():
        crowd = tuple(indices)
        for group in {*combinations(crowd, 2), crowd}:
            # Jobs that a link has room for at their own pace don't hinder each other there.
            if sum(demands[index].share(link) for index in group) > 1 + ROUNDING:
                links[group].add(link)
        if len(crowd) > 2 and crowd in links:
            crowds.add(crowd)

    def block(group: Group, bound: Callable[[Sequence[Chain]], float], parts: tuple[float, ...] = ()) -> Block:
        own = parts or (1.0,) * len(group)
        members = [demands[index].weighing(part) for index, part in zip(group, own, strict=True)]
        return Block(group, own, _most(members, links[group], bound))

    def pair_bound(chains: Sequence[Chain]) -> float:
        return bounds(chains, deadline).least

    pairs = [block(pair, pair_bound) for pair in sorted(links) if len(pair) == 2 and time.monotonic() < deadline]
    pairs = [pair for pair in pairs if pair.gain > LEAST_GAIN]
    found = [*pairs, *(block(crowd, capacity_bound) for crowd in sorted(crowds))]
    gains = {pair.group: pair.gain for pair in pairs}
    for group, crowd in _steady_groups(demands, crowds, gains):
        if time.monotonic() > deadline:
            break
        links[group] |= links[crowd]
        found.append(block(group, lambda chains: endless_bound(chains, deadline)))
    meetings = Counter(index for pair in pairs for index in pair.group)
    for pair in pairs:
        if max(meetings[index] for index in pair.group) > 1:
            found += [block(pair.group, pair_bound, parts) for parts in RATIOS if time.monotonic() < deadline]
    return [one for one in found if one.gain > LEAST_GAIN]


def _steady_groups(
    demands: Sequence[Demand], crowds: Iterable[Group], gains: Mapping[Group, float]
) -> list[tuple[Group, Group]]:
    """Groups of three and four without jitter that meet on a link, those first that meet the most, and their crowds."""
    found: dict[Group, Group] = {}
    for crowd in crowds:
        steady = tuple(index for index in crowd if demands[index].job.compute_cv == 0)
        size = len(steady) if len(steady) <= LARGEST_CROWD else 3
        if size > 2:
            found |= dict.fromkeys(combinations(steady, size), crowd)

    def contention(group: Group) -> float:
        return sum(gains.get(pair, 0.0) for pair in combinations(group, 2))

    return [
        (group, found[group])
        for group in sorted(found, key=lambda group: (-contention(group), group))[:MOST_TRIPLES]
        if contention(group) > 0
    ]


def _most(members: Sequence[Demand], links: Iterable[str], bound: Callable[[Sequence[Chain]], float]) -> float:
    """The most that any of these links adds to what a group's members cost alone. Links that are used alike are one."""
    needs: dict[tuple[float, ...], str] = {}
    for link in sorted(links):
        needs.setdefault(tuple(round(member.link_s[link], 12) for member in members), link)
    kept = [
        link
        for need, link in needs.items()
        if not any(other != need and all(a >= b for a, b in zip(other, need, strict=True)) for other in needs)
    ]
    least = sum(member.least for member in members)
    return max(bound([member.on(link) for member in members]) - least for link in kept)


def _pack(blocks: Sequence[Block]) -> list[tuple[Group, float]]:
    """How much each group that is used adds to the bound, the most first."""
    added: defaultdict[Group, float] = defaultdict(float)
    for together in _apart(blocks):
        kept = sorted(together, key=lambda block: -block.gain)[:MOST_BLOCKS]
        jobs = sorted({index for block in kept for index in block.group})
        use = np.zeros((len(jobs), len(kept)))
        for number, block in enumerate(kept):
            use[np.searchsorted(jobs, block.group), number] = block.parts
        amounts = best_packing(np.array([block.gain for block in kept]), use)
        for block, amount in zip(kept, amounts.tolist(), strict=True):
            if amount > 0:
                added[block.group] += amount * block.gain
    return sorted(added.items(), key=lambda item: -item[1])


def _apart(blocks: Iterable[Block]) -> Iterable[list[Block]]:
    """Blocks that have jobs in common, directly or through others, together."""
    leader: dict[int, int] = {}

    def find(index: int) -> int:
        while leader.setdefault(index, index) != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    known = list(blocks)
    for block in known:
        for index in block.group[1:]:
            leader[find(index)] = find(block.group[0])
    found: defaultdict[int, list[Block]] = defaultdict(list)
    for block in known:
        found[find(block.group[0])].append(block)
    return found.values()


def _how(groups: Sequence[tuple[tuple[str, ...], float]]) -> str:
    if not groups:
        return "each job alone: no two of them share a link that they can't avoid"
    return "; ".join(f"{', '.join(names)}: {gain:.4f}" for names, gain in groups)
