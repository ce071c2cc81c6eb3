"""A benchmark's measurement in a sandbox of its own: a module that is run there prints what it found as JSON."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.sandbox import python_command, start_sandbox
from harmonics_emu.errors import RunFailed

DEADLINE_S = 120.0


def measure_inside(module: str, *arguments: str) -> Any:
    """What `python -m MODULE ARGUMENTS LOGS` prints as process 1 of a sandbox; LOGS is a directory that it may use.

    RunFailed with the end of what it said if it fails.
    """
    with TemporaryDirectory(prefix="harmonics-") as logs:
        command = python_command(module, *arguments, logs)
        with Logs(Path(logs)).open("bench.log") as log:
            process = start_sandbox(command, log=log, stdin=None)
        answer, _ = process.communicate(timeout=DEADLINE_S)
        if process.returncode != 0 or not answer:
            raise RunFailed(f"{module}: {(Path(logs) / 'bench.log').read_text()[-500:]}")
        return msgspec.json.decode(answer)
