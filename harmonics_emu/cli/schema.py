"""`harmonics-emu schema`: what a scenario file may hold."""

from __future__ import annotations

import click

from harmonics_emu.cli.output import print_json


@click.command("schema")
@click.option("--markdown", is_flag=True, help="Print it as a page for people instead.")
def command(markdown: bool) -> None:
    """Print the JSON schema of scenario files, for editors that complete and check while you type."""
    from harmonics_emu.scenario.reference import reference_markdown
    from harmonics_emu.scenario.schema import json_schema

    if markdown:
        click.echo(reference_markdown(), nl=False)
    else:
        print_json(json_schema())
