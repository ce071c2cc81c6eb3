"""The least congested of its equal-cost paths for each transfer, and which jobs then share links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.errors import UsageError
from harmonics_emu.schedulers.interface import HostPair
from harmonics_emu.schedulers.link_loads import LinkSeconds, bottleneck_s
from topologies.fabric import Fabric, Path
from workloads.collectives import Transfers


@dataclass(frozen=True)
class Routing:
    """Where one job's transfers go.

    paths: path of each host pair that has a choice. link_s: seconds of each iteration that the job keeps each link
    busy, bytes over rate. Pairs whose every path is down are in neither.
    """

    paths: Mapping[HostPair, Path]
    link_s: LinkSeconds

    @property
    def communication_s(self) -> float:
        """Time of one iteration's collective alone. 0 without traffic."""
        return bottleneck_s(self.link_s)


class PathSelector:
    """Chooses paths on one fabric. Paths over links in `links_down` are no candidates."""

    def __init__(self, fabric: Fabric, links_down: frozenset[str] = frozenset()) -> None:
        self._fabric = fabric
        self._down = links_down
        self._byte_s = {name: 8 / link.rate_bps for name, link in fabric.links.items()}

    def route(self, transfers: Transfers, busy_s: LinkSeconds) -> Routing:
        """Each transfer, the largest first, on the path whose most congested link is the least congested.

        Congestion of a link: `busy_s` of it, which others keep it busy, plus what this job's transfers add so far.
        Paths that are equal in their most congested link are compared by the next one, then by their order in the
        fabric. UsageError if the fabric joins two hosts by no path.
        """
        paths: dict[HostPair, Path] = {}
        link_s: dict[str, float] = {}
        for (src, dst), size in sorted(transfers.items(), key=lambda transfer: -transfer[1]):
            every = self._fabric.paths(src, dst)
            if not every:
                raise UsageError(f"the fabric has no path from {src} to {dst}; join them by links")
            candidates = [path for path in every if self._down.isdisjoint(path)]
            if size <= 0 or not candidates:
                continue

            def congestion(path: Path, size: float = size) -> list[float]:
                # The hosts' own links are the same on every candidate.
                seconds = [
                    busy_s.get(link, 0.0) + link_s.get(link, 0.0) + size * self._byte_s[link] for link in path[1:-1]
                ]
                return sorted(seconds, reverse=True)

            path = min(candidates, key=congestion) if len(candidates) > 1 else candidates[0]
            if len(every) > 1:
                paths[src, dst] = path
            for link in path:
                link_s[link] = link_s.get(link, 0.0) + size * self._byte_s[link]
        return Routing(paths, link_s)


def sharing(routings: Sequence[Routing]) -> NDArray[np.bool_]:
    """[jobs, jobs]: which jobs have a link in common; every job with itself, if it has any."""
    numbers: dict[str, int] = {}
    for routing in routings:
        for link in routing.link_s:
            numbers.setdefault(link, len(numbers))
    uses = np.zeros((len(routings), len(numbers)), np.float32)
    for job, routing in enumerate(routings):
        uses[job, [numbers[link] for link in routing.link_s]] = 1
    return uses @ uses.T > 0
