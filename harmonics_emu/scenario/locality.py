"""Which racks a job should have for its traffic to stay as near to its hosts as can be, from what racks have free."""

from __future__ import annotations

from collections.abc import Sequence

from topologies.fabric import Fabric


def rack_groups(fabric: Fabric) -> list[list[int]]:
    """Racks that meet at a switch right above their leaves: a fat-tree's pods, all racks of a rack-spine fabric."""
    leaves = set(fabric.leaves)
    hosts = fabric.host_index
    group_of: dict[str, int] = {}
    groups: dict[int, list[int]] = {}
    for rack, leaf in enumerate(fabric.leaves):
        above = [node for node in fabric.neighbours[leaf] if node not in hosts and node not in leaves]
        joined = sorted({group_of[node] for node in above if node in group_of})
        own = joined[0] if joined else rack
        for other in joined[1:]:
            groups[own] += groups.pop(other)
            group_of |= {node: own for node, group in group_of.items() if group == other}
        group_of |= dict.fromkeys(above, own)
        groups.setdefault(own, []).append(rack)
    return [sorted(racks) for racks in groups.values()]


def local_shares(free: Sequence[int], groups: Sequence[Sequence[int]], workers: int) -> dict[int, int]:
    """GPUs that each rack gives a job of `workers`. free: of each rack; together they must be enough.

    In one rack if one has room, else in one group, else in as few groups as can be; the fullest that has room each
    time. Within a group as few racks as can be, and of the last ones that come into question the fullest.
    """
    one = _best_fit(range(len(free)), free, workers)
    if one is not None:
        return {one: workers}
    room = [sum(free[rack] for rack in racks) for racks in groups]
    shares: dict[int, int] = {}
    left, open_groups = workers, list(range(len(groups)))
    while left:
        fitting = _best_fit(open_groups, room, left)
        group = max(open_groups, key=lambda each: room[each]) if fitting is None else fitting
        open_groups.remove(group)
        taken = min(left, room[group])
        shares |= _within(groups[group], free, taken)
        left -= taken
    return shares


def _within(racks: Sequence[int], free: Sequence[int], workers: int) -> dict[int, int]:
    shares: dict[int, int] = {}
    open_racks = list(racks)
    while workers:
        fitting = _best_fit(open_racks, free, workers)
        rack = max(open_racks, key=lambda each: free[each]) if fitting is None else fitting
        open_racks.remove(rack)
        shares[rack] = min(workers, free[rack])
        workers -= shares[rack]
    return shares


def _best_fit(places: Sequence[int], free: Sequence[int], wanted: int) -> int | None:
    """The place with the least room that has enough, the first of equals; None if none has."""
    return min((place for place in places if free[place] >= wanted), key=lambda place: free[place], default=None)
