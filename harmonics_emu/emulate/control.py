"""What the supervisor and the controller tell each other, and the supervisor's end of the conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import Literal, TypeVar

import msgspec

from harmonics_emu.emulate.solving import Answer as PlanMade
from harmonics_emu.emulate.solving import Ask, Begin
from harmonics_emu.emulate.wire import Channel
from harmonics_emu.errors import HarmonicsError
from harmonics_emu.schedulers.interface import HostPair, Plan
from topologies.fabric import Fabric, Path
from workloads.job import Background, Job

PathChoice = Literal["hash", "group"]
"""How a pair's default path is found: the planner's seeded hash, or a select group that hashes each TCP flow's 5-tuple.
(UDP between two hosts stays together: Open vSwitch leaves its ports out of the hash.)"""


class ControllerError(HarmonicsError):
    """The controller could not do what it was asked."""


class RulesDiffer(ControllerError):
    """Switches don't hold the rules that were wanted. `rules` reports all of them, the wrong ones with an `error`."""

    def __init__(self, rules: Sequence[RuleReport]) -> None:
        wrong = [rule for rule in rules if rule.error is not None]
        super().__init__(f"{len(wrong)} of {len(rules)} rules are not as wanted; the first: {wrong[0].describe()}")
        self.rules = rules


class PairPath(msgspec.Struct, frozen=True):
    """The path that the plan gives to traffic from one host to another."""

    src: str
    dst: str
    path: Path


class JobRoutes(msgspec.Struct, frozen=True):
    """What switches must know of a job: its subnet's number, its hosts, its priority level, its planned paths."""

    name: str
    index: int
    hosts: tuple[str, ...]
    level: int
    paths: tuple[PairPath, ...] = ()


class NetworkState(msgspec.Struct, frozen=True):
    """All that decides the rules of a fabric. `links_down` names directed links that carry nothing now."""

    fabric: Fabric
    seed: int
    jobs: tuple[JobRoutes, ...] = ()
    background: tuple[HostPair, ...] = ()
    links_down: frozenset[str] = frozenset()
    paths: PathChoice = "hash"


def network_state(
    fabric: Fabric,
    jobs: Iterable[Job],
    plan: Plan,
    seed: int,
    links_down: frozenset[str] = frozenset(),
    background: Iterable[Background] = (),
    paths: PathChoice = "hash",
) -> NetworkState:
    """What the switches must know of these jobs under this plan."""
    return NetworkState(
        fabric=fabric,
        seed=seed,
        jobs=tuple(_job_routes(job, plan) for job in jobs),
        background=tuple((flow.src, flow.dst) for flow in background),
        links_down=links_down,
        paths=paths,
    )


def _job_routes(job: Job, plan: Plan) -> JobRoutes:
    planned = plan.of(job.name)
    return JobRoutes(
        name=job.name,
        index=job.index,
        hosts=tuple(dict.fromkeys(job.hosts)),
        level=planned.level,
        paths=tuple(PairPath(src, dst, path) for (src, dst), path in planned.paths.items()),
    )


class RuleReport(msgspec.Struct, frozen=True):
    """A rule as wanted, whether the switch holds it (`error` is None), and what it has counted since it was installed.

    purpose: 'pair' (marks and forwards one host pair of a job, at its first leaf), 'path' (keeps a pair on its path
    further on), 'route' (by destination), 'mark' (default level for all else that a host sends), 'transit' (from
    other switches: to the routes), 'miss' (drops IPv4 that has no route: a packet counted here is lost), 'stray'
    (drops what is no IPv4: ARP and IPv6, of which a fabric needs none), 'unknown' (held unasked: `error` is set).
    job, src, dst: whom it serves, None where it serves everybody. actions: (name, argument) in order.
    """

    switch: str
    datapath_id: int
    table: int
    priority: int
    cookie: int
    match: dict[str, int | str]
    actions: tuple[tuple[str, int | str], ...]
    purpose: str
    job: str | None = None
    src: str | None = None
    dst: str | None = None
    error: str | None = None
    packets: int = 0
    bytes: int = 0

    def describe(self) -> str:
        """The rule and its error as one line."""
        match = ",".join(f"{field}={value}" for field, value in self.match.items()) or "any"
        return f"{self.purpose} rule of {self.switch} (table {self.table}, {match}): {self.error or 'as wanted'}"


class RuleCount(msgspec.Struct, frozen=True):
    """Packets and bytes that a rule has taken since it was installed; `cookie` names the rule within the fabric."""

    cookie: int
    switch: str
    purpose: str
    job: str | None
    src: str | None
    dst: str | None
    packets: int
    bytes: int


class Ping(msgspec.Struct, tag=True, frozen=True):
    """Is the controller there?"""


class Connected(msgspec.Struct, tag=True, frozen=True):
    """Which switches are connected? Answered once there are `at_least` so many, or the request's time is nearly up."""

    at_least: int = 0


class Install(msgspec.Struct, tag=True, frozen=True):
    """Bring all switches to the rules of this state."""

    state: NetworkState


class Counters(msgspec.Struct, tag=True, frozen=True):
    """What has each rule counted?"""


class Coordinate(msgspec.Struct, tag=True, frozen=True):
    """Make a plan in two tiers: as the Global Coordinator, with the racks' Local Schedulers."""

    begin: Begin
    ask: Ask


class Shutdown(msgspec.Struct, tag=True, frozen=True):
    """End the controller."""


class Done(msgspec.Struct, tag=True, frozen=True):
    """Answer to Ping and Shutdown."""


class Datapaths(msgspec.Struct, tag=True, frozen=True):
    """Answer to Connected: datapath ids in ascending order."""

    ids: tuple[int, ...]


class Report(msgspec.Struct, tag=True, frozen=True):
    """Answer to Install: every wanted rule, read back."""

    rules: list[RuleReport]


class Counts(msgspec.Struct, tag=True, frozen=True):
    """Answer to Counters."""

    rules: list[RuleCount]


class Coordinated(msgspec.Struct, tag=True, frozen=True):
    """Answer to Coordinate. silent: racks whose Local Scheduler said nothing in time."""

    answer: PlanMade
    silent: tuple[int, ...]


class Failure(msgspec.Struct, tag=True, frozen=True):
    """Answer to any request that could not be met: the cause in one line."""

    cause: str


Request = Ping | Connected | Install | Counters | Coordinate | Shutdown
Answer = Done | Datapaths | Report | Counts | Coordinated | Failure
A = TypeVar("A", Done, Datapaths, Report, Counts)

answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


class ControllerClient:
    """The supervisor's connection to the controller. Waits up to `timeout_s` for it to open its socket.

    Every failure is a HarmonicsError with a one-line cause: WireError where the controller is gone or silent,
    ControllerError where it answered that it could not.
    """

    def __init__(self, socket_path: FilePath, timeout_s: float = 10.0) -> None:
        self._channel = Channel(socket_path, "controller", timeout_s)

    def ping(self, timeout_s: float = 5.0) -> None:
        self._ask(Ping(), Done, timeout_s)

    def wait_for_switches(self, count: int, timeout_s: float) -> None:
        """Wait until `count` switches, numbered from 1 as in `addressing.datapath_ids`, are connected."""
        found = self._ask(Connected(at_least=count), Datapaths, timeout_s).ids
        missing = [str(number) for number in range(1, count + 1) if number not in found]
        if missing:
            raise ControllerError(
                f"{len(found)} of {count} switches connected within {timeout_s:g} s; "
                f"missing datapath ids: {', '.join(missing)}"
            )

    def install(self, state: NetworkState, timeout_s: float) -> list[RuleReport]:
        """Bring the switches to the rules of `state` without losing packets that are under way, and read them back.

        RulesDiffer if a switch does not hold what was wanted, with what it answered.
        """
        rules = self._ask(Install(state), Report, timeout_s).rules
        if any(rule.error is not None for rule in rules):
            raise RulesDiffer(rules)
        return rules

    def counters(self, timeout_s: float) -> list[RuleCount]:
        """What each rule has counted. Open vSwitch brings its counters up to date about twice a second."""
        return self._ask(Counters(), Counts, timeout_s).rules

    def shut_down(self, timeout_s: float = 5.0) -> None:
        """Ask the controller to end; its process may live a few milliseconds longer."""
        self._ask(Shutdown(), Done, timeout_s)

    def close(self) -> None:
        self._channel.close()

    def _ask(self, request: Request, expected: type[A], timeout_s: float) -> A:
        answer = answers.decode(self._channel.call(msgspec.msgpack.encode(request), timeout_s))
        if isinstance(answer, Failure):
            raise ControllerError(f"controller: {answer.cause}")
        if not isinstance(answer, expected):
            raise ControllerError(f"controller: answered {type(answer).__name__}, not {expected.__name__}")
        return answer
