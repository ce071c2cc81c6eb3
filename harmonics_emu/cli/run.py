"""`harmonics-emu run`: one emulated run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harmonics_emu.cli.options import (
    allow_commands_option,
    json_option,
    load,
    out_option,
    policy_option,
    seed_option,
    short_option,
)
from harmonics_emu.cli.output import print_json, print_rich
from harmonics_emu.cli.progress import RunProgress

if TYPE_CHECKING:
    from harmonics_emu.scenario import Scenario


@click.command("run")
@click.argument("scenario", required=False)
@click.option(
    "--job",
    "jobs",
    multiple=True,
    metavar="'[KEY=VALUE.. --] COMMAND'",
    help="Instead of SCENARIO: a job that runs COMMAND on each of its ranks, as 'workers=4 -- python train.py'; may be "
    "given several times, and needs --allow-commands. Keys: name, hosts, workers, placement, start, weight, priority, "
    "warmup.",
)
@click.option(
    "--fabric",
    default="",
    metavar="'KEY=VALUE..'",
    help="With --job: racks and rates; what is not given is racks=2 spines=1 host_rate=200Mbit uplink_rate=100Mbit.",
)
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
@click.option(
    "--live",
    is_flag=True,
    help="On a terminal: show jobs with bands and paces, and how full links are, until the verdict.",
)
@short_option
@json_option("Print result.json instead of a table.")
@click.pass_context
def command(
    ctx: click.Context,
    scenario: str | None,
    jobs: tuple[str, ...],
    fabric: str,
    policy: str | None,
    out: Path | None,
    seed: int | None,
    allow_commands: bool,
    captures: tuple[str, ...],
    live: bool,
    short: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO (a file or a built-in name), or the commands of --job, on the emulator. Needs root.

    Exit status: 0 done, 1 a job failed, 2 wrong usage or scenario, 3 the run is not faithful.
    """
    from harmonics_emu.results.schema import to_json
    from harmonics_emu.results.tables import run_table
    from harmonics_emu.runs import carry_out

    loaded = _load(scenario, jobs, fabric, short)
    if captures:
        loaded = loaded.with_captures(captures)
    with RunProgress(quiet=as_json, detailed=live) as progress:
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


def _load(scenario: str | None, jobs: tuple[str, ...], fabric: str, short: bool) -> Scenario:
    if scenario is not None and jobs:
        raise click.UsageError("give a SCENARIO or --job, not both")
    if scenario is not None and fabric:
        raise click.UsageError("--fabric goes with --job; a SCENARIO has its own")
    if jobs:
        from harmonics_emu.scenario.written_jobs import write_scenario

        written = write_scenario(jobs, fabric)
        return written.short() if short else written
    if scenario is None:
        raise click.UsageError("name a SCENARIO, or give a --job")
    return load(scenario, short=short)
