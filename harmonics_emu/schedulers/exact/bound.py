"""A lower bound of S that holds for every policy: however it orders, delays, splits and routes collectives.

It is put together from bounds on groups of jobs that meet on a link which no path avoids. For a group, all other jobs
and links are left out, which only helps the group; so what the best schedule of the group alone costs is a bound. As
groups have no job in common, their bounds add up; jobs in no group count as if alone. Which groups: those that give
the most. Three jobs that meet in pairs also give half of each pair's bound, since half of each job's weight can be put
on each of its two pairs.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from harmonics_emu.schedulers.exact.capacity import capacity_bound
from harmonics_emu.schedulers.exact.demands import Bottlenecks, Demand
from harmonics_emu.schedulers.exact.serial import Chain, bounds
from harmonics_emu.simulate.network import links_of
from harmonics_emu.simulate.predict import alone
from harmonics_emu.simulate.routing import capacities
from topologies.fabric import Fabric
from workloads.job import Job, LinkEvent

ROUNDING = 1e-9
"""Of the bound: what doubles may have added to it."""
LARGEST_EXACT_COVER = 12
"""Jobs that hang together up to which the best groups are found among all, not one after the other."""

Group = frozenset[int]


@dataclass(frozen=True)
class Bound:
    """value: S is at least this. how: one line on what it follows from. complete: no time limit cut the search short.

    groups: names of the jobs that were looked at together, with what each group adds to S.
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
    chosen = _cover(_gains(demands, deadline))
    value = sum(demand.least for demand in demands) + sum(gain for _, gain in chosen)
    groups = tuple((tuple(demands[index].job.name for index in sorted(group)), gain) for group, gain in chosen)
    return Bound(value * (1 - ROUNDING), _how(groups), time.monotonic() < deadline, groups)


def _highest_capacities(fabric: Fabric, events: Iterable[LinkEvent]) -> dict[str, float]:
    """Bytes a second of each link at its best: a link that fails or slows down for a time only makes jobs wait."""
    capacity = capacities(fabric)
    for event in events:
        for name in links_of(event, fabric):
            if event.rate_bps is not None:
                capacity[name] = max(capacity[name], event.rate_bps / 8)
    return capacity


def _gains(demands: Sequence[Demand], deadline: float) -> dict[Group, float]:
    """What groups of jobs add to S beyond their times alone."""
    users: defaultdict[str, list[int]] = defaultdict(list)
    for index, demand in enumerate(demands):
        for link in demand.link_s:
            users[link].append(index)
    pairs: defaultdict[Group, set[str]] = defaultdict(set)
    crowds: defaultdict[Group, set[str]] = defaultdict(set)
    for link, indices in users.items():
        for pair in combinations(indices, 2):
            pairs[frozenset(pair)].add(link)
        if len(indices) > 2:
            crowds[frozenset(indices)].add(link)
    gains: dict[Group, float] = {}
    for group, links in pairs.items():
        gains[group] = _best(demands, group, links, lambda chains: bounds(chains, deadline).least)
    for group, links in crowds.items():
        gains[group] = _best(demands, group, links, capacity_bound)
    _add_triangles(gains)
    return {group: gain for group, gain in gains.items() if gain > 0}


def _best(
    demands: Sequence[Demand], group: Group, links: Iterable[str], bound: Callable[[list[Chain]], float]
) -> float:
    """The most that any of these links says of a group. Links that are used alike say the same."""
    needs: dict[tuple[float, ...], str] = {}
    members = sorted(group)
    for link in sorted(links):
        needs.setdefault(tuple(round(demands[index].link_s[link], 12) for index in members), link)
    kept = [
        link
        for need, link in needs.items()
        if not any(other != need and all(a >= b for a, b in zip(other, need, strict=True)) for other in needs)
    ]
    least = sum(demands[index].least for index in members)
    return max(bound([demands[index].on(link) for index in members]) - least for link in kept)


def _add_triangles(gains: dict[Group, float]) -> None:
    neighbours: defaultdict[int, set[int]] = defaultdict(set)
    pairs = {group: gain for group, gain in gains.items() if len(group) == 2 and gain > 0}
    for a, b in pairs:
        neighbours[a].add(b)
        neighbours[b].add(a)
    for pair, gain in pairs.items():
        a, b = sorted(pair)
        for c in neighbours[a] & neighbours[b]:
            if c > b:
                third = pairs[frozenset((a, c))] + pairs[frozenset((b, c))]
                group = frozenset((a, b, c))
                gains[group] = max(gains.get(group, 0.0), (gain + third) / 2)


def _cover(gains: Mapping[Group, float]) -> list[tuple[Group, float]]:
    """Groups without a job in common whose gains add up to the most, or nearly so where many jobs hang together."""
    chosen: list[tuple[Group, float]] = []
    for together in _components(gains):
        mine = [(group, gain) for group, gain in gains.items() if group <= together]
        if len(together) <= LARGEST_EXACT_COVER:
            chosen += _best_cover(together, mine)
            continue
        free = set(together)
        for group, gain in sorted(mine, key=lambda item: -item[1] / len(item[0])):
            if group <= free:
                free -= group
                chosen.append((group, gain))
    return chosen


def _best_cover(together: Group, gains: Sequence[tuple[Group, float]]) -> list[tuple[Group, float]]:
    best: dict[Group, tuple[float, list[tuple[Group, float]]]] = {frozenset(): (0.0, [])}

    def of(free: Group) -> tuple[float, list[tuple[Group, float]]]:
        if free not in best:
            first = min(free)
            found = of(free - {first})
            for group, gain in gains:
                if first in group and group <= free:
                    value, rest = of(free - group)
                    if value + gain > found[0]:
                        found = (value + gain, [*rest, (group, gain)])
            best[free] = found
        return best[free]

    return of(together)[1]


def _components(groups: Iterable[Group]) -> list[Group]:
    found: list[set[int]] = []
    for group in groups:
        apart = [part for part in found if part.isdisjoint(group)]
        found = [*apart, set(group).union(*(part for part in found if not part.isdisjoint(group)))]
    return [frozenset(part) for part in found]


def _how(groups: Sequence[tuple[tuple[str, ...], float]]) -> str:
    if not groups:
        return "each job alone: no two of them share a link that they can't avoid"
    return "; ".join(f"{', '.join(names)}: {gain:.4f}" for names, gain in groups)
