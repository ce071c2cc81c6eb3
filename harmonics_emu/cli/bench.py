"""`harmonics-emu bench`: the project's own figures, one file a benchmark in harmonics_emu.bench."""

from __future__ import annotations

import click

from harmonics_emu import bench
from harmonics_emu.cli.main import CommandFiles

HELPERS = {"beside_simgrid", "cluster", "entangled", "sandboxed", "simgrid_program", "synthetic_capture"}


@click.group("bench", cls=CommandFiles, package=bench, helpers=HELPERS)
def command() -> None:
    """Measure what this program itself takes, on this machine."""
