"""`harmonics-emu policies`: the scheduling policies that can be named."""

from __future__ import annotations

import click

from harmonics_emu.cli.output import print_json, print_table


@click.command("policies")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def command(as_json: bool) -> None:
    """List the scheduling policies, other packages' included."""
    from harmonics_emu.schedulers.registry import find_policy, policy_names

    rows = [{"name": name, "summary": find_policy(name).summary} for name in policy_names()]
    if as_json:
        print_json({"policies": rows})
    else:
        print_table(("name", "summary"), ([row["name"], row["summary"]] for row in rows))
