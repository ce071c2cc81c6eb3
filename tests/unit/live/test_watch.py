"""A run's directory is followed as it grows, and nothing put into it can lead the reader astray."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from harmonics_emu.emulate.progress_log import LONGEST_GAP_S, ProgressLog
from harmonics_emu.emulate.protocol import Finished, Progress
from harmonics_emu.live.tail import Tail
from harmonics_emu.live.watch import RECENT, SILENT_S, RunWatch
from harmonics_emu.results.schema import UnreadableResult
from harmonics_emu.runs import run
from tests.unit.live.runs import GoingOn


def test_a_run_is_followed_from_its_first_word_to_its_results(tmp_path: Path) -> None:
    going = GoingOn(tmp_path / "run")
    watch = RunWatch(going.directory)
    first, *_ = going.jobs
    shown = watch.look()
    assert (shown.state, shown.phase, shown.jobs[0].done, shown.jobs[0].total) == (
        "starting",
        "running",
        0,
        first.iterations,
    )
    going.tell(0.5, use=0.25)
    for number in range(3):
        going.iteration(first.name, number, number * 0.2, number * 0.2 + 0.2)
    shown = watch.look()
    assert (shown.state, shown.time_s, shown.jobs[0].done, shown.jobs[0].level) == ("running", 0.5, 3, 3)
    assert shown.jobs[0].recent_s == pytest.approx((0.2, 0.2, 0.2))
    assert (shown.jobs[0].iteration_sum_s, shown.jobs[0].compute_sum_s) == pytest.approx((0.6, 0.3))
    assert shown.jobs[0].gate_sum_s == pytest.approx(0.06)
    assert (shown.jobs[1].counted, shown.jobs[1].recent_s) == (0, ())
    assert [(link.name, link.use) for link in shown.links] == [("leaf0>spine0", 0.25)]
    going.tell(1.0, use=0.75, done=5)
    going.notice("a link went down")
    shown = watch.look()
    assert (shown.jobs[0].done, shown.links[0].recent, shown.notices) == (5, (0.25, 0.75), ("a link went down",))
    going.log.take(Finished(1, "the run fell silent"))
    assert (watch.look().state, watch.look().phase) == ("failed", "the run fell silent")


def test_more_iterations_than_are_kept_are_all_counted(tmp_path: Path) -> None:
    going = GoingOn(tmp_path / "run")
    name = going.jobs[0].name
    for number in range(1500):
        going.iteration(name, number, number * 0.1, number * 0.1 + 0.1)
    job = RunWatch(going.directory).look().jobs[0]
    assert (job.counted, len(job.recent_s)) == (1500, RECENT)
    assert job.iteration_sum_s == pytest.approx(150.0)


def test_a_run_that_was_killed_is_silent(tmp_path: Path) -> None:
    going = GoingOn(tmp_path / "run")
    going.tell(1.0)
    now = os.stat(going.directory / "logs" / "progress.jsonl").st_mtime
    assert RunWatch(going.directory, lambda: now + SILENT_S - 1).look().state == "running"
    shown = RunWatch(going.directory, lambda: now + SILENT_S + 1).look()
    assert (shown.state, shown.silent_s) == ("silent", pytest.approx(SILENT_S + 1))


def test_a_finished_run_is_shown_from_its_results(tmp_path: Path) -> None:
    result = run("two-tenants", policy="priority", out=tmp_path / "run")
    shown = RunWatch(tmp_path / "run").look()
    assert (shown.state, shown.verdict, shown.S, shown.engine) == ("finished", "faithful", result.cluster.S, "simulate")
    for job, known in zip(shown.jobs, result.jobs, strict=True):
        assert (job.name, job.done, job.isolated_s) == (known.name, known.iterations_done, known.isolated_iteration_s)
        assert known.iteration_s is not None
        assert job.iteration_sum_s / job.counted == pytest.approx(known.iteration_s.mean, rel=0.05)


def test_results_take_over_once_they_are_whole(tmp_path: Path) -> None:
    run("two-tenants", out=tmp_path / "done")
    going = GoingOn(tmp_path / "run")
    watch = RunWatch(going.directory)
    going.tell(1.0)
    for name in ("result.json", "iterations.csv", "links.csv", "decisions.jsonl", "rules.jsonl"):
        assert watch.look().verdict is None
        (going.directory / name).write_bytes((tmp_path / "done" / name).read_bytes())
    (going.directory / "manifest.json").write_bytes((tmp_path / "done" / "manifest.json").read_bytes())
    assert watch.look().verdict == "faithful"


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableResult, match="holds no run"):
        RunWatch(tmp_path)
    (tmp_path / "comparison.json").write_text("{}")
    with pytest.raises(UnreadableResult, match="name one of the runs in it"):
        RunWatch(tmp_path)


def test_nonsense_in_the_log_is_passed_over(tmp_path: Path) -> None:
    going = GoingOn(tmp_path / "run")
    with (going.directory / "logs" / "progress.jsonl").open("ab") as log:
        log.write(b'not json\n\xff\xfe\n[1]\n{"type":"Progress","time_s":"soon"}\n' + b"x" * 100_000 + b"\n")
        log.write(b'{"type":"Progress","time_s":2.0,"jobs":[],"links":[["no such link",0.5]]}\n')
    shown = RunWatch(going.directory).look()
    assert (shown.time_s, shown.links) == (2.0, ())


def test_a_tail_reads_each_whole_line_once_and_begins_anew_with_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    assert (tail.new_lines(), tail.age_s(0.0)) == ([], None)
    path.write_bytes(b"one\ntw")
    assert tail.new_lines() == [b"one"]
    with path.open("ab") as log:
        log.write(b"o\nthree\n")
    assert tail.new_lines() == [b"two", b"three"]
    assert tail.new_lines() == []
    path.write_bytes(b"new\n")
    assert tail.new_lines() == [b"new"]
    path.unlink()
    path.write_bytes(b"another\n")
    assert tail.new_lines() == [b"another"]
    tail.close()


def test_a_tail_follows_no_link_and_waits_for_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root's\n")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    assert Tail(tmp_path / "link").new_lines() == []
    assert Tail(tmp_path / "pipe").new_lines() == []


def test_the_log_of_a_long_run_grows_ever_slower(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with ProgressLog(tmp_path, None) as log:
        for tick in range(2 * 24 * 3600):
            log.take(Progress(tick / 2, (), ()))
    lines = (tmp_path / "logs" / "progress.jsonl").read_text().splitlines()
    times = [float(line.split('"time_s":')[1].split(",")[0]) for line in lines]
    assert len(lines) < 60_000
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert max(gaps) <= LONGEST_GAP_S + 0.5
    assert set(gaps[:3600]) == {0.5}
