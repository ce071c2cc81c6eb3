"""A run as it goes on, drawn for a terminal: jobs with their bands and paces, and how full the busiest links are."""

from __future__ import annotations

from collections import deque

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harmonics_emu.emulate.protocol import Event, JobProgress, Phase, Progress
from harmonics_emu.results.tables import NOTHING, seconds

BAR_WIDTH = 24
NAME_WIDTH = 22
PACE_OVER = 10
"""Progress events, half a second apart, over which the pace of an iteration is taken."""
FULL, BUSY = 0.85, 0.5
STATE_STYLES = {"running": "green", "failed": "bold red", "killed": "red", "waiting": "dim"}


class RunView:
    """Takes a run's events and draws what they come to. `label` says which run it is."""

    def __init__(self, label: str) -> None:
        self._label, self._phase = label, ""
        self._seen: deque[Progress] = deque(maxlen=PACE_OVER)

    def take(self, event: Event) -> None:
        if isinstance(event, Phase):
            self._phase = event.text
        elif isinstance(event, Progress):
            self._seen.append(event)

    def picture(self, height: int) -> RenderableType:
        """At most `height` lines: links go first where there is no room for all, then jobs."""
        head = Text.assemble((self._label, "bold"), f"  {self._phase}", no_wrap=True, overflow="ellipsis")
        if not self._seen:
            return head
        now = self._seen[-1]
        head.append(f", {now.time_s:.0f} s")
        # The head, one line of headings a table, and one that says what was left out of it.
        room = max(2, height - 6)
        jobs = min(len(now.jobs), max(room - 3, room // 2))
        links = [(link, use) for link, use in now.links if use >= 0.005]
        shown_links = min(len(links), max(0, room - jobs))
        parts: list[RenderableType] = [head, self._jobs(now.jobs[:jobs])]
        if jobs < len(now.jobs):
            parts.append(Text(f"  and {len(now.jobs) - jobs} more jobs", style="dim"))
        if shown_links:
            parts.append(_links(links[:shown_links]))
        if shown_links < len(links):
            parts.append(Text(f"  and {len(links) - shown_links} links that carry less", style="dim"))
        return Group(*parts)

    def _jobs(self, jobs: tuple[JobProgress, ...]) -> Table:
        table = _table(("job", "left"), ("band", "right"), ("iterations", "left"), ("", "right"), ("each", "right"))
        table.add_column("", style="dim")
        for job in jobs:
            table.add_row(
                Text(job.name[:NAME_WIDTH]),
                NOTHING if job.level is None else str(job.level),
                ProgressBar(total=max(job.total, 1), completed=job.done, width=BAR_WIDTH),
                f"{job.done}/{job.total}",
                seconds([self.pace_s(job.name)])[0],
                Text(job.state, style=STATE_STYLES.get(job.state, "")),
            )
        return table

    def pace_s(self, name: str) -> float | None:
        """Seconds an iteration of a job over the latest events, None where none was finished."""
        done = [(event.time_s, job.done) for event in self._seen for job in event.jobs if job.name == name]
        if len(done) < 2 or done[-1][1] == done[0][1]:
            return None
        return (done[-1][0] - done[0][0]) / (done[-1][1] - done[0][1])


def _links(links: list[tuple[str, float]]) -> Table:
    table = _table(("link", "left"), ("use", "left"), ("", "right"))
    for link, use in links:
        style = "red" if use >= FULL else "yellow" if use >= BUSY else "green"
        bar = ProgressBar(total=1.0, completed=min(1.0, use), width=BAR_WIDTH, complete_style=style)
        table.add_row(Text(link[:NAME_WIDTH]), bar, f"{use:.0%}")
    return table


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    for header, justify in columns:
        table.add_column(header, justify="right" if justify == "right" else "left", no_wrap=True)
    return table
