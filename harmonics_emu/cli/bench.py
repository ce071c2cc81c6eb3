"""`harmonics-emu bench`: the project's own figures, one file a benchmark in harmonics_emu.bench."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import click

from harmonics_emu import bench

HELPERS = {"cluster"}


class BenchmarkFiles(click.Group):
    """Each module of harmonics_emu.bench is one benchmark, held in its `command`, but for helpers."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name not in HELPERS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        found: click.Command = import_module(f"harmonics_emu.bench.{name}").command
        return found


@click.group("bench", cls=BenchmarkFiles)
def command() -> None:
    """Measure what this program itself takes, on this machine."""
