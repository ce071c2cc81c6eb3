"""Job logs of SenseTime's Helios (2020) and Shanghai AI Lab's Acme (2023) clusters, which share these columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workloads.traces.logged_job import LoggedJob
from workloads.traces.source import Skipped
from workloads.traces.tables import MAX_SECONDS, BadRow, Ids, count, moment, read_table

COLUMNS = ("job_id", "gpu_num", "submit_time", "start_time", "end_time")
NO_GPU = "no GPU job"
NEVER_RAN = "never ran"


def read_slurm_log(path: Path, skipped: Skipped) -> Iterator[LoggedJob]:
    """The GPU jobs that ran, whatever became of them. TraceError and skipped rows as in tables.read_table.

    The logs hold CPU jobs and jobs that never ran too; these are no mistakes, but are counted with the skipped rows.
    """
    ids = Ids()

    def parse(row: list[str]) -> LoggedJob:
        name, gpu_text, submit_text, start_text, end_text = row
        gpus = count(gpu_text, "gpu_num")
        if gpus == 0:
            raise BadRow(NO_GPU)
        submit = moment(submit_text, "submit_time")
        if submit is None:
            raise BadRow("no submit_time")
        start, end = moment(start_text, "start_time"), moment(end_text, "end_time")
        if start is None or end is None:
            raise BadRow(NEVER_RAN)
        if end < start:
            raise BadRow("end before start")
        if start < submit:
            raise BadRow("start before submission")
        if end - start > MAX_SECONDS:
            raise BadRow("duration is too large")
        ids.require_new(name, "job_id")
        return LoggedJob(name, gpus, submit, end - start)

    return read_table(path, COLUMNS, skipped, parse)
