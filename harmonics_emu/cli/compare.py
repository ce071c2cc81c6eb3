"""`harmonics-emu compare`: policies side by side."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from harmonics_emu.cli.options import allow_commands_option, json_option, load, out_option, short_option
from harmonics_emu.cli.output import print_json, print_rich
from harmonics_emu.cli.progress import RunProgress
from harmonics_emu.errors import UsageError


@click.command("compare")
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...")
@click.option(
    "--policies",
    default="fair,priority",
    show_default=True,
    metavar="A,B,C",
    help="With options as B:epoch=2s:levels=4.",
)
@click.option("--engine", type=click.Choice(["emulate", "simulate"]), default="emulate", show_default=True)
@click.option("--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, metavar="N")
@out_option("Goes on there if DIR holds a part of it.")
@allow_commands_option
@click.option("--markdown", is_flag=True, help="Print one Markdown table of all scenarios instead; needs fair.")
@short_option
@json_option('Print comparison.json instead of tables; of several scenarios, {"comparisons": [...]}.')
@click.pass_context
def command(
    ctx: click.Context,
    scenarios: tuple[str, ...],
    policies: str,
    engine: str,
    repeat: int,
    out: Path | None,
    allow_commands: bool,
    markdown: bool,
    short: bool,
    as_json: bool,
) -> None:
    """Run each SCENARIO under several policies, in interleaved repeats, and compare them.

    The emulator (root) first measures each job alone. With several scenarios, DIR holds one folder for each. A
    scenario's own policy keeps the scenario's options, beside those that --policies states.
    Exit status: as of `run`, the worst of all runs.
    """
    from harmonics_emu.comparing import compare_policies
    from harmonics_emu.results.comparison import FAIR
    from harmonics_emu.results.run_directory import file_name
    from harmonics_emu.results.schema import Comparison, to_json
    from harmonics_emu.results.suite import suite_markdown
    from harmonics_emu.results.tables import comparison_table
    from harmonics_emu.scenario.policy_choice import labelled

    wanted = [text for text in policies.split(",") if text.strip()]
    if not wanted:
        raise UsageError("--policies names no policy")
    if markdown and (as_json or FAIR not in labelled(wanted)):
        raise UsageError("--markdown needs fair among the --policies, and does not go with --json")
    loaded = [load(scenario, short=short) for scenario in scenarios]
    names = [file_name(scenario.name) for scenario in loaded]
    if len(set(names)) < len(names):
        raise UsageError("two of the scenarios have the same name; compare them one after the other")
    base = out or Path("runs") / f"compare-{'-'.join(names)[:60]}-{time.strftime('%Y%m%d-%H%M%S')}"
    worst = 0
    comparisons: list[Comparison] = []
    for scenario, name in zip(loaded, names, strict=True):
        try:
            with RunProgress(quiet=as_json) as progress:
                finished = compare_policies(
                    scenario,
                    wanted,
                    "emulate" if engine == "emulate" else "simulate",
                    repeats=repeat,
                    directory=base if len(loaded) == 1 else base / name,
                    allow_commands=allow_commands,
                    on_run=progress.begin,
                    on_event=progress.show,
                )
        except KeyboardInterrupt:
            click.echo(f"Interrupted. The same command with --out {base} goes on from here.", err=True)
            raise
        comparisons.append(finished.comparison)
        if not as_json and not markdown:
            print_rich(comparison_table(finished.comparison))
            click.echo(f"Run directories: {finished.directory}\n")
        worst = finished.exit_code if worst == 0 or finished.exit_code == 1 else worst
    if as_json and len(comparisons) == 1:
        print_json(to_json(comparisons[0]))
    elif as_json:
        print_json({"comparisons": [json.loads(to_json(comparison)) for comparison in comparisons]})
    elif markdown:
        click.echo(suite_markdown(comparisons, time.strftime("%Y-%m-%d")), nl=False)
    ctx.exit(worst)
