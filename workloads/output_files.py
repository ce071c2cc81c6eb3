"""Names of the files that ranks leave in their run's directory, safe for any job name."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_READABLE = 40


def safe_name(job: str) -> str:
    """`job` itself if it can be a file name anywhere, else its readable part with a hash that keeps it unique."""
    if len(job) <= _READABLE and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", job):
        return job
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", job)[:_READABLE]
    return f"{readable}-{hashlib.blake2b(job.encode(errors='surrogatepass'), digest_size=6).hexdigest()}"


def log_path(directory: Path, job: str, rank: int) -> Path:
    """What the rank printed."""
    return directory / "logs" / f"{safe_name(job)}.rank{rank}.log"


def spans_path(directory: Path, job: str, rank: int) -> Path:
    """The rank's iterations; see workloads.spans."""
    return directory / "spans" / f"{safe_name(job)}.rank{rank}.spans"


def timer_path(directory: Path, job: str, rank: int) -> Path:
    """How late the rank's sleeps woke, JSON; see workloads.timer. Written at the end of a rank that finished."""
    return directory / "spans" / f"{safe_name(job)}.rank{rank}.timer.json"


def sweep_path(directory: Path, job: str) -> Path:
    """The table of an all-reduce sweep, JSON; see workloads.programs.allreduce."""
    return directory / f"{safe_name(job)}.allreduce.json"


def rendezvous_path(directory: Path, job: str) -> Path:
    """The file store in which the ranks of a built-in program find each other; gone when the job has ended."""
    return directory / f".{safe_name(job)}.rendezvous"
