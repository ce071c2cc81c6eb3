"""The compiled parts of what the Global Coordinator does."""

from __future__ import annotations

import numpy as np

from harmonics_emu.simulate.kernel.jit import compiled
from harmonics_emu.simulate.kernel.sharing import Floats, Ints


@compiled
def join_by_links(first: Ints, link: Ints, links: int) -> Ints:
    """The lowest-numbered task that each task is joined to by links that both cross, directly or through others.

    Task t crosses link[first[t]:first[t+1]], numbers below `links`. int64 [tasks].
    """
    tasks = first.shape[0] - 1
    leader = np.arange(tasks)
    seen = np.full(links, -1, np.int64)
    for task in range(tasks):
        for crossing in range(first[task], first[task + 1]):
            if seen[link[crossing]] < 0:
                seen[link[crossing]] = task
                continue
            a, b = seen[link[crossing]], task
            while leader[a] != a:
                leader[a] = leader[leader[a]]
                a = leader[a]
            while leader[b] != b:
                leader[b] = leader[leader[b]]
                b = leader[b]
            leader[max(a, b)] = min(a, b)
    for task in range(tasks):
        leader[task] = leader[leader[task]]
    return leader


@compiled
def balance(
    order: Ints,
    rate: Floats,
    group: Ints,
    first_choice: Ints,
    first_link: Ints,
    link: Ints,
    capacity: Floats,
    used: Floats,
    passes: int,
) -> Ints:
    """Each transfer in `order` takes the choice whose most used link stays the least used; again in later passes.

    Arrays as in spines.Demands; used [links]: bytes a second that are there already, and all of them at the end.
    Equal choices: the one whose links have less on them together, then the first.
    """
    chosen = np.full(rate.shape[0], -1, np.int64)
    for _ in range(passes):
        for place in range(order.shape[0]):
            transfer = order[place]
            begin = first_choice[group[transfer]]
            if chosen[transfer] >= 0:
                for crossing in range(first_link[begin + chosen[transfer]], first_link[begin + chosen[transfer] + 1]):
                    used[link[crossing]] -= rate[transfer]
            best, best_most, best_sum = -1, np.inf, np.inf
            for choice in range(begin, first_choice[group[transfer] + 1]):
                most, total = 0.0, 0.0
                for crossing in range(first_link[choice], first_link[choice + 1]):
                    part = (used[link[crossing]] + rate[transfer]) / capacity[link[crossing]]
                    most = max(most, part)
                    total += part
                if most < best_most - 1e-12 or (most < best_most + 1e-12 and total < best_sum - 1e-12):
                    best, best_most, best_sum = choice, most, total
            chosen[transfer] = best - begin
            for crossing in range(first_link[best], first_link[best + 1]):
                used[link[crossing]] += rate[transfer]
    return chosen
