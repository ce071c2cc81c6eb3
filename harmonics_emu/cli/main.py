"""`harmonics-emu`: the group that finds a command's module when it is called."""

from __future__ import annotations

import pkgutil
import signal
from collections.abc import Collection
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

import click

import harmonics_emu
from harmonics_emu import cli
from harmonics_emu.errors import HarmonicsError, Terminated

HELPERS = {"files", "main", "options", "output", "progress"}


class CommandFiles(click.Group):
    """Each module of a package is one command, held in its `command`; a module's import is put off until used.

    helpers: modules of the package that are no commands.
    """

    def __init__(self, *args: Any, package: ModuleType, helpers: Collection[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._package, self._helpers = package, helpers

    def list_commands(self, ctx: click.Context) -> list[str]:
        modules = pkgutil.iter_modules(self._package.__path__)
        return sorted(module.name for module in modules if module.name not in self._helpers)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{self._package.__name__}.{name}").command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except HarmonicsError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


@click.group(cls=CommandFiles, package=cli, helpers=HELPERS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(harmonics_emu.__version__, prog_name="harmonics-emu")
def main() -> None:
    """See how training jobs that share a network get in each other's way, and what schedulers do about it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)


if __name__ == "__main__":
    main()
