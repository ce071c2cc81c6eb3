"""What a job can't avoid, whatever a policy decides: link seconds on the links that every path crosses, and time.

A collective moves at one pace, on one path for each of its flows at a time. So its pace is never above the best that
any choice of paths gives. Bounds of that from below are enough here, and each of these holds for any paths, chosen
anew at any moment: what a flow's best path can carry; what links must carry that no path avoids; and, where flows
leave or enter a rack by some of several parallel links, that some link has at least its share of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from harmonics_emu.schedulers.exact.serial import Chain
from harmonics_emu.simulate.entities import Flow, job_flows
from harmonics_emu.simulate.jitter import SlowestRank
from harmonics_emu.simulate.kernel.sharing import Floats
from harmonics_emu.simulate.routing import intra_host_link
from topologies.fabric import Fabric
from workloads.job import Job
from workloads.pacing import bucket_ready_fractions


@dataclass(frozen=True)
class Demand:
    """A job's needs. compute_s, length_s: float64[iterations], its drawn compute and the least that each lasts alone.

    alone_s: the least that a collective takes. link_s: seconds of each iteration on the links, and bundles of links,
    that it can't avoid. weight: of its end in the objective.
    """

    job: Job
    compute_s: Floats
    length_s: Floats
    alone_s: float
    link_s: Mapping[str, float]
    weight: float

    @property
    def least(self) -> float:
        """What the job adds to the objective when nobody is in its way."""
        return self.weight * float(self.length_s.sum())

    def share(self, link: str) -> float:
        """The part of a link that the job's collective needs to keep its own pace."""
        return self.link_s[link] / self.alone_s

    def weighing(self, part: float) -> Demand:
        """The same with a part of its weight."""
        return replace(self, weight=self.weight * part)

    def on(self, link: str) -> Chain:
        """The job as this link sees it."""
        shares = np.array(self.job.bucket_bytes) / self.job.bytes * self.link_s[link]
        return Chain(
            compute_s=self.compute_s,
            length_s=self.length_s,
            ready=bucket_ready_fractions(len(shares), self.job.overlap),
            link_s=tuple(shares.tolist()),
            weight=self.weight,
            start_s=self.job.start_s,
        )


class Bottlenecks:
    """Which links of a fabric can't be avoided. capacity: bytes a second of every link, at its best."""

    def __init__(self, fabric: Fabric, capacity: Mapping[str, float]) -> None:
        self._fabric = fabric
        self._capacity = capacity
        self._between: dict[tuple[str, str], tuple[str, ...]] = {}
        hosts = fabric.host_index
        self._up: defaultdict[str, list[float]] = defaultdict(list)
        self._down: defaultdict[str, list[float]] = defaultdict(list)
        for link in fabric.links.values():
            if link.src not in hosts and link.dst not in hosts:
                self._up[link.src].append(capacity[link.name])
                self._down[link.dst].append(capacity[link.name])

    def demand(self, job: Job, seed: int, weight: float) -> Demand:
        """UsageError for a collective that there is not. The compute times are those that `seed` draws."""
        flows = job_flows(job, self._fabric)
        carried: defaultdict[str, float] = defaultdict(float)
        for flow in flows:
            for link in self._unavoidable(flow):
                carried[link] += flow.share
        busy = {link: size * job.bytes / self._capacity[link] for link, size in carried.items()}
        alone_s = max(busy.values(), default=0.0)
        for bundle, shares, rates in self._bundles(flows):
            alone_s = max(alone_s, job.bytes * _fullest(shares, len(rates)) / max(rates))
            if len(rates) > 1:
                busy[bundle] = job.bytes * sum(shares) / sum(rates)
        compute_s = np.full(job.iterations, job.compute_s)
        if job.compute_cv > 0:
            compute_s *= SlowestRank(job, seed).draw(job.iterations)
        return Demand(job, compute_s, _lengths(job, compute_s, alone_s), alone_s, busy if job.bytes else {}, weight)

    def _unavoidable(self, flow: Flow) -> tuple[str, ...]:
        if flow.src == flow.dst:
            return (intra_host_link(flow.src),)
        first, last = self._fabric.leaf_of(flow.src), self._fabric.leaf_of(flow.dst)
        if (first, last) not in self._between:
            self._between[first, last] = self._cuts(flow, first, last)
        return (f"{flow.src}>{first}", *self._between[first, last], f"{last}>{flow.dst}")

    def _cuts(self, flow: Flow, first: str, last: str) -> tuple[str, ...]:
        """Links between switches without which `last` is out of reach from `first`."""
        shortest = [path[1:-1] for path in self._fabric.paths(flow.src, flow.dst)]
        shared = set(shortest[0]).intersection(*shortest[1:]) if shortest else set()
        return tuple(link for link in sorted(shared) if not self._reaches(first, last, link))

    def _reaches(self, first: str, last: str, without: str) -> bool:
        seen, queue = {first}, deque([first])
        while queue:
            node = queue.popleft()
            for peer in self._fabric.neighbours[node]:
                if peer not in seen and f"{node}>{peer}" != without:
                    seen.add(peer)
                    queue.append(peer)
        return last in seen

    def _bundles(self, flows: Iterable[Flow]) -> Iterable[tuple[str, list[float], list[float]]]:
        """Parallel links that flows leave or enter a rack by: their name together, the flows' shares, the links' rates.

        Together they are one link that no path avoids, as fast as all of them.
        """
        leaving: defaultdict[str, list[float]] = defaultdict(list)
        entering: defaultdict[str, list[float]] = defaultdict(list)
        for flow in flows:
            first, last = self._fabric.leaf_of(flow.src), self._fabric.leaf_of(flow.dst)
            if first != last:
                leaving[first].append(flow.share)
                entering[last].append(flow.share)
        for leaf, shares in leaving.items():
            yield f"{leaf}>", shares, self._up[leaf]
        for leaf, shares in entering.items():
            yield f">{leaf}", shares, self._down[leaf]


def _fullest(sizes: Iterable[float], bins: int) -> float:
    """What the fullest of some bins holds at least: of the (q-1) bins + 1 largest sizes, one bin has q or more."""
    falling = sorted(sizes, reverse=True)
    found = sum(falling) / bins
    for most in range(1, (len(falling) - 1) // bins + 2):
        largest = falling[: (most - 1) * bins + 1]
        found = max(found, sum(largest[-most:]))
    return found


def _lengths(job: Job, compute_s: Floats, alone_s: float) -> Floats:
    """Least length of each iteration: each bucket is sent when it is ready and the one before is sent."""
    end = np.zeros(len(compute_s))
    ready = bucket_ready_fractions(len(job.bucket_bytes), job.overlap) if job.bytes else ()
    for size, fraction in zip(job.bucket_bytes, ready, strict=False):
        end = np.maximum(end, compute_s * fraction) + alone_s * size / job.bytes
    return np.maximum(end, compute_s)
