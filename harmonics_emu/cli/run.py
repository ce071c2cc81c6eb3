"""`harmonics-emu run`: one emulated run."""

from __future__ import annotations

from pathlib import Path

import click

from harmonics_emu.cli.options import (
    allow_commands_option,
    json_option,
    load,
    out_option,
    policy_option,
    scenario_argument,
    seed_option,
    short_option,
)
from harmonics_emu.cli.output import print_json, print_rich
from harmonics_emu.cli.progress import RunProgress


@click.command("run")
@scenario_argument
@policy_option
@out_option("Run directory; default: a new one in runs/.")
@seed_option
@allow_commands_option
@click.option(
    "--capture",
    "captures",
    multiple=True,
    metavar="LINK|all",
    help="Record the packets of this link, instead of those that the scenario names; may be given several times.",
)
@short_option
@json_option("Print result.json instead of a table.")
@click.pass_context
def command(
    ctx: click.Context,
    scenario: str,
    policy: str | None,
    out: Path | None,
    seed: int | None,
    allow_commands: bool,
    captures: tuple[str, ...],
    short: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO (a file or a built-in name) on the emulator. Needs root.

    Exit status: 0 done, 1 a job failed, 2 wrong usage or scenario, 3 the run is not faithful.
    """
    from harmonics_emu.results.schema import to_json
    from harmonics_emu.results.tables import run_table
    from harmonics_emu.runs import carry_out

    loaded = load(scenario, short=short)
    if captures:
        loaded = loaded.with_captures(captures)
    with RunProgress(quiet=as_json) as progress:
        progress.begin(f"{loaded.name}, {policy or loaded.policy}")
        finished = carry_out(
            loaded,
            policy=policy,
            engine="emulate",
            out=out,
            seed=seed,
            allow_commands=allow_commands,
            on_event=progress.show,
        )
    if as_json:
        print_json(to_json(finished.result))
    else:
        print_rich(run_table(finished.result))
        click.echo(f"Run directory: {finished.directory}")
    ctx.exit(finished.exit_code)
