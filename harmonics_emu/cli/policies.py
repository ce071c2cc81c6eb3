"""`harmonics-emu policies`: the scheduling policies that can be named."""

from __future__ import annotations

import click

from harmonics_emu.cli.output import print_json, print_table
from harmonics_emu.errors import UsageError


@click.command("policies")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def command(as_json: bool) -> None:
    """List the scheduling policies, other packages' included."""
    from harmonics_emu.schedulers.registry import policy_names

    rows = [{"name": name, "summary": _summary(name)} for name in policy_names()]
    if as_json:
        print_json({"policies": rows})
    else:
        print_table(("name", "summary"), ([row["name"], row["summary"]] for row in rows))


def _summary(name: str) -> str:
    """What a policy does in a line; of another package's that can't be had, why: the others are listed all the same."""
    from harmonics_emu.schedulers.registry import find_policy

    try:
        return find_policy(name).summary
    except UsageError as error:
        return f"broken: {error}"
