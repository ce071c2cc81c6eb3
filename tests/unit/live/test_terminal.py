"""The picture of a run in a terminal: what it shows, that it fits, and what is shown where there is no terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harmonics_emu.cli.progress import RunProgress
from harmonics_emu.emulate.protocol import JobProgress, Notice, Phase, Progress
from harmonics_emu.live.terminal import RunView

LINKS = tuple((f"leaf{number}>spine0", 1 - number / 20) for number in range(20))


def job(name: str, done: int) -> JobProgress:
    return JobProgress(name, done, 100, "running", 3)


def drawn(view: RunView, height: int, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(view.picture(height))
    return console.file.getvalue().rstrip("\n").split("\n")


def test_jobs_bands_paces_and_links_are_drawn() -> None:
    view = RunView("two-tenants, crux")
    assert [line.rstrip() for line in drawn(view, 24)] == ["two-tenants, crux"]
    view.take(Phase("running"))
    view.take(Progress(1.0, (job("vision", 4), job("text", 0)), LINKS))
    view.take(Progress(2.0, (job("vision", 12), job("text", 0)), LINKS))
    lines = drawn(view, 24)
    assert lines[0].split() == ["two-tenants,", "crux", "running,", "2", "s"]
    (vision,) = (line for line in lines if "vision" in line)
    assert vision.split()[:2] == ["vision", "3"]
    assert vision.split()[-4:] == ["12/100", "125", "ms", "running"]
    assert view.pace_s("vision") == pytest.approx(0.125)
    assert view.pace_s("text") is None
    (link,) = (line for line in lines if "leaf1>spine0" in line)
    assert link.split()[-1] == "95%"


@pytest.mark.parametrize("height", [10, 16, 24, 60])
@pytest.mark.parametrize("jobs", [1, 8, 40])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_it_fits_and_says_what_is_left_out(height: int, jobs: int, width: int) -> None:
    view = RunView("x" * 300)
    view.take(Progress(1.0, tuple(job(f"[red]{number}" + "y" * 90, 3) for number in range(jobs)), LINKS))
    lines = drawn(view, height, width)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    shown = sum("[red]" in line for line in lines)
    assert shown > 0
    assert (shown == jobs) != any(f"and {jobs - shown} more jobs" in line for line in lines)


def test_without_a_terminal_there_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress(detailed=True) as progress:
        progress.begin("two-tenants, fair")
        progress.show(Phase("running"))
        progress.show(Progress(1.0, (job("vision", 4),), LINKS))
        progress.show(Notice("leaf0-spine0 down at 3.0 s"))
    assert capsys.readouterr().err.splitlines() == [
        "two-tenants, fair",
        "  running",
        "      1 s  vision 4/100",
        "  leaf0-spine0 down at 3.0 s",
    ]


def test_on_a_terminal_the_picture_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    output = io.StringIO()
    with RunProgress(detailed=True) as progress:
        progress._console.file = output
        progress.begin("two-tenants, fair")
        progress.show(Progress(1.0, (job("vision", 4),), LINKS))
        assert progress._live is not None
        progress._live.refresh()
    assert "vision" in output.getvalue()
    assert "leaf0>spine0" in output.getvalue()
