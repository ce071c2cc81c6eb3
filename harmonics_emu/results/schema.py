"""The types of result.json and comparison.json: seconds, bytes and bits per second; None where there is nothing.

Reading validates: a file that does not fit says which field is wrong. Unknown fields are passed over, so that a later
version may add some.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from harmonics_emu.errors import UsageError

Engine = Literal["emulate", "simulate"]
Status = Literal["done", "failed", "killed"]
Verdict = Literal["faithful", "degraded", "not faithful"]
Source = Literal["measured", "predicted"]
Interval = tuple[float, float]


class UnreadableResult(UsageError):
    """A result or comparison file that is missing or does not fit its schema."""


class Statistics(msgspec.Struct, frozen=True):
    """Of one quantity over the iterations of a job: std is the population's, p99 interpolates between neighbours."""

    mean: float
    median: float
    p99: float
    std: float


class Isolated(msgspec.Struct, frozen=True, kw_only=True):
    """A job alone on the same fabric: means per iteration, and the training time of as many iterations as it has.

    training_s counts, as a job's does, from submission to the end of the last iteration, warm-up included.
    """

    iteration_s: float | None
    communication_s: float | None
    training_s: float | None
    source: Source


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """One job. Statistics are over its measured iterations: whole on every rank, warm-up left out.

    ranks and iterations are the scenario's; iterations_done counts those that every rank finished, warm-up included.
    start_s: submission; end_s: when it ended; both since time zero. training_s: from submission to the end of its
    last iteration, None unless it is done. slowdown: training_s over isolated_training_s, so queueing counts.
    weight: the tenant's. steady_iteration_s: median iteration of the last half. error: one line, None when done.
    """

    name: str
    model: str | None
    program: str
    ranks: int
    iterations: int
    iterations_done: int
    weight: float
    status: Status
    start_s: float
    end_s: float
    training_s: float | None
    slowdown: float | None
    iteration_s: Statistics | None
    communication_s: Statistics | None
    compute_s: Statistics | None
    gate_s: Statistics | None
    straggler_s: Statistics | None
    steady_iteration_s: float | None
    isolated_iteration_s: float | None
    isolated_communication_s: float | None
    isolated_training_s: float | None
    isolated_source: Source | None
    error: str | None


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the whole run; results.build says how each is taken and when it is None."""

    makespan_s: float | None
    training_s: float | None
    communication_s: float | None
    S: float | None
    max_slowdown: float | None
    gpu_utilization: float | None
    network_utilization: float | None


class Durations(msgspec.Struct, frozen=True):
    """Over all decisions of a run; mean and max are None where there was no decision."""

    mean: float | None
    max: float | None
    total: float


class Scheduling(msgspec.Struct, frozen=True, kw_only=True):
    """What scheduling cost: solve_s sums over all solvers, critical_path_s is what the plan had to wait for."""

    decisions: int
    solve_s: Durations
    critical_path_s: Durations
    fallbacks: int
    gates_failed_open: int


class LinkFidelity(msgspec.Struct, frozen=True, kw_only=True):
    """What one directed link carried while it was busy, beside what it was set to. None: it was never busy."""

    link: str
    configured_bps: float
    busy_goodput_bps: float | None
    drops: int


class Fidelity(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the links, and not the machine, made the numbers. cpu_busy: fraction of all cores, None if unmeasured."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    cpu_busy: float | None = None
    links: tuple[LinkFidelity, ...] = ()


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """result.json: one run of one scenario under one policy."""

    schema: Literal[1] = 1
    scenario: str
    engine: Engine
    policy: str
    seed: int
    jobs: tuple[JobResult, ...]
    cluster: Cluster
    scheduling: Scheduling
    fidelity: Fidelity

    def job(self, name: str) -> JobResult:
        """The job of that name; KeyError if there is none."""
        for job in self.jobs:
            if job.name == name:
                return job
        raise KeyError(name)


class Estimate(msgspec.Struct, frozen=True):
    """Median over repeats and the 95 % interval around it (results.comparison says which), None with one repeat."""

    median: float | None
    ci95: Interval | None


class PolicyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One policy over the repeats. failed: repeats in which a job did not finish.

    verdict: the worst of the repeats; reasons: what spoke against the first run with that verdict.
    """

    training_s: Estimate
    communication_s: Estimate
    makespan_s: Estimate
    S: Estimate
    gpu_utilization: Estimate
    network_utilization: Estimate
    failed: int
    verdict: Verdict
    reasons: tuple[str, ...] = ()


class JobReduction(msgspec.Struct, frozen=True):
    """1 - policy/fair of one job, as a fraction: positive is better. Medians over repeats."""

    training_reduction: float | None
    communication_reduction: float | None


class AgainstFair(msgspec.Struct, frozen=True, kw_only=True):
    """One policy against fair sharing: medians of values paired by repeat, reductions as fractions.

    worst_job_training_reduction: of the job that gains least in each repeat.
    """

    training_reduction: float | None
    training_reduction_ci95: Interval | None
    communication_reduction: float | None
    communication_reduction_ci95: Interval | None
    worst_job_training_reduction: float | None
    contention_removed: float | None
    of_achievable: float | None
    jobs: dict[str, JobReduction]


class JobFigures(msgspec.Struct, frozen=True):
    """One job under one policy: medians over repeats; iteration and communication of its means per iteration."""

    iteration_s: float | None
    communication_s: float | None
    training_s: float | None
    slowdown: float | None


class JobComparison(msgspec.Struct, frozen=True):
    """One job, alone and under each policy. isolated: medians over repeats, slowdown 1 where its time is known."""

    isolated: JobFigures
    isolated_source: Source | None
    policies: dict[str, JobFigures]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """comparison.json: policies side by side on one scenario, all run with the same seeds."""

    schema: Literal[1] = 1
    scenario: str
    engine: Engine
    repeats: int
    policies: dict[str, PolicyFigures]
    against_fair: dict[str, AgainstFair]
    jobs: dict[str, JobComparison]


T = TypeVar("T", Result, Comparison)


def read_result(path: Path) -> Result:
    """Read result.json, or the run directory that holds it. UnreadableResult names the field that does not fit."""
    return _read(path / "result.json" if path.is_dir() else path, Result)


def read_comparison(path: Path) -> Comparison:
    """Read comparison.json, or the directory that holds it. UnreadableResult names the field that does not fit."""
    return _read(path / "comparison.json" if path.is_dir() else path, Comparison)


def to_json(value: Result | Comparison) -> bytes:
    """The file's text, which reads back: ValueError names a field whose value does not fit the schema.

    Holds no NaN and no infinity, since JSON has neither: null stands in their place, where the schema allows it.
    """
    text = msgspec.json.encode(value)
    try:
        msgspec.json.decode(text, type=type(value))
    except msgspec.ValidationError as error:
        raise ValueError(f"a {type(value).__name__.lower()} that does not fit its schema: {error}") from None
    return msgspec.json.format(text, indent=2) + b"\n"


def _read(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise UnreadableResult(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableResult(f"{path} is not a {kind.__name__.lower()} of schema 1: {error}") from None
