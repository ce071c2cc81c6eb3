"""Small, hand-made runs for the tests of results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harmonics_emu.records import ITERATION, LINK_SAMPLE, Decision, JobOutcome, Records
from harmonics_emu.results.schema import Fidelity, Isolated
from topologies.fabric import Cable, Fabric, Host, Link, Switch
from workloads.job import Job

FAITHFUL = Fidelity(verdict="faithful", cpu_busy=0.4)


def fabric(hosts: int = 2, rate_bps: int = 1000) -> Fabric:
    """Hosts h0.. on one leaf."""
    names = [f"h{number}" for number in range(hosts)]
    links = {
        f"{src}>{dst}": Link(f"{src}>{dst}", src, dst, rate_bps)
        for name in names
        for src, dst in ((name, "leaf0"), ("leaf0", name))
    }
    return Fabric(
        kind="rack-spine",
        hosts=tuple(Host(name, 0) for name in names),
        switches=(Switch("leaf0", "leaf"),),
        links=links,
        cables={f"{name}-leaf0": Cable(f"{name}-leaf0", f"{name}>leaf0", f"leaf0>{name}") for name in names},
    )


def job(name: str = "vision", index: int = 0, **changes: object) -> Job:
    settings = {"program": "ddp", "hosts": ("h0", "h1"), "iterations": 3, "model": "vgg16"} | changes
    return Job(name=name, index=index, **settings)  # type: ignore[arg-type]


def rows(*values: Sequence[float]) -> np.ndarray:
    """Rows of (rank, iteration, start_s, compute_s, gate_s, end_s)."""
    return np.array([tuple(value) for value in values], ITERATION)


def two_ranks() -> np.ndarray:
    """Three iterations of two ranks; the first is the warm-up. Times are exact in binary."""
    return rows(
        (0, 0, 0.0, 2.0, 0.0, 4.0),
        (1, 0, 0.0, 2.0, 0.0, 4.0),
        (0, 1, 4.0, 1.0, 0.5, 8.0),
        (1, 1, 4.0, 2.0, 0.5, 8.0),
        (0, 2, 8.0, 1.0, 0.0, 10.0),
        (1, 2, 8.0, 1.0, 0.0, 10.5),
    )


def records(iterations: dict[str, np.ndarray], policy: str = "fair", seed: int = 0, **changes: object) -> Records:
    """Records in which every job that has rows is done when they end."""
    outcomes = {name: JobOutcome(name, "done", 0.0, float(table["end_s"].max())) for name, table in iterations.items()}
    settings = {"engine": "emulate", "outcomes": outcomes} | changes
    return Records(policy=policy, seed=seed, iterations=iterations, **settings)  # type: ignore[arg-type]


def full_records() -> Records:
    """One of everything that a run leaves."""
    return records(
        {"vision": two_ranks(), 'odd, "name"\nof two lines': two_ranks()},
        links={
            "h0>leaf0": np.array([(0.5, 100, 0, 7, 0.25), (1 / 3, 600, 1, 0, 0.0)], LINK_SAMPLE),
            "leaf0>h0": np.array([(0.5, 0, 0, 0, 0.0)], LINK_SAMPLE),
        },
        decisions=[
            Decision(0.0, "fair", 0.25, 0.125, {"jobs": {}, "objective": np.float64(1.5)}),
            Decision(2.0, "fair", 0.75, 0.375, {"jobs": {}, "bound": float("nan")}, fallback=True),
        ],
        rules=[{"switch": "leaf0", "packets": np.int64(7)}],
        gates_failed_open=3,
    )


def steady_rows(iterations: int, compute_s: float, communication_s: float, start_s: float = 0.0) -> np.ndarray:
    """Two ranks that compute and then communicate, each time alike."""
    period = compute_s + communication_s
    return rows(
        *(
            (rank, number, start_s + number * period, compute_s, 0.0, start_s + (number + 1) * period)
            for number in range(iterations)
            for rank in (0, 1)
        )
    )


def isolated(iterations: int, compute_s: float, communication_s: float) -> Isolated:
    period = compute_s + communication_s
    return Isolated(
        iteration_s=period, communication_s=communication_s, training_s=iterations * period, source="measured"
    )
