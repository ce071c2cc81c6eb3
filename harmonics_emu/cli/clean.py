"""`harmonics-emu clean`: what the caller's own runs may have left."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import click


@click.command("clean")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default="runs")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def command(directory: Path, dry_run: bool) -> None:
    """End sandboxes whose supervisor is gone, and remove unfinished run directories below DIRECTORY (default: runs).

    Only what the caller's own runs left is touched: sandboxes are known by a mark in their environment, directories
    by their manifest. Finished runs stay.
    """
    from harmonics_emu.emulate.sandbox import orphaned_sandboxes
    from harmonics_emu.ownership import acting_as, invoking_owner
    from harmonics_emu.results.run_directory import unfinished_runs

    owner = invoking_owner()
    orphans = orphaned_sandboxes(os.getuid() if owner is None else owner[0])
    for pid in orphans:
        click.echo(f"{'would end' if dry_run else 'ending'} process {pid} of a sandbox whose supervisor is gone")
        if not dry_run:
            os.kill(pid, signal.SIGKILL)
    with acting_as(owner):
        unfinished = unfinished_runs(directory)
        for path in unfinished:
            click.echo(f"{'would remove' if dry_run else 'removing'} the unfinished run {path}")
            if not dry_run:
                shutil.rmtree(path)
    if not orphans and not unfinished:
        click.echo("nothing to clean")
