"""Arguments and options that several commands take, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from harmonics_emu.scenario import Scenario

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

scenario_argument = click.argument("scenario")
policy_option = click.option(
    "--policy", metavar="P[:OPTION=VALUE]", help="Instead of the scenario's own; with options as crux:levels=4."
)
seed_option = click.option("--seed", type=click.IntRange(0), metavar="N", help="Instead of the scenario's own seed.")
short_option = click.option("--short", is_flag=True, help="Only a few iterations of each job, to try things out.")
allow_commands_option = click.option(
    "--allow-commands", is_flag=True, help="Let jobs run the commands that scenarios name."
)


def out_option(help_text: str) -> Decorator:
    return click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help=help_text)


def json_option(help_text: str) -> Decorator:
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def load(scenario: str, *, short: bool = False) -> Scenario:
    """The scenario in a file or of a built-in name, as long as it is or shortened."""
    from harmonics_emu.scenario import load_scenario

    loaded = load_scenario(scenario)
    return loaded.short() if short else loaded
