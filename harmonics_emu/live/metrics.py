"""A snapshot in the text format that Prometheus reads (version 0.0.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import get_args

from harmonics_emu.live.snapshot import JobView, Snapshot, State
from harmonics_emu.results.schema import Verdict

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "harmonics_emu_"
Samples = Iterable[tuple[dict[str, str], float | None]]

JOB_METRICS: tuple[tuple[str, str, str, Callable[[JobView], float | None]], ...] = (
    ("job_iterations_planned", "gauge", "Iterations that the job is to make.", lambda job: job.total),
    ("job_iterations_done", "gauge", "Iterations that every rank has finished.", lambda job: job.done),
    ("job_iterations_total", "counter", "Iterations that the sums of seconds are of.", lambda job: job.counted),
    ("job_iteration_seconds_total", "counter", "Time in these iterations.", lambda job: job.iteration_sum_s),
    ("job_compute_seconds_total", "counter", "Of it, the slowest rank's compute.", lambda job: job.compute_sum_s),
    ("job_gate_seconds_total", "counter", "Of it, waits at the gate.", lambda job: job.gate_sum_s),
    ("job_last_iteration_seconds", "gauge", "The latest iteration.", lambda job: _last(job.recent_s)),
)


def _last(values: tuple[float, ...]) -> float | None:
    return values[-1] if values else None


def exposition(shown: Snapshot) -> str:
    """All metrics of a run. Names of jobs and links are labels; what is not known has no sample."""
    about = {"scenario": shown.scenario, "policy": shown.policy, "engine": shown.engine, "seed": str(shown.seed)}
    jobs = [({"job": job.name}, job) for job in shown.jobs]
    parts = [
        _metric("run_info", "gauge", "What runs.", [(about, 1)]),
        _metric("run_state", "gauge", "1 for the state that the run is in.", _one_of("state", shown.state, State)),
        _metric("run_seconds", "gauge", "Time since the run's time zero.", [({}, shown.time_s)]),
        _metric("run_verdict", "gauge", "1 for the verdict.", _one_of("verdict", shown.verdict, Verdict)),
        _metric("run_mean_slowdown", "gauge", "S: mean slowdown, weighted by GPUs.", [({}, shown.S)]),
    ]
    for name, kind, about_it, value in JOB_METRICS:
        parts.append(_metric(name, kind, about_it, [(labels, value(job)) for labels, job in jobs]))
    states = [({**labels, "state": job.state}, 1.0) for labels, job in jobs]
    levels = [(labels, job.level) for labels, job in jobs]
    uses = [({"link": link.name}, link.use) for link in shown.links]
    rates = [({"link": link.name}, float(link.rate_bps)) for link in shown.links]
    parts += [
        _metric("job_state", "gauge", "1 for the state that the job is in.", states),
        _metric("job_level", "gauge", "The priority band that the job sends in, the lowest number first.", levels),
        _metric("link_utilization_ratio", "gauge", "Part of the link's rate that it carries.", uses),
        _metric("link_rate_bits_per_second", "gauge", "The link's rate.", rates),
    ]
    return "".join(line for part in parts for line in part)


def _metric(name: str, kind: str, about: str, samples: Samples) -> Iterator[str]:
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return
    yield f"# HELP {PREFIX}{name} {about}\n# TYPE {PREFIX}{name} {kind}\n"
    for labels, value in known:
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{PREFIX}{name}{{{shown}}} {value!r}\n" if shown else f"{PREFIX}{name} {value!r}\n"


def _one_of(label: str, chosen: str | None, values: object) -> list[tuple[dict[str, str], float | None]]:
    return [({label: value}, None if chosen is None else float(value == chosen)) for value in get_args(values)]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
