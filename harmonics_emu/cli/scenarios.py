"""`harmonics-emu scenarios`: the scenarios that come with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harmonics_emu.cli.output import print_json, print_table

if TYPE_CHECKING:
    from harmonics_emu.scenario import Scenario


@click.command("scenarios")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def command(as_json: bool) -> None:
    """List the built-in scenarios: `run` and the other commands take their names."""
    from harmonics_emu.scenario import builtin_names, load_scenario

    rows = [_row(load_scenario(name)) for name in builtin_names()]
    if as_json:
        print_json({"scenarios": rows})
    else:
        columns = ("name", "title", "jobs", "ranks", "hosts")
        print_table(columns, ([row[column] for column in columns] for row in rows))


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
