"""Picks a log's first jobs that fit, going through it once with memory for those alone."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from workloads.traces.logged_job import LoggedJob


@dataclass
class Selection:
    """jobs: in order of submission. read: usable jobs of the log. too_large: those that need more GPUs than exist."""

    jobs: list[LoggedJob]
    read: int = 0
    too_large: int = 0


def select_jobs(logged: Iterable[LoggedJob], most: int, gpus: int) -> Selection:
    """The `most` jobs of at most `gpus` GPUs that were submitted first."""
    selection = Selection([])

    def fitting() -> Iterator[LoggedJob]:
        for job in logged:
            selection.read += 1
            if job.gpus <= gpus:
                yield job
            else:
                selection.too_large += 1

    selection.jobs = heapq.nsmallest(most, fitting(), key=lambda job: job.submit_s)
    return selection


def at_once(jobs: Iterable[LoggedJob], gpus: int) -> list[LoggedJob]:
    """The first of these jobs, as many as can hold GPUs of their own at the same time."""
    found: list[LoggedJob] = []
    for job in jobs:
        if job.gpus <= gpus:
            found.append(job)
            gpus -= job.gpus
    return found
