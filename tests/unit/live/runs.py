"""Run directories as they look while a run goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harmonics_emu.emulate.progress_log import ProgressLog
from harmonics_emu.emulate.protocol import JobProgress, Notice, Phase, Progress
from harmonics_emu.scenario import Scenario, load_scenario
from workloads.output_files import spans_path
from workloads.spans import SpanWriter


class GoingOn:
    """A run of the built-in two-tenants that writes what a test tells it to."""

    def __init__(self, directory: Path, scenario: Scenario | None = None) -> None:
        self.directory = directory
        self.scenario = load_scenario("two-tenants") if scenario is None else scenario
        self.jobs = self.scenario.jobs()
        directory.mkdir()
        (directory / "scenario.yaml").write_text(self.scenario.resolved_yaml())
        (directory / "logs").mkdir()
        self.log = ProgressLog(directory, None)
        self._spans = {
            job.name: [SpanWriter(spans_path(directory, job.name, rank), rank) for rank in range(job.ranks)]
            for job in self.jobs
        }
        self.log.take(Phase("running"))

    def iteration(self, job: str, number: int, start_s: float, end_s: float) -> None:
        """All ranks of a job finish an iteration of which half is compute and a tenth a wait at the gate."""
        for writer in self._spans[job]:
            length_s = end_s - start_s
            writer.add(number, start_s, length_s / 2, length_s / 10, end_s)

    def tell(self, time_s: float, use: float = 0.5, done: int = 0) -> None:
        jobs = tuple(JobProgress(job.name, done, job.iterations, "running", 3) for job in self.jobs)
        self.log.take(Progress(time_s, jobs, (("leaf0>spine0", use),)))

    def notice(self, text: str) -> None:
        self.log.take(Notice(text))


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
