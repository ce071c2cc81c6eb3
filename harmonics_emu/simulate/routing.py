"""Which path a flow takes now: the planned one, else the hashed one, else the hashed one of those that are left."""

from __future__ import annotations

from collections.abc import Iterable

from harmonics_emu.errors import UsageError
from topologies.fabric import Fabric, Path, hashed_path_index

INTRA_HOST = "intra-host"


class Router:
    """The path of each flow, decided as the emulator's controller does it. `down` holds directed links."""

    def __init__(self, fabric: Fabric, seed: int) -> None:
        self._fabric = fabric
        self._seed = seed
        self._hashed: dict[tuple[str, str, str], Path] = {}
        self.down: frozenset[str] = frozenset()

    def path(self, owner: str, src: str, dst: str, planned: Path | None = None) -> Path:
        """Links from src to dst. Where links are down on every shortest path: the preferred one, on which it stalls.

        UsageError if the fabric has no path at all. Two ranks of one host meet on that host's own link.
        """
        if src == dst:
            return (intra_host_link(src),)
        if planned is not None and self.down.isdisjoint(planned):
            return planned
        hashed = self._hashed_path(owner, src, dst)
        if self.down.isdisjoint(hashed):
            return hashed
        left = [path for path in self._fabric.paths(src, dst) if self.down.isdisjoint(path)]
        return left[hashed_path_index(self._seed, owner, src, dst, len(left))] if left else hashed

    def _hashed_path(self, owner: str, src: str, dst: str) -> Path:
        key = (owner, src, dst)
        if key not in self._hashed:
            every = self._fabric.paths(src, dst)
            if not every:
                raise UsageError(f"{owner}: the fabric has no path from {src} to {dst}; join them by links")
            self._hashed[key] = every[hashed_path_index(self._seed, owner, src, dst, len(every))]
        return self._hashed[key]


def intra_host_link(host: str) -> str:
    """The name of what joins the GPUs of one host."""
    return f"{host}:{INTRA_HOST}"


def capacities(fabric: Fabric) -> dict[str, float]:
    """Bytes a second of every directed link, and of every host's own link where it has one."""
    found = {name: link.rate_bps / 8 for name, link in fabric.links.items()}
    if fabric.intra_host_bps is not None:
        found |= {intra_host_link(host.name): fabric.intra_host_bps / 8 for host in fabric.hosts}
    return found


def capacity_of(fabric: Fabric, link: str) -> float:
    """As `capacities`, of one link. KeyError if the fabric does not have it."""
    if link in fabric.links or fabric.intra_host_bps is None:
        return fabric.links[link].rate_bps / 8
    return fabric.intra_host_bps / 8


def least_loaded_paths(fabric: Fabric, demands: Iterable[tuple[str, str, float]]) -> dict[tuple[str, str], Path]:
    """A path for each (src, dst, bytes) that keeps the longest time any link is busy short.

    Greedy, largest demand first: each takes the path whose worst link would be busy for the least time.
    """
    busy: dict[str, float] = {}
    chosen: dict[tuple[str, str], Path] = {}
    for src, dst, size in sorted(demands, key=lambda demand: -demand[2]):
        if src == dst:
            continue

        def worst(path: Path, size: float = size) -> float:
            return max(busy.get(link, 0.0) + size / capacity_of(fabric, link) for link in path)

        path = min(fabric.paths(src, dst), key=worst)
        chosen[src, dst] = path
        for link in path:
            busy[link] = busy.get(link, 0.0) + size / capacity_of(fabric, link)
    return chosen
