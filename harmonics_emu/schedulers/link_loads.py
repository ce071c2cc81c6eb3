"""How long each job keeps each link busy, on the paths that its transfers take when nobody chooses them."""

from __future__ import annotations

from collections.abc import Mapping

from harmonics_emu.schedulers.interface import Snapshot
from harmonics_emu.simulate.routing import Router

LinkSeconds = Mapping[str, float]
"""Directed link to seconds of one iteration in which a job's bytes fill it: bytes over the link's rate."""


def hashed_link_seconds(snapshot: Snapshot) -> dict[str, LinkSeconds]:
    """By job name; a job that sends nothing over links has an empty mapping.

    Paths are the hashed ones, or those of them that are left where links are down. UsageError if the fabric joins two
    hosts by no path.
    """
    router = Router(snapshot.fabric, snapshot.seed)
    router.down = snapshot.links_down
    byte_s = {name: 8 / link.rate_bps for name, link in snapshot.fabric.links.items()}
    found: dict[str, LinkSeconds] = {}
    for state in snapshot.jobs:
        seconds: dict[str, float] = {}
        for (src, dst), size in state.transfers.items():
            for link in router.path(state.job.name, src, dst) if size > 0 else ():
                seconds[link] = seconds.get(link, 0.0) + size * byte_s[link]
        found[state.job.name] = seconds
    return found


def bottleneck_s(seconds: LinkSeconds) -> float:
    """Seconds of one iteration's communication at the job's own pace: those of its slowest link. 0 without traffic."""
    return max(seconds.values(), default=0.0)
