"""Puts ranks on GPUs: evenly over all racks, in as few racks as possible, at random, or near to each other.

All number ranks rack by rack, and host by host inside a rack, so a ring in rank order leaves and enters each rack
once. Emptier racks and hosts are taken first, the first of equals by position in the fabric.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from random import Random
from typing import Literal, get_args

from harmonics_emu.scenario.locality import local_shares, rack_groups
from topologies.fabric import Fabric

Rule = Literal["spread", "packed", "random", "local"]
RULES: tuple[str, ...] = get_args(Rule)


def placement_seed(seed: int | None, job: str | None) -> str:
    """What a job's random placement is drawn by."""
    return f"placement {seed} {job}"


def placement_draw(seed: int | None, job: str | None) -> Random:
    return Random(placement_seed(seed, job))


class NoRoom(ValueError):
    """More ranks than GPUs to put them on. `free`: how many there are."""

    def __init__(self, free: int) -> None:
        super().__init__(f"only {free} GPUs are free")
        self.free = free


class Placer:
    """Places jobs one after another on a fabric, and keeps count of the GPUs they take.

    Where `share` is set, a GPU that another job holds may be taken too, once all others are; no job gets one GPU
    twice.
    """

    def __init__(self, fabric: Fabric, *, share: bool = False) -> None:
        self._fabric = fabric
        self._share = share
        self._gpus = fabric.gpus_per_host
        self._used = [0] * len(fabric.hosts)
        members: list[list[int]] = [[] for _ in fabric.leaves]
        for index, host in enumerate(fabric.hosts):
            members[host.rack].append(index)
        self._rack_gpus = [len(hosts) * self._gpus for hosts in members]
        # Each rack's hosts as a heap of (used GPUs, host), and all racks in order of (free GPUs, -rack). Both keep
        # a placement near-linear in its ranks, however large the fabric is.
        self._hosts = [[(0, host) for host in hosts] for hosts in members]
        self._racks = sorted((gpus, -rack) for rack, gpus in enumerate(self._rack_gpus))
        self._rack_free = list(self._rack_gpus)

    @cached_property
    def _groups(self) -> list[list[int]]:
        return rack_groups(self._fabric)

    @property
    def free(self) -> int:
        """GPUs that the next job can have."""
        return sum(self._rack_gpus) if self._share else sum(max(free, 0) for free in self._rack_free)

    def reserve(self, hosts: Sequence[str]) -> None:
        """Count the GPUs of a job whose hosts its scenario lists."""
        self._count(hosts, 1)

    def release(self, hosts: Sequence[str]) -> None:
        """Give back the GPUs of a job that has ended."""
        self._count(hosts, -1)

    def has_room(self, hosts: Sequence[str]) -> bool:
        """Whether a GPU of each of these hosts is free, one for each time that it is listed."""
        wanted = Counter(self._fabric.host_index[name] for name in hosts)
        return all(self._used[host] + count <= self._gpus for host, count in wanted.items())

    def place(self, rule: str, workers: int, draw: Random) -> tuple[str, ...]:
        """Hosts of a job's ranks by one of RULES; only 'random' draws. NoRoom."""
        if rule == "random":
            return self.scattered(workers, draw)
        return {"spread": self.spread, "packed": self.packed, "local": self.local}[rule](workers)

    def _count(self, hosts: Sequence[str], sign: int) -> None:
        touched = set()
        for name, times in Counter(hosts).items():
            count = sign * times
            index = self._fabric.host_index[name]
            rack = self._fabric.hosts[index].rack
            self._used[index] += count
            touched.add(rack)
            self._set_free(rack, self._rack_free[rack] - count)
        for rack in touched:
            self._hosts[rack] = [(self._used[host], host) for _, host in self._hosts[rack]]
            heapq.heapify(self._hosts[rack])

    def spread(self, workers: int) -> tuple[str, ...]:
        """Hosts of a job's ranks, its racks' shares differing by one at most unless a rack is full. NoRoom."""
        return self._place(self._even_shares(workers), one_by_one=True)

    def packed(self, workers: int) -> tuple[str, ...]:
        """Hosts of a job's ranks in the fullest rack that has room for all, or else in the emptiest ones. NoRoom."""
        return self._place(self._packed_shares(workers), one_by_one=False)

    def local(self, workers: int) -> tuple[str, ...]:
        """Hosts of a job's ranks in one host, one rack, or racks that are near to each other. NoRoom."""
        need = self._need(workers)
        on_one_host = [
            rack
            for rack, hosts in enumerate(self._hosts)
            if not self._share and hosts and hosts[0][0] + need <= self._gpus
        ]
        if on_one_host:
            shares = {min(on_one_host, key=lambda rack: self._rack_free[rack]): need}
        else:
            free = [self._available(rack) for rack in range(len(self._rack_gpus))]
            shares = local_shares(free, self._groups, need)
        return self._place(shares, one_by_one=False)

    def scattered(self, workers: int, draw: Random) -> tuple[str, ...]:
        """Hosts of a job's ranks in racks as they come if GPUs are drawn one after another. NoRoom."""
        racks = range(len(self._rack_gpus))
        room = [self._available(rack) for rack in racks]
        shares = Counter(draw.sample(racks, self._need(workers), counts=room))
        return self._place(shares, one_by_one=True)

    def _even_shares(self, workers: int) -> dict[int, int]:
        """How many ranks each rack takes: rounds over the racks, the emptiest first, one rank a rack and round."""
        shares: dict[int, int] = {}
        open_racks = self._emptiest(workers)
        left = self._need(workers)
        while left:
            open_racks = [rack for rack in open_racks if shares.get(rack, 0) < self._available(rack)][:left]
            for rack in open_racks:
                shares[rack] = shares.get(rack, 0) + 1
            left -= len(open_racks)
        return shares

    def _packed_shares(self, workers: int) -> dict[int, int]:
        left = self._need(workers)
        fitting = bisect_left(self._racks, (workers, -len(self._racks)))
        if not self._share and fitting < len(self._racks):
            free = self._racks[fitting][0]
            best = bisect_left(self._racks, (free + 1, -len(self._racks))) - 1
            return {-self._racks[best][1]: workers}
        shares: dict[int, int] = {}
        for rack in self._emptiest(workers):
            shares[rack] = min(left, self._available(rack))
            left -= shares[rack]
            if not left:
                break
        return shares

    def _need(self, workers: int) -> int:
        if workers > self.free:
            raise NoRoom(self.free)
        return workers

    def _available(self, rack: int) -> int:
        """GPUs of a rack that one job can have."""
        return self._rack_gpus[rack] if self._share else max(self._rack_free[rack], 0)

    def _emptiest(self, count: int) -> list[int]:
        return [-negative for _, negative in self._racks[: -count - 1 : -1]]

    def _place(self, shares: dict[int, int], *, one_by_one: bool) -> tuple[str, ...]:
        hosts: list[int] = []
        for rack, share in shares.items():
            hosts.extend(self._take(rack, share, 1 if one_by_one else self._gpus))
            self._set_free(rack, self._rack_free[rack] - share)
        ordered = sorted(hosts, key=lambda host: (self._fabric.hosts[host].rack, host))
        return tuple(self._fabric.hosts[host].name for host in ordered)

    def _take(self, rack: int, count: int, at_once: int) -> list[int]:
        """Hosts of `count` GPUs of a rack, the least used first, up to `at_once` GPUs of a host before the next one."""
        heap = self._hosts[rack]
        taken: Counter[int] = Counter()
        full: list[int] = []
        while count:
            used, host = heapq.heappop(heap)
            room = self._gpus - (taken[host] if self._share else used)
            grant = min(count, at_once, room)
            taken[host] += grant
            count -= grant
            self._used[host] = used + grant
            if grant == room:
                full.append(host)
            else:
                heapq.heappush(heap, (self._used[host], host))
        for host in full:
            heapq.heappush(heap, (self._used[host], host))
        return list(taken.elements())

    def _set_free(self, rack: int, free: int) -> None:
        del self._racks[bisect_left(self._racks, (self._rack_free[rack], -rack))]
        insort(self._racks, (free, -rack))
        self._rack_free[rack] = free
