"""Watches the directory of a run, from any other process: each look reads only what has come since the last.

While an emulated run goes on, its logs/progress.jsonl tells states, bands and links, and its spans/ the iterations.
Once result.json is there, everything is taken from the results, of either engine.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harmonics_emu.emulate.observer import History, Iteration
from harmonics_emu.emulate.progress_log import PROGRESS_LOG
from harmonics_emu.emulate.protocol import Finished, Notice, Phase, Progress, decode_event
from harmonics_emu.evidence.recorded_run import RecordedRun, load_recorded_run
from harmonics_emu.live.snapshot import JobView, LinkView, Snapshot, State
from harmonics_emu.live.tail import Tail
from harmonics_emu.ownership import acting_as, invoking_owner
from harmonics_emu.results.schema import UnreadableResult
from harmonics_emu.scenario import Scenario, load_scenario
from harmonics_emu.schedulers.interface import JobPlan
from workloads.job import Job
from workloads.output_files import spans_path
from workloads.spans import SpanReader

RECENT = 60
MOST_JOBS, MOST_LINKS, MOST_NOTICES = 200, 32, 20
SILENT_S = 10.0
"""A run speaks twice a second, every two seconds when it has gone on for long; importing torch takes some."""


@dataclass
class _Watched:
    """One job's iterations so far."""

    job: Job
    readers: list[SpanReader]
    history: History
    taken: int = 0
    sums_s: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    recent_s: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def read(self) -> None:
        for reader in self.readers:
            for _, number, start_s, compute_s, gate_s, end_s in reader.new_rows().tolist():
                self.history.add(number, start_s, compute_s, gate_s, end_s)
                while self.history.whole:
                    self._count(self.history.whole.popleft())

    def _count(self, one: Iteration) -> None:
        self.taken += 1
        for place, value in enumerate((one.end_s - one.start_s, one.compute_s, one.gate_s)):
            self.sums_s[place] += value if value == value else 0.0  # NaN where a program does not report it
        self.recent_s.append(round(one.end_s - one.start_s, 6))


class RunWatch:
    """Looks at one run directory. Not for several threads at once.

    UnreadableResult, from the constructor, where the directory is no run of this program.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._directory, self._clock = directory, clock
        self._owner = invoking_owner()
        with acting_as(self._owner):
            if (directory / "comparison.json").is_file():
                raise UnreadableResult(f"{directory} holds a comparison: name one of the runs in it")
            if not (directory / "scenario.yaml").is_file():
                raise UnreadableResult(f"{directory} holds no run (scenario.yaml is missing)")
            self._scenario: Scenario = load_scenario(directory / "scenario.yaml")
        self._tail = Tail(directory / "logs" / PROGRESS_LOG)
        self._begin()
        self._final: Snapshot | None = None

    def _begin(self) -> None:
        """Know nothing of the run but its scenario."""
        self._phase = ""
        self._progress: Progress | None = None
        self._ended: Finished | None = None
        self._notices: deque[str] = deque(maxlen=MOST_NOTICES)
        self._uses: dict[str, deque[float]] = {}
        self._jobs = [
            _Watched(
                job,
                [SpanReader(spans_path(self._directory, job.name, rank)) for rank in range(job.ranks)],
                History(job.ranks, job.warmup),
            )
            for job in self._scenario.jobs()[:MOST_JOBS]
        ]

    def look(self) -> Snapshot:
        """The run as it stands now."""
        if self._final is not None:
            return self._final
        with acting_as(self._owner):
            # The results are written last: what is missing or unreadable while they are not all there comes next time.
            if (self._directory / "result.json").is_file():
                with suppress(UnreadableResult):
                    self._final = of_results(load_recorded_run(self._directory), self._take(self._tail.new_lines()))
                    self.close()
                    return self._final
            self._take(self._tail.new_lines())
            for watched in self._jobs:
                watched.read()
        return self._as_it_goes_on()

    def close(self) -> None:
        self._tail.close()
        for watched in self._jobs:
            for reader in watched.readers:
                reader.close()

    def _take(self, lines: Iterable[bytes]) -> tuple[str, ...]:
        """Note what the run said; returns the notices so far."""
        for line in lines:
            with suppress(msgspec.MsgspecError):
                event = decode_event.decode(line)
                if isinstance(event, Phase):
                    self._phase = event.text
                elif isinstance(event, Notice):
                    self._notices.append(event.text)
                elif isinstance(event, Finished):
                    self._ended = event
                else:
                    self._progress = event
                    self._note_uses(event)
        return tuple(self._notices)

    def _note_uses(self, progress: Progress) -> None:
        now = dict(progress.links)
        for link in now.keys() - self._uses.keys():
            self._uses[link] = deque(maxlen=RECENT)
        for link, recent in self._uses.items():
            recent.append(round(min(1.0, now.get(link, 0.0)), 4))

    def _state(self, silent_s: float | None) -> State:
        if self._ended is not None and self._ended.error is not None:
            return "failed"
        if silent_s is None or silent_s > SILENT_S:
            return "silent"
        return "running" if self._progress is not None and self._progress.time_s > 0 else "starting"

    def _as_it_goes_on(self) -> Snapshot:
        silent_s = self._tail.age_s(self._clock())
        said = {job.name: job for job in self._progress.jobs} if self._progress is not None else {}
        jobs = []
        for watched in self._jobs:
            told = said.get(watched.job.name)
            jobs.append(
                JobView(
                    name=watched.job.name,
                    state="waiting" if told is None else told.state,
                    done=watched.taken if told is None else max(told.done, watched.taken),
                    total=watched.job.iterations,
                    level=None if told is None else told.level,
                    counted=watched.taken,
                    iteration_sum_s=watched.sums_s[0],
                    compute_sum_s=watched.sums_s[1],
                    gate_sum_s=watched.sums_s[2],
                    recent_s=tuple(watched.recent_s),
                )
            )
        rates = self._scenario.fabric().links
        known = {link: recent for link, recent in self._uses.items() if link in rates}
        busiest = sorted(known, key=lambda link: (-sum(known[link]), link))
        error = None if self._ended is None else self._ended.error
        return Snapshot(
            scenario=self._scenario.name,
            policy=self._scenario.policy,
            engine="emulate",
            seed=self._scenario.seed,
            state=self._state(silent_s),
            phase=self._phase if error is None else error,
            time_s=0.0 if self._progress is None else self._progress.time_s,
            silent_s=silent_s,
            jobs=tuple(jobs),
            links=tuple(
                LinkView(name=link, rate_bps=rates[link].rate_bps, use=known[link][-1], recent=tuple(known[link]))
                for link in busiest[:MOST_LINKS]
            ),
            jobs_left_out=len(self._scenario.jobs()) - len(jobs),
            links_left_out=max(0, len(busiest) - MOST_LINKS),
            notices=tuple(self._notices),
        )


def of_results(recorded: RecordedRun, notices: tuple[str, ...] = ()) -> Snapshot:
    """A finished run of either engine."""
    result = recorded.run.result
    levels = recorded.plans[-1][1].jobs
    jobs = []
    for job in result.jobs[:MOST_JOBS]:
        iterations = recorded.iterations.get(job.name)
        times = None if iterations is None else iterations.times
        jobs.append(
            JobView(
                name=job.name,
                state=job.status,
                done=job.iterations_done,
                total=job.iterations,
                level=levels.get(job.name, JobPlan()).level,
                counted=0 if times is None else len(times.number),
                iteration_sum_s=0.0 if times is None else _sum(times.iteration_s),
                compute_sum_s=0.0 if times is None else _sum(times.compute_s),
                gate_sum_s=0.0 if times is None else _sum(times.gate_s),
                isolated_s=job.isolated_iteration_s,
                slowdown=job.slowdown,
                recent_s=() if times is None else tuple(np.round(times.iteration_s[-RECENT:], 6).tolist()),
            )
        )
    links = _links(recorded)
    failed = any(job.status != "done" for job in result.jobs)
    return Snapshot(
        scenario=result.scenario,
        policy=result.policy,
        engine=result.engine,
        seed=result.seed,
        state="failed" if failed else "finished",
        phase="",
        time_s=max((job.end_s for job in result.jobs), default=0.0),
        jobs=tuple(jobs),
        links=tuple(links[:MOST_LINKS]),
        jobs_left_out=len(result.jobs) - len(jobs),
        links_left_out=max(0, len(links) - MOST_LINKS),
        verdict=result.fidelity.verdict,
        reasons=result.fidelity.reasons,
        notices=notices,
        S=result.cluster.S,
        makespan_s=result.cluster.makespan_s,
    )


def _links(recorded: RecordedRun) -> list[LinkView]:
    """Those that carried something, the busiest first, with their use in RECENT equal parts of the run."""
    found = []
    for name, rows in recorded.run.records.links.items():
        if len(rows) < 2 or name not in recorded.fabric.links or not rows["bytes"][-1]:
            continue
        rate_bps = recorded.fabric.links[name].rate_bps
        edges = np.linspace(max(0.0, rows["time_s"][0]), rows["time_s"][-1], RECENT + 1)
        parts = 8 * np.diff(np.interp(edges, rows["time_s"], rows["bytes"])) / (rate_bps * np.diff(edges))
        recent = np.round(np.clip(parts, 0, 1), 4)
        found.append(
            LinkView(name=name, rate_bps=rate_bps, use=round(float(parts.mean()), 4), recent=tuple(recent.tolist()))
        )
    return sorted(found, key=lambda link: (-link.use, link.name))


def _sum(values: np.ndarray[Any, Any]) -> float:
    return float(np.nansum(values))
