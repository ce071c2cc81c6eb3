"""Which spine each transfer takes: the least used of its equal-cost paths, for all jobs together.

Used means on the average over time: bytes of an iteration over the period of the job alone. How jobs then take turns on
a link is for priorities and start times to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harmonics_emu.schedulers.harmonics.kernel import balance
from harmonics_emu.schedulers.harmonics.views import Routes, Task
from harmonics_emu.schedulers.interface import HostPair
from harmonics_emu.simulate.kernel.sharing import Floats, Ints
from topologies.fabric import Fabric, Path

PASSES = 3
"""Times that each transfer chooses: beside those before it, then beside all others."""


@dataclass(frozen=True)
class Demands:
    """Transfers that have a choice. D transfers, C choices of groups of equal ones, N links of choices.

    owner, pair [D]: whose transfer, between which hosts. rate [D]: bytes a second. group [D]: its choices are
    choice[first_choice[group]:first_choice[group + 1]] in `paths`, whose links are link[first_link[c]:first_link[c+1]]
    without those that all choices have in common. capacity [links].
    """

    owner: Sequence[str]
    pair: Sequence[HostPair]
    rate: Floats
    group: Ints
    first_choice: Ints
    first_link: Ints
    link: Ints
    capacity: Floats
    fixed: Floats
    choices: Sequence[Sequence[Path]]


def demands_of(tasks: Sequence[Task], fabric: Fabric, down: frozenset[str]) -> Demands:
    """Of all transfers with two or more paths that are up; the rates of others count as `fixed` on their links."""
    number = {name: place for place, name in enumerate(fabric.links)}
    groups: dict[tuple[str, str], int] = {}
    middles: list[list[Path]] = []
    owner, pair, rate, group = [], [], [], []
    fixed = np.zeros(len(number))
    for task in tasks:
        period_s = task.alone_iteration_s
        for (src, dst), size in task.state.transfers.items():
            ends = fabric.leaf_of(src), fabric.leaf_of(dst)
            if size <= 0 or ends[0] == ends[1] or period_s <= 0:
                continue
            if ends not in groups:
                groups[ends] = len(middles)
                middles.append([path[1:-1] for path in fabric.paths(src, dst) if down.isdisjoint(path[1:-1])])
            ways = middles[groups[ends]]
            if len(ways) > 1:
                owner.append(task.name)
                pair.append((src, dst))
                rate.append(size / period_s)
                group.append(groups[ends])
            elif ways:
                for link in ways[0]:
                    fixed[number[link]] += size / period_s
    counts = [len(ways) for ways in middles]
    flat = [path for ways in middles for path in ways]
    return Demands(
        owner=owner,
        pair=pair,
        rate=np.array(rate, np.float64),
        group=np.array(group, np.int64),
        first_choice=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
        first_link=np.concatenate([np.zeros(1, np.int64), np.cumsum([len(path) for path in flat], dtype=np.int64)]),
        link=np.array([number[link] for path in flat for link in path], np.int64),
        capacity=np.array([link.rate_bps / 8 for link in fabric.links.values()], np.float64),
        fixed=fixed,
        choices=middles,
    )


def choose_spines(demands: Demands) -> Ints:
    """[D]: the choice of each transfer within its group; in time near-linear in transfers and their choices."""
    order = np.argsort(-demands.rate, kind="stable")
    return balance(
        order,
        demands.rate,
        demands.group,
        demands.first_choice,
        demands.first_link,
        demands.link,
        demands.capacity,
        demands.fixed.copy(),
        PASSES,
    )


def routes_of(demands: Demands, chosen: Ints) -> Routes:
    """Choices as paths from host to host."""
    routes: dict[str, dict[HostPair, Path]] = {}
    for owner, (src, dst), group, choice in zip(
        demands.owner, demands.pair, demands.group.tolist(), chosen.tolist(), strict=True
    ):
        middle = demands.choices[group][choice]
        first, last = middle[0].split(">")[0], middle[-1].split(">")[1]
        routes.setdefault(owner, {})[src, dst] = (f"{src}>{first}", *middle, f"{last}>{dst}")
    return routes
