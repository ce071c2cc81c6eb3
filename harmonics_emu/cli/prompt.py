"""`harmonics-emu prompt`: Mininet's prompt on a fabric."""

from __future__ import annotations

import click

from harmonics_emu.errors import UsageError


@click.command("prompt")
@click.argument("scenario", required=False)
@click.option(
    "--fabric", "fabric_json", metavar="JSON", help="A scenario file's `fabric` section, instead of SCENARIO."
)
@click.pass_context
def command(ctx: click.Context, scenario: str | None, fabric_json: str | None) -> None:
    """Open Mininet's prompt on the fabric of SCENARIO, shaped and routed by the controller. Needs root.

    Hosts reach each other at their base addresses; jobs of the scenario are not started, but have their addresses.
    """
    from harmonics_emu.emulate.prompt import open_prompt

    if (scenario is None) == (fabric_json is None):
        raise UsageError("name either a SCENARIO or a --fabric")
    ctx.exit(open_prompt(scenario, fabric_json))
