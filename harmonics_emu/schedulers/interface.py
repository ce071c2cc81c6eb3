"""What a policy sees (Snapshot) and what it decides (Plan). The same objects serve both engines.

A policy is a pure function of the snapshot: it opens no file, reads no clock but to honour its own deadline, and
keeps no state that the snapshot does not carry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from topologies.fabric import Fabric, Path
from workloads.collectives import Transfers
from workloads.job import DEFAULT_LEVEL, Background, Job

HostPair = tuple[str, str]


@dataclass(frozen=True)
class JobState:
    """A job as the scheduler knows it at the snapshot's time.

    transfers: bytes of one iteration between host pairs. compute_s and communication_s: seconds of one iteration,
    measured where the job has run, else the scenario's figures; communication_s is None until known.
    iterations_done: finished iterations. next_start_s: when its next iteration can begin (absolute, time zero = 0).
    jitter_s: by how much an iteration alone differs from the last one for no reason that `job` states, as a standard
    deviation; 0 where nothing is known of that. pause_s: seconds of its communication alone in which its links are
    free, as between small buckets.
    """

    job: Job
    transfers: Transfers
    compute_s: float
    communication_s: float | None = None
    iterations_done: int = 0
    next_start_s: float = 0.0
    jitter_s: float = 0.0
    pause_s: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """Fabric and jobs at `time_s`. `links_down` holds names of directed links that carry nothing now.

    options: the scenario's `policy` section without its name, as given by the user and checked by the policy.
    """

    time_s: float
    fabric: Fabric
    jobs: tuple[JobState, ...]
    seed: int
    background: tuple[Background, ...] = ()
    links_down: frozenset[str] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JobPlan:
    """What a plan says of one job.

    level: 0 is served first, 7 last. paths: the path of a host pair; a pair that is not named keeps its hashed path.
    rate_bps: cap on what each of the job's hosts sends, None for no cap. starts_s: absolute release times of the
    collectives of the coming iterations, in order; empty means ungated.
    """

    level: int = DEFAULT_LEVEL
    paths: Mapping[HostPair, Path] = field(default_factory=dict)
    rate_bps: int | None = None
    starts_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A policy's decision. A job that `jobs` does not name runs at the default level, ungated, on hashed paths.

    facts: what the policy wants on record with its decision (objective, bound, scores), JSON values only.
    """

    policy: str
    jobs: Mapping[str, JobPlan] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def of(self, job: str) -> JobPlan:
        return self.jobs.get(job, JobPlan())


class Policy(Protocol):
    """A policy's module-level object: its name, one line of what it does, and the function itself."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    def plan(self, snapshot: Snapshot) -> Plan: ...


@runtime_checkable
class WeightedPolicy(Policy, Protocol):
    """A policy under which jobs of one level share links by weights that change as they send. Simulator only."""

    def weight(self, sent: float) -> float:
        """The weight, above zero, of a job that has sent this fraction of its iteration's bytes."""
        ...


@dataclass(frozen=True)
class PlacementChoice:
    """Which of several placements a policy takes. facts: what goes on record with it, JSON values only."""

    index: int
    facts: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class PlacingPolicy(Policy, Protocol):
    """A policy that also says, once and before the run, where the jobs go that the scenario lets move."""

    def choose_placement(self, candidates: Sequence[Snapshot]) -> PlacementChoice:
        """One of the candidates: all jobs of the scenario as if they were there at time zero, placed differently.

        The first one is the placement that every other policy gets.
        """
        ...


@dataclass(frozen=True)
class FunctionPolicy:
    """A policy made of one function; what most policy files register."""

    name: str
    summary: str
    function: Callable[[Snapshot], Plan]

    def plan(self, snapshot: Snapshot) -> Plan:
        return self.function(snapshot)
