"""`harmonics-emu simulate`: one run on the fluid engine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from harmonics_emu.cli.options import (
    json_option,
    load,
    out_option,
    policy_option,
    scenario_argument,
    seed_option,
    short_option,
)
from harmonics_emu.cli.output import print_json, print_rich


@click.command("simulate")
@scenario_argument
@policy_option
@out_option("Run directory; default: none is written.")
@seed_option
@short_option
@json_option("Print result.json instead of a table.")
@click.pass_context
def command(
    ctx: click.Context,
    scenario: str,
    policy: str | None,
    out: Path | None,
    seed: int | None,
    short: bool,
    as_json: bool,
) -> None:
    """Simulate SCENARIO (a file or a built-in name) on the fluid engine. Needs no root and no Linux.

    Exit status: 0 done, 1 a job failed, 2 wrong usage or scenario.
    """
    from harmonics_emu.errors import RunFailed
    from harmonics_emu.results.schema import to_json
    from harmonics_emu.results.tables import run_table
    from harmonics_emu.runs import carry_out
    from harmonics_emu.simulate.kernel.jit import say_if_compiling

    loaded = load(scenario, short=short)
    say_if_compiling(partial(click.echo, err=True))
    finished = carry_out(loaded, policy=policy, engine="simulate", out=out, seed=seed)
    if as_json:
        print_json(to_json(finished.result))
    else:
        print_rich(run_table(finished.result))
        if finished.directory is not None:
            click.echo(f"Run directory: {finished.directory}")
    failed = any(job.status != "done" for job in finished.result.jobs)
    ctx.exit(RunFailed.exit_code if failed else finished.exit_code)
