"""Entities on links as arrays for the kernel, laid out anew when paths, rates, caps or levels change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harmonics_emu.errors import UsageError
from harmonics_emu.schedulers.interface import HostPair, Plan
from harmonics_emu.simulate.entities import Entity, Flow
from harmonics_emu.simulate.kernel.sharing import Floats, Ints, Sharing, new_sharing
from harmonics_emu.simulate.routing import Router, capacities
from topologies.fabric import Fabric, Path
from workloads.job import LinkEvent

NO_PATHS: Mapping[HostPair, Path] = {}


@dataclass(frozen=True)
class Load:
    """What an entity puts on its links while its flows take `paths`, chosen under `planned` and `down`.

    link: indices of Network.links. carried: bytes on each for one byte of gradient. sent: bytes that leave each host.
    scale: bytes in each of its flows on the link that it fills first, for one byte of gradient. An entity's rate is
    that of such a flow: so on this link its weight is its number of flows there, as TCP would share it.
    """

    planned: Mapping[HostPair, Path]
    down: frozenset[str]
    paths: tuple[Path, ...]
    link: Ints
    carried: Floats
    sent: Mapping[str, float]
    scale: float


@dataclass(frozen=True)
class Layout:
    """All entities under one plan, E entities and N crossings.

    sharing: as the kernel wants it; a link that only one entity crosses is no link there but part of that entity's
    cap. scale [E]: rate units per gradient byte a second, at each entity's present weight. owner, link, carried [N]:
    each entity that crosses a link, the link's index in Network.links, and the bytes there for each byte of gradient.
    """

    sharing: Sharing
    scale: Floats
    owner: Ints
    link: Ints
    carried: Floats

    def bytes_on_links(self, moved: Floats, links: int) -> Floats:
        """Bytes on each of `links` links when each entity moves `moved` gradient bytes."""
        return np.bincount(self.link, moved[self.owner] * self.carried, minlength=links).astype(np.float64)


class Network:
    """Capacities and paths as they are now. `links` numbers all links that any flow has crossed so far."""

    def __init__(self, fabric: Fabric, seed: int, entities: Sequence[Entity]) -> None:
        self.fabric = fabric
        self.entities = list(entities)
        self.links: dict[str, int] = {}
        self.rates = capacities(fabric)
        self.router = Router(fabric, seed)
        self._nominal = dict(self.rates)
        self._loads: dict[int, Load] = {}

    def apply(self, event: LinkEvent) -> None:
        """Take a link event that `links_of` has accepted."""
        names = links_of(event, self.fabric)
        if event.action == "down":
            self.router.down |= set(names)
        elif event.action == "up":
            self.router.down -= set(names)
        elif event.rate_bps is not None:
            self.rates |= dict.fromkeys(names, event.rate_bps / 8)

    def give_flows(self, index: int, flows: tuple[Flow, ...]) -> None:
        """Let an entity that sends nothing now have other flows from the next layout on."""
        self.entities[index] = replace(self.entities[index], flows=flows)
        self._loads.pop(index, None)

    def load(self, index: int, plan: Plan) -> Load:
        """What an entity puts on its links now."""
        entity = self.entities[index]
        planned = plan.of(entity.owner).paths if entity.job >= 0 else NO_PATHS
        known = self._loads.get(index)
        if known is None or known.down != self.router.down or known.planned != planned:
            known = self._loads[index] = self._load(entity, planned)
        return known

    def _load(self, entity: Entity, planned: Mapping[HostPair, Path]) -> Load:
        carried: dict[str, float] = {}
        flows: dict[str, int] = {}
        sent: dict[str, float] = {}
        paths = []
        for flow in entity.flows:
            path = self.router.path(entity.owner, flow.src, flow.dst, planned.get((flow.src, flow.dst)))
            paths.append(path)
            if flow.src != flow.dst:
                sent[flow.src] = sent.get(flow.src, 0.0) + flow.share
            for link in path:
                carried[link] = carried.get(link, 0.0) + flow.share
                flows[link] = flows.get(link, 0) + 1
                self.links.setdefault(link, len(self.links))
        tightest = max(carried, key=lambda link: carried[link] / self._nominal[link], default=None)
        return Load(
            planned=planned,
            down=self.router.down,
            paths=tuple(paths),
            link=np.array([self.links[link] for link in carried], np.int64),
            carried=np.array(list(carried.values())),
            sent=sent,
            scale=carried[tightest] / flows[tightest] if tightest is not None else 1.0,
        )

    def lay_out(self, plan: Plan) -> Layout:
        """Every entity on its links under a plan."""
        loads = [self.load(index, plan) for index in range(len(self.entities))]
        scale = np.array([load.scale for load in loads], np.float64)
        owner = np.repeat(np.arange(len(loads)), [len(load.link) for load in loads])
        link = np.concatenate([np.empty(0, np.int64), *(load.link for load in loads)])
        carried = np.concatenate([np.empty(0), *(load.carried for load in loads)])
        return Layout(self._share(plan, loads, owner, link, carried / scale[owner]), scale, owner, link, carried)

    def _share(self, plan: Plan, loads: Sequence[Load], owner: Ints, link: Ints, usage: Floats) -> Sharing:
        capacity = [0.0 if name in self.router.down else self.rates[name] for name in self.links]
        cap = np.full(len(loads), np.inf)
        level = np.zeros(len(loads), np.int64)
        limits: dict[tuple[str, str], int] = {}
        limited: list[tuple[int, int, float]] = []
        for index, (entity, load) in enumerate(zip(self.entities, loads, strict=True)):
            level[index] = entity.level
            if entity.limit is not None:
                cap[index] = entity.limit
            if entity.job < 0:
                continue
            job = plan.of(entity.owner)
            level[index] = job.level
            if job.rate_bps is not None:
                # What a job's host may send is one more link, which the job's flows from there share.
                for host, share in load.sent.items():
                    if (entity.owner, host) not in limits:
                        limits[entity.owner, host] = len(capacity)
                        capacity.append(job.rate_bps / 8)
                    limited.append((index, limits[entity.owner, host], share / load.scale))
        if limited:
            owners, links, usages = zip(*limited, strict=True)
            owner, link, usage = (np.append(owner, owners), np.append(link, links), np.append(usage, usages))
            order = np.argsort(owner, kind="stable")
            owner, link, usage = owner[order], link[order], usage[order]
        room = np.array(capacity, np.float64)
        private = np.bincount(link, minlength=len(room))[link] == 1
        np.minimum.at(cap, owner[private], room[link[private]] / usage[private])
        first = np.zeros(len(loads) + 1, np.int64)
        np.cumsum(np.bincount(owner[~private], minlength=len(loads)), out=first[1:])
        return new_sharing(first, link[~private], usage[~private], room, cap, level)


def links_of(event: LinkEvent, fabric: Fabric) -> list[str]:
    """The directed links that an event is about. UsageError where it can't happen on this fabric."""
    where = f"event on {event.link} at {event.at_s:g} s"
    if not 0 <= event.at_s < np.inf:
        raise UsageError(f"{where}: its time must be zero or more, and finite")
    if event.action not in ("down", "up", "rate"):
        raise UsageError(f"{where}: action {event.action!r} is none of down, up, rate")
    if event.action == "rate" and not (event.rate_bps is not None and 0 < event.rate_bps < np.inf):
        raise UsageError(f"{where}: action rate needs a rate above zero (a link that carries nothing is down)")
    try:
        return [link.name for link in fabric.links_named(event.link)]
    except KeyError:
        raise UsageError(f"{where}: the fabric has no such link or cable") from None
