"""`harmonics-emu scenarios`: the scenarios that come with the package, or some drawn at random."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harmonics_emu.cli.files import write_new
from harmonics_emu.cli.output import print_json, print_table
from harmonics_emu.errors import UsageError

if TYPE_CHECKING:
    from harmonics_emu.scenario import Scenario


@click.command("scenarios")
@click.option("--random", "count", type=click.IntRange(1, 100_000), metavar="N", help="Draw N scenarios instead.")
@click.option("--seed", type=click.IntRange(0), metavar="S", help="Of the random ones; default: 0.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write them there.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def command(count: int | None, seed: int | None, out: Path | None, as_json: bool) -> None:
    """List the built-in scenarios: `run` and the other commands take their names.

    With --random, list scenarios that are drawn by seed (harmonics_emu.scenario.random_scenarios says how), and write
    them to DIR as random-S-0.yaml and so on. A file that is there already and differs is not overwritten.
    """
    from harmonics_emu.scenario import builtin_names, load_scenario

    if count is None:
        if seed is not None or out is not None:
            raise UsageError("--seed and --out are for scenarios drawn with --random N")
        rows = [_row(load_scenario(name)) for name in builtin_names()]
    else:
        rows = list(_random_rows(count, seed or 0, out))
    if as_json:
        print_json({"scenarios": rows})
    else:
        columns = ("name", "title", "jobs", "ranks", "hosts")
        print_table(columns, ([row[column] for column in columns] for row in rows))


def _random_rows(count: int, seed: int, out: Path | None) -> Iterator[dict[str, Any]]:
    from harmonics_emu.scenario import parse_scenario
    from harmonics_emu.scenario.random_scenarios import random_name, random_scenario

    for number in range(count):
        raw, file = random_scenario(seed, number), f"{random_name(seed, number)}.yaml"
        row = _row(parse_scenario(raw, file))
        if out is None:
            yield row
        else:
            write_new(out, file, raw, "--out")
            yield row | {"file": str(out / file)}


def _row(scenario: Scenario) -> dict[str, Any]:
    jobs, fabric = scenario.jobs(), scenario.fabric()
    return {
        "name": scenario.name,
        "title": scenario.title,
        "jobs": len(jobs),
        "ranks": sum(job.ranks for job in jobs),
        "hosts": len(fabric.hosts),
        "fabric": fabric.kind,
        "worst_case": scenario.worst_case,
        "description": scenario.description,
    }
