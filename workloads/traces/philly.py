"""Microsoft's Philly log (2017), cluster_job_log: a JSON array of jobs with their attempts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workloads.traces.json_stream import stream_items
from workloads.traces.logged_job import LoggedJob
from workloads.traces.slurm_log import NEVER_RAN, NO_GPU
from workloads.traces.source import Skipped
from workloads.traces.tables import MAX_COUNT, BadRow, Ids, moment


def read_philly(path: Path, skipped: Skipped) -> Iterator[LoggedJob]:
    """The GPU jobs that ran: GPUs of the first attempt, from its start to the last one's end. Bad jobs are skipped.

    TraceError for what is no JSON array.
    """
    ids = Ids()
    for number, (_, item) in enumerate(stream_items(path, None), start=1):
        try:
            job = _job(item)
            ids.require_new(job.id, "jobid")
        except BadRow as why:
            skipped.add(str(why), number)
            continue
        yield job


def _job(item: Any) -> LoggedJob:
    if not isinstance(item, dict) or not isinstance(item.get("jobid"), str):
        raise BadRow("no object with a jobid")
    submit = moment(_text(item.get("submitted_time")), "submitted_time")
    attempts = item.get("attempts")
    if submit is None or not isinstance(attempts, list) or not all(isinstance(a, dict) for a in attempts):
        raise BadRow("no submitted_time or attempts")
    starts = [moment(_text(attempt.get("start_time")), "start_time") for attempt in attempts]
    ends = [moment(_text(attempt.get("end_time")), "end_time") for attempt in attempts]
    if not attempts or starts[0] is None or ends[-1] is None:
        raise BadRow(NEVER_RAN)
    if ends[-1] < starts[0]:
        raise BadRow("end before start")
    if starts[0] < submit:
        raise BadRow("start before submission")
    return LoggedJob(item["jobid"], _gpus(attempts[0]), submit, ends[-1] - starts[0])


def _gpus(attempt: dict[str, Any]) -> int:
    detail = attempt.get("detail")
    if not isinstance(detail, list) or not all(isinstance(m, dict) and isinstance(m.get("gpus"), list) for m in detail):
        raise BadRow("attempt without detail")
    gpus = sum(len(machine["gpus"]) for machine in detail)
    if gpus == 0:
        raise BadRow(NO_GPU)
    if gpus > MAX_COUNT:
        raise BadRow("gpus is no count")
    return gpus


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
