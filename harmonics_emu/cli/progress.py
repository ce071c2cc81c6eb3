"""Shows a run while it goes on: live bars on a terminal, a plain line now and then elsewhere. Always on stderr."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harmonics_emu.emulate.protocol import JobProgress, Notice, Phase, Progress
from harmonics_emu.live.terminal import RunView

MOST_LINKS = 4
PLAIN_S = 10.0
"""Between progress lines where the output is no terminal."""


class RunProgress:
    """A context in which events of runs are shown. `label` says which run they belong to.

    detailed: with bands, paces and link bars, where the output is a terminal.
    """

    def __init__(self, *, quiet: bool = False, detailed: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._live: Live | None = None
        self._label = ""
        self._phase = ""
        self._last_line = 0.0
        self._detailed = detailed
        self._view = RunView("")

    def __enter__(self) -> RunProgress:
        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self, label: str) -> None:
        """What follows belongs to the run `label`."""
        self._label, self._phase = label, ""
        self._view = RunView(label)
        if self._live is None:
            self._console.print(label, markup=False, highlight=False)

    def show(self, event: Any) -> None:
        self._view.take(event)
        if isinstance(event, Notice):
            self._console.print(Text(f"  {event.text}", style="yellow"))
        elif isinstance(event, Phase):
            self._phase = event.text
            if self._live is not None:
                self._live.update(Text.assemble((self._label, "bold"), f"  {event.text}"))
            else:
                self._console.print(f"  {event.text}", markup=False, highlight=False)
        elif isinstance(event, Progress):
            self._show_progress(event)

    def _show_progress(self, progress: Progress) -> None:
        if self._live is not None:
            detailed = self._detailed
            self._live.update(self._view.picture(self._console.height) if detailed else self._picture(progress))
        elif time.monotonic() - self._last_line >= PLAIN_S:
            self._last_line = time.monotonic()
            jobs = ", ".join(f"{job.name} {_count(job)}" for job in progress.jobs)
            self._console.print(f"  {progress.time_s:5.0f} s  {jobs}", markup=False, highlight=False)

    def _picture(self, progress: Progress) -> Group:
        table = Table.grid(padding=(0, 1))
        for job in progress.jobs:
            bar = ProgressBar(total=max(job.total, 1), completed=job.done, width=30)
            table.add_row(Text(job.name[:24]), bar, Text(_count(job), justify="right"), Text(job.state))
        links = "   ".join(f"{link} {use:.0%}" for link, use in progress.links[:MOST_LINKS] if use >= 0.01)
        head = Text.assemble((self._label, "bold"), f"  {self._phase}, {progress.time_s:.0f} s")
        return Group(head, table, Text(f"busiest links: {links or 'none'}", style="dim"))


def _count(job: JobProgress) -> str:
    """Iterations done, of how many where that is known: a command may do more than its scenario says."""
    return f"{job.done}/{job.total}" if job.done <= job.total else str(job.done)
