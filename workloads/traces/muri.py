"""The trace of Muri's testbed (SIGCOMM 2022): jobs with iterations and the stages of one. Times in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workloads.traces.logged_job import LoggedJob
from workloads.traces.source import Skipped
from workloads.traces.tables import BadRow, Ids, count, read_table, seconds

COLUMNS = (
    "job_id",
    "num_gpu",
    "submit_time",
    "iterations",
    "model_name",
    "duration",
    "iteration_time",
    "resource_time_2",
)
"""resource_time_2 is the network stage: 0 and 1 are input and GPU."""
_MS = 1e-3


def read_muri(path: Path, skipped: Skipped) -> Iterator[LoggedJob]:
    """The jobs in the order of the file. TraceError and skipped rows as in tables.read_table."""
    ids = Ids()

    def parse(row: list[str]) -> LoggedJob:
        name, gpus, submit, iterations, model, duration, iteration, network = row
        job = LoggedJob(
            id=name,
            gpus=count(gpus, "num_gpu"),
            submit_s=seconds(submit, "submit_time", _MS),
            duration_s=seconds(duration, "duration", _MS),
            model=model,
            iterations=int(seconds(iterations, "iterations")),
            iteration_s=seconds(iteration, "iteration_time", _MS),
            network_s=seconds(network, "resource_time_2", _MS),
        )
        if job.gpus == 0 or not job.iterations or not job.iteration_s:
            raise BadRow("no GPUs, iterations or iteration time")
        if job.network_s is not None and job.network_s >= job.iteration_s:
            raise BadRow("network stage longer than the iteration")
        ids.require_new(name, "job_id")
        return job

    return read_table(path, COLUMNS, skipped, parse)
