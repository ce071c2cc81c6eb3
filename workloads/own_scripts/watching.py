"""Has a user's script looked at: lays out the files for that, and says what to add to its environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import workloads
from workloads.output_files import spans_path
from workloads.own_scripts.script_watch import PAGE, RANK, SPANS

SOURCES = Path(workloads.__file__).resolve().parent
LIBRARY = (
    "__init__.py",
    "job_page.py",
    "span_writer.py",
    "timer.py",
    "own_scripts/__init__.py",
    "own_scripts/script_watch.py",
)
"""All that a watched script imports of `workloads`."""


def lay_out(folder: Path) -> None:
    """Make a folder that users can read, for PYTHONPATH to lead to: they may be unable to read this program's own."""
    for name in LIBRARY:
        target = folder / "library" / "workloads" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOURCES / name, target)
    shutil.copyfile(SOURCES / "own_scripts" / "sitecustomize.py", folder / "sitecustomize.py")


def watched(
    environment: Mapping[str, str], folder: Path, page: Path, output_dir: Path, job: str, rank: int
) -> dict[str, str]:
    """The environment of one rank of a command, with what has it watched. folder: made by `lay_out`."""
    search = [str(folder), *filter(None, [environment.get("PYTHONPATH")])]
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join(search),
        PAGE: str(page),
        RANK: str(rank),
        SPANS: str(spans_path(output_dir, job, rank)),
    }
