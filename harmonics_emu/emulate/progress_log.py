"""Writes down what a run says as it goes on, for programs that show it from its directory: one JSON event a line."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType

from harmonics_emu.emulate.protocol import Event, Progress, encode_line
from harmonics_emu.ownership import Owner, acting_as

PROGRESS_LOG = "progress.jsonl"
"""In a run directory's logs/."""
DENSE = 7200
"""Lines of progress after which gaps grow with the run: an hour of two a second. A day takes four times as many."""
LONGEST_GAP_S = 2.0


class ProgressLog:
    """Appends events to logs/progress.jsonl of a run directory, of which it makes a new one, as `owner`.

    A disk that is full costs what is shown meanwhile, not the run.
    """

    def __init__(self, directory: Path, owner: Owner | None) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with acting_as(owner):
            self._file = os.open(directory / "logs" / PROGRESS_LOG, flags, 0o644)
        self._last_s = -LONGEST_GAP_S

    def __enter__(self) -> ProgressLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def take(self, event: Event) -> None:
        if isinstance(event, Progress):
            if 0 <= event.time_s - self._last_s < min(LONGEST_GAP_S, event.time_s / DENSE):
                return
            self._last_s = event.time_s
        with contextlib.suppress(OSError):
            os.write(self._file, encode_line(event) + b"\n")
