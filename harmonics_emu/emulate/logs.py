"""Where the programs of a run write what they have to say: files of the user's, opened with the user's rights only.

The folder is the user's, who may put a link in a file's place while the run goes on. The kernel then checks it against
the user's rights, not root's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harmonics_emu.ownership import Owner, acting_as


@dataclass(frozen=True)
class Logs:
    """A folder of log files that belong to `owner` (None: to whoever runs this)."""

    directory: Path
    owner: Owner | None = None

    def open(self, name: str) -> BinaryIO:
        """A log file to append to; made if it is not there, never reached through a link."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with acting_as(self.owner):
            return open(os.open(self.directory / name, flags, 0o644), "ab")
