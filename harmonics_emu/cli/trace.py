"""`harmonics-emu trace`: scenarios out of what others recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harmonics_emu.cli.files import write_new
from harmonics_emu.cli.options import json_option
from harmonics_emu.cli.output import print_json, print_table

if TYPE_CHECKING:
    from harmonics_emu.importing import Imported


PLACEMENTS = ("packed", "spread", "random", "local")
"""The rules of harmonics_emu.scenario.placement, which takes long to import."""
QUEUES = ("fifo", "srpt", "none")


@click.group("trace")
def command() -> None:
    """Bring in job logs, profiler traces, topologies and benchmarks."""


@command.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--as", "target", type=click.Path(path_type=Path), metavar="FILE", help="Write the scenario there.")
@click.option("--jobs", type=click.IntRange(1, 4000), default=60, show_default=True, help="Most jobs of logs to take.")
@click.option("--shrink", type=click.FloatRange(1, 1e9), default=1, metavar="N", help="Divide iterations and times.")
@click.option(
    "--iterations", type=click.IntRange(2, 10**7), default=100, show_default=True, help="Where none are told."
)
@click.option("--workers", type=click.IntRange(2, 10**5), metavar="N", help="Ranks of a profiled or MCCS job.")
@click.option("--models", metavar="M,M,..", help="Models to draw from where a log tells none.")
@click.option("--racks", type=click.IntRange(1, 10**5), default=4, show_default=True, help="Of the fabric for logs.")
@click.option("--hosts-per-rack", type=click.IntRange(1, 10**5), default=8, show_default=True, help="The same.")
@click.option("--gpus-per-host", type=click.IntRange(1, 1000), default=1, show_default=True, help="They share a NIC.")
@click.option("--spines", type=click.IntRange(1, 1024), default=2, show_default=True, help="Of the fabric for logs.")
@click.option("--host-rate", metavar="RATE", help="As 100Gbit; default: the trace's own, or 100Gbit.")
@click.option("--scale", metavar="S", default="1", help="As 1/500: emulated over real rates, for the emulator.")
@click.option(
    "--oversubscription",
    type=click.FloatRange(0, 1000, min_open=True),
    default=2,
    show_default=True,
    help="What a rack's hosts can send over what its uplinks carry.",
)
@click.option("--placement", type=click.Choice(PLACEMENTS), default="packed", show_default=True, help="Of logs' jobs.")
@click.option("--queue", type=click.Choice(QUEUES), default="fifo", show_default=True, help="If not all fit at once.")
@json_option("Print what was read as JSON.")
def import_command(files: tuple[Path, ...], target: Path | None, as_json: bool, **given: Any) -> None:
    """Make a scenario of FILES: what they are is seen from what they hold.

    \b
    job logs        Muri, Helios and Acme (CSV), Philly (JSON)
    jobs            MCCS workloads (TOML)
    profiles        PyTorch profiler (JSON), Chakra (.et, JSON), of one rank
    topologies      Lingjun topo.csv, beside a job log
    benchmarks      output of nccl-tests

    All may be gzipped. Rows that can't be used are skipped and counted. Without --as nothing is written. A shrunk log
    has fewer iterations, and its jobs come sooner one after another: its load stays as it is. Jobs that need more GPUs
    than are free wait in the --queue; with none, those that would have to wait are left out.
    """
    imported = _import(files, target, given)
    if target is not None:
        write_new(target.parent, target.name, imported.text, "--as")
    if as_json:
        print_json(imported.report | {"scenario": None if target is None else str(target)})
        return
    _print_report(imported.report)
    if target is not None:
        click.echo(f"Scenario: {target}")


def _import(files: tuple[Path, ...], target: Path | None, given: dict[str, Any]) -> Imported:
    from harmonics_emu.errors import UsageError
    from harmonics_emu.importing import ImportOptions, import_traces
    from harmonics_emu.ownership import acting_as, invoking_owner
    from harmonics_emu.scenario.quantities import InvalidQuantity, parse_rate, parse_scale

    models, rate, scale = given.pop("models"), given.pop("host_rate"), given.pop("scale")
    if models is not None:
        given["models"] = tuple(model.strip() for model in models.split(","))
    try:
        given["host_rate_bps"] = None if rate is None else parse_rate(rate)
    except InvalidQuantity as error:
        raise UsageError(f"--host-rate: {error}") from None
    try:
        given["scale"] = parse_scale(scale)
    except InvalidQuantity as error:
        raise UsageError(f"--scale: {error}") from None
    name = (target or files[0]).name.split(".")[0] or "imported"
    with acting_as(invoking_owner()):
        return import_traces(files, ImportOptions(**given), name)


def _print_report(report: dict[str, Any]) -> None:
    left = report["left_out"]
    click.echo(f"{report['jobs']} job{'s' if report['jobs'] > 1 else ''} on {report['gpus']} GPUs")
    if any(left.values()):
        click.echo(f"left out: {left['too_large']:,} that need more GPUs, {left['later']:,} that come later")
    skipped = [
        (Path(source["file"]).name, f"{found['rows']:,}", why, f"{found['first']:,}")
        for source in report["files"]
        for why, found in source["skipped"].items()
    ]
    if skipped:
        print_table(("file", "rows skipped", "why", "first row"), skipped)
    for source in report["files"]:
        if "phases" in source:
            _print_phases(source["file"], source["phases"])
        if "calibration" in source:
            _print_calibration(source["file"], source["calibration"])


def _print_phases(file: str, phases: dict[str, Any]) -> None:
    click.echo(f"{Path(file).name}: {phases['iterations']} iterations on {phases['ranks']} ranks; one of them:")
    rows = [
        ("period", f"{1000 * phases['period_s']:.2f} ms", f"{1000 * phases['replayed_period_s']:.2f} ms"),
        ("bytes", f"{phases['bytes']:,}", f"{phases['replayed_bytes']:,}"),
        ("communication", f"{1000 * phases['communication_s']:.2f} ms", None),
        ("compute", f"{1000 * phases['compute_s']:.2f} ms", None),
        ("link", f"{phases['link_bps'] / 1e9:.3g} Gbit/s", None),
    ]
    print_table((phases["collective"], "recorded", "replayed alone"), rows)


def _print_calibration(file: str, fit: dict[str, Any]) -> None:
    click.echo(f"{Path(file).name}: {fit['sizes']} sizes on {fit['ranks']} ranks")
    rows = [
        ("latency", f"{1e6 * fit['latency_s']:.1f} us"),
        ("algorithm bandwidth", f"{fit['algorithm_bps'] / 1e9:.4g} Gbit/s"),
        ("host_rate", f"{fit['bus_bps'] / 1e9:.4g}Gbit"),
        ("worst error of the fit", f"{fit['worst_error']:.1%}"),
    ]
    print_table(("calibration", ""), rows)
