"""`harmonics-emu flows`: finish times of plain flows under max-min sharing with priorities."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from harmonics_emu.cli.output import print_json, print_table


@click.command("flows")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the file's object with `finish` filled in.")
def command(file: Path, as_json: bool) -> None:
    """Say when each flow in FILE finishes: max-min fair sharing, strict priorities (0 first; a missing one is 0).

    FILE is one case, {"links": {NAME: BYTES_PER_S}, "flows": [{"id", "start", "bytes", "links", "priority"}]}, or
    {"cases": [CASE, ...]}. Seconds and bytes.
    """
    from harmonics_emu.simulate.flows import finish_times, read_cases
    from harmonics_emu.simulate.kernel.jit import say_if_compiling

    say_if_compiling(partial(click.echo, err=True))
    document = read_cases(file)
    cases: list[dict[str, Any]] = document.get("cases", [document])
    finish = [finish_times(case) for case in cases]
    if as_json:
        filled = [case | {"finish": times} for case, times in zip(cases, finish, strict=True)]
        print_json(document | {"cases": filled} if "cases" in document else filled[0])
        return
    print_table(
        ("case", "flow", "start", "bytes", "finish"),
        (
            (case.get("name"), flow["id"], f"{flow['start']:g} s", flow["bytes"], f"{times[flow['id']]:.9g} s")
            for case, times in zip(cases, finish, strict=True)
            for flow in case["flows"]
        ),
    )
