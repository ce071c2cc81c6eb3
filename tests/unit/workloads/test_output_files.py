"""File names made of job names."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from workloads.output_files import log_path, safe_name


def test_plain_names_stay_as_they_are() -> None:
    assert log_path(Path("run"), "vision", 3) == Path("run/logs/vision.rank3.log")


@given(st.text())
def test_any_name_becomes_one_short_path_component(job: str) -> None:
    name = safe_name(job)
    assert 0 < len(name.encode()) <= 64
    assert "/" not in name
    assert not name.startswith(".")


@given(st.lists(st.text(max_size=60), unique=True, max_size=20))
def test_different_jobs_have_different_files(jobs: list[str]) -> None:
    assert len({safe_name(job) for job in jobs}) == len(jobs)
