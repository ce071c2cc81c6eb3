"""How fast jobs could send together, and what held each back: the fluid model asked about one moment of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harmonics_emu.evidence.recorded_run import RecordedRun
from harmonics_emu.scenario.estimate import estimate_alone
from harmonics_emu.schedulers.interface import Plan
from harmonics_emu.simulate.entities import BACKGROUND, Entity, Flow, job_flows
from harmonics_emu.simulate.kernel.sharing import enter, new_sharing, reshare
from harmonics_emu.simulate.network import Network
from workloads.job import Job


@dataclass(frozen=True)
class Held:
    """A job's pace at one moment: pace is the part of the pace that it has alone, 0 to 1.

    own: its pace if nobody else sent, which is below 1 on a worse path, under a cap or on a slower link. link: the one
    that held it, None where none did. others: who sent there meanwhile ('background' for traffic of no job), each with
    its part of what they sent; empty where nobody did.
    """

    pace: float
    own: float
    link: str | None
    others: Mapping[str, float]


class Paces:
    """Answers for the moments of one run, remembered by who sends under which plan and which links are down."""

    def __init__(self, recorded: RecordedRun) -> None:
        scenario, fabric = recorded.scenario, recorded.fabric
        self._fabric, self._seed = fabric, recorded.run.result.seed
        self._events = scenario.events()
        self._plans = recorded.plans
        self._entities: dict[str, Entity] = {}
        self._alone: dict[str, float] = {}
        for index, job in enumerate(recorded.jobs):
            if flows := _flows(recorded, job):
                self._entities[job.name] = Entity(job.name, index, flows)
                self._alone[job.name] = job.bytes / estimate_alone(fabric, job).communication_s
        self._background = [
            Entity(BACKGROUND, -1, (Flow(traffic.src, traffic.dst, 1.0),), limit=traffic.rate_bps / 8)
            for traffic in scenario.background()
        ]
        self._networks: dict[tuple[int, int], tuple[Network, Plan]] = {}
        self._known: dict[tuple[int, int, frozenset[str]], dict[str, Held]] = {}

    @property
    def senders(self) -> frozenset[str]:
        """Names of the jobs that send anything over links."""
        return frozenset(self._entities)

    def changes_s(self) -> list[float]:
        """The moments at which a plan or a link changed."""
        return [at_s for at_s, _ in self._plans] + [event.at_s for event in self._events]

    def links_of(self, job: str) -> frozenset[str]:
        """Links that a job crosses under any of the run's plans."""
        found: set[str] = set()
        for place in range(len(self._plans)):
            network, plan = self._network(place, 0)
            load = network.load(list(self._entities).index(job), plan)
            found.update(link for path in load.paths for link in path)
        return frozenset(found)

    def at(self, time_s: float, sending: Iterable[str]) -> Mapping[str, Held]:
        """Each of the jobs that send at a moment."""
        place = max(0, sum(at_s <= time_s for at_s, _ in self._plans) - 1)
        happened = sum(event.at_s <= time_s for event in self._events)
        active = frozenset(sending) & self.senders
        key = (place, happened, active)
        if key not in self._known:
            self._known[key] = self._ask(place, happened, active)
        return self._known[key]

    def _network(self, place: int, happened: int) -> tuple[Network, Plan]:
        if (place, happened) not in self._networks:
            network = Network(self._fabric, self._seed, [*self._entities.values(), *self._background])
            for event in self._events[:happened]:
                network.apply(event)
            self._networks[place, happened] = (network, self._plans[place][1])
        return self._networks[place, happened]

    def _ask(self, place: int, happened: int, active: frozenset[str]) -> dict[str, Held]:
        network, plan = self._network(place, happened)
        layout = network.lay_out(plan)
        names = [*self._entities, *(BACKGROUND for _ in self._background)]
        links = list(network.links)

        def share(jobs: frozenset[str], *, background: bool) -> tuple[list[float], list[int]]:
            s = layout.sharing
            fresh = new_sharing(s.first, s.link, s.usage, s.capacity, s.cap, s.level)
            for index, name in enumerate(names):
                if name in jobs or (background and name == BACKGROUND):
                    enter(fresh, index)
            reshare(fresh)
            return fresh.fresh.tolist(), fresh.limit.tolist()

        rates, limits = share(active, background=True)
        found = {}
        for index, name in enumerate(names):
            if name not in active:
                continue
            fastest = self._alone[name] * layout.scale[index]
            own_rates, _ = share(frozenset([name]), background=False)
            limit = limits[index]
            others: dict[str, float] = {}
            if 0 <= limit < len(links):
                for owner, link, carried in zip(layout.owner, layout.link, layout.carried, strict=True):
                    if link == limit and owner != index:
                        sent = float(rates[owner] * carried / layout.scale[owner])
                        others[names[owner]] = others.get(names[owner], 0.0) + sent
            whole = sum(others.values())
            found[name] = Held(
                pace=min(1.0, float(rates[index] / fastest)),
                own=min(1.0, float(own_rates[index] / fastest)),
                link=links[limit] if 0 <= limit < len(links) else None,
                others={other: sent / whole for other, sent in others.items() if sent > 0} if whole else {},
            )
        return found


def _flows(recorded: RecordedRun, job: Job) -> tuple[Flow, ...]:
    """A job's flows; none of a user's command, of which nothing is known."""
    return () if job.command else job_flows(job, recorded.fabric)
