"""`harmonics-emu schema`: the scenario file's JSON schema."""

from __future__ import annotations

import click

from harmonics_emu.cli.output import print_json


@click.command("schema")
def command() -> None:
    """Print the JSON schema of scenario files, for editors that complete and check while you type."""
    from harmonics_emu.scenario.schema import json_schema

    print_json(json_schema())
