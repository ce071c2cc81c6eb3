"""`harmonics-emu doctor`: what this machine can do."""

from __future__ import annotations

import os

import click

from harmonics_emu.cli.output import print_json, print_rich


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Try everything that the emulator needs, in a scratch sandbox, and say what to do about what fails.

    Exit status 1 if something that is needed does not work. Without root, only what needs none is tried.
    """
    import msgspec
    from rich.table import Table

    from harmonics_emu.emulate.doctor import examine_as_root, examine_without_root

    checks = examine_without_root()
    root = os.geteuid() == 0
    if root and all(check.works for check in checks if check.needed):
        checks += examine_as_root()
    broken = [check for check in checks if check.needed and not check.works]
    if as_json:
        print_json(msgspec.json.encode({"checks": checks, "complete": root, "works": not broken}))
    else:
        table = Table(box=None, pad_edge=False)
        for header in ("", "what", "found"):
            table.add_column(header, overflow="fold")
        for check in checks:
            mark = "[green]ok[/]" if check.works else "[red]missing[/]" if check.needed else "[yellow]absent[/]"
            hint = f" -> {check.hint}" if check.hint and not check.works else ""
            table.add_row(mark, check.name, f"{check.detail}{hint}")
        print_rich(table)
        if not root:
            click.echo("Namespaces, queues and the fabric were not tried: that takes root (sudo).")
    ctx.exit(1 if broken else 0)
