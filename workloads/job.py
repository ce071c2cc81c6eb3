"""A training job as plain data: what it computes, what it sends each iteration, and where its ranks sit."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.shaping import DEFAULT_LEVEL, LEVELS

__all__ = ["DEFAULT_LEVEL", "LEVELS", "Background", "Event", "Job", "LinkEvent", "RankEvent", "RestartEvent"]


@dataclass(frozen=True)
class Job:
    """One training job, resolved: bytes are emulated bytes (already shrunk by the scenario's rate scale).

    index: position in the scenario; numbers the job's subnet.
    program: name of a built-in program (workloads.parallelism, or 'allreduce'), or 'command' for the user's own script
        in `command`.
    hosts: host name of each rank, in rank order; a host with several GPUs may stand several times.
    compute_s: seconds of compute of one iteration with an infinitely fast network.
    overlap: fraction of `compute_s`, counted from its end, during which gradients become ready: the first bucket
        is ready at compute_s * (1 - overlap), the last at compute_s. 0 means communication follows compute.
    compute_cv: coefficient of variation of log-normal compute jitter, drawn by seed; 0 means none.
    bucket_bytes: bytes of each gradient bucket, in the order in which they become ready.
    collective: name in workloads.collectives.COLLECTIVES. servers: for a parameter server, how many of the first ranks
        are servers; all of them are workers too where that is every rank. stages: for a pipeline, its stages; None for
        one a rank. in_stages: the fraction of bytes that are all-reduced within each stage after the pipeline's own.
    device, backend: as in workloads.devices. real_compute: whether ranks compute instead of sleeping (emulator only).
    application: what a parameter-server job learns, a name in workloads.programs.learning, None for no more than bytes.
    data_bytes: its input, in equal parts on all ranks, each in so many `blocks`.
    between_compute: whether compute comes in equal stretches, each of which ends in a bucket that the next one needs.
    start_s: submission, seconds after time zero.
    level: priority level that the scenario asks for (0 first .. 7), None where it asks for none.
    """

    name: str
    index: int
    program: str
    hosts: tuple[str, ...]
    iterations: int
    compute_s: float = 0.0
    overlap: float = 0.0
    compute_cv: float = 0.0
    bucket_bytes: tuple[int, ...] = ()
    collective: str = "ring-all-reduce"
    model: str | None = None
    warmup: int = 1
    start_s: float = 0.0
    weight: float = 1.0
    level: int | None = None
    command: tuple[str, ...] = ()
    timeout_s: float = 60.0
    servers: int = 1
    stages: int | None = None
    in_stages: float = 0.0
    between_compute: bool = False
    device: str = "auto"
    backend: str = "auto"
    real_compute: bool = False
    application: str | None = None
    data_bytes: int = 0
    blocks: int = 8

    @property
    def ranks(self) -> int:
        return len(self.hosts)

    @property
    def bytes(self) -> int:
        """Gradient bytes of one iteration."""
        return sum(self.bucket_bytes)


@dataclass(frozen=True, slots=True)
class Background:
    """Traffic that belongs to no job: a steady flow between two hosts, capped at `rate_bps` (emulated)."""

    src: str
    dst: str
    rate_bps: int


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """At `at_s` after time zero the cable or link `link` goes 'down' or 'up', or takes a new `rate_bps` ('rate')."""

    at_s: float
    link: str
    action: str
    rate_bps: int | None = None


@dataclass(frozen=True, slots=True)
class RankEvent:
    """At `at_s` after time zero something befalls ranks of a job.

    action: 'stop' and 'continue' are SIGSTOP and SIGCONT, 'kill' is SIGKILL; 'slow': from their next iteration on the
    ranks compute `factor` times as long as planned (1 for no longer).
    """

    at_s: float
    job: str
    action: str
    ranks: tuple[int, ...]
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class RestartEvent:
    """At `at_s` after time zero a daemon of the emulator is killed, to be started again: 'controller' or 'switches'."""

    at_s: float
    daemon: str


Event = LinkEvent | RankEvent
"""What may happen in a simulation too, of ranks only that they are slow."""
