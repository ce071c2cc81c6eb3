"""`harmonics-emu pcap`: what capture files show of jobs that share links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harmonics_emu.cli.options import json_option
from harmonics_emu.cli.output import print_json, print_rich

if TYPE_CHECKING:
    from harmonics_emu.evidence.segments import Floats


@click.command("pcap")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "--job",
    "jobs",
    multiple=True,
    metavar="NAME=ADDRESS[/BITS][,...]",
    help="Addresses of a job; default: guessed from who sends to whom.",
)
@click.option(
    "--run",
    "run_directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The run that was captured: it tells jobs, hosts and directions. Without FILE: all in DIR/captures. "
    "Default: the one whose captures the FILEs are.",
)
@click.option(
    "--gap",
    metavar="TIME",
    help="Pause between two collectives of a job, as 20ms; default: the run's iterations tell, else chosen for each.",
)
@click.option("--bin", "width", default="10ms", show_default=True, metavar="TIME", help="Width of the series' bins.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write series.csv, flows.csv and collectives.csv to a new directory.",
)
@json_option("Print all but the series.")
def command(
    files: tuple[str, ...],
    jobs: tuple[str, ...],
    run_directory: Path | None,
    gap: str | None,
    width: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Read captures (pcap, pcapng, either in gzip; - is standard input), each of one link.

    A file's name says its link: leaf0-spine0.pcap. Prints each job's traffic, its collectives (bursts of payload),
    which jobs were at work on a link at once and for how long, retransmissions, round trips, and how sure all of it is.
    Memory does not grow with the files.

    Exit status: 0 done, 1 nothing could be read of a file beyond its damage, 2 wrong usage or no capture.
    """
    import msgspec

    from harmonics_emu.errors import UsageError
    from harmonics_emu.evidence.address_groups import groups_given, groups_of_run
    from harmonics_emu.evidence.examine import examine
    from harmonics_emu.evidence.series import write_tables
    from harmonics_emu.evidence.traffic_tables import traffic_table
    from harmonics_emu.ownership import invoking_owner
    from harmonics_emu.results.run_directory import make_plain_directory
    from harmonics_emu.scenario import load_scenario
    from harmonics_emu.scenario.quantities import InvalidQuantity, parse_positive_time

    try:
        gap_s = None if gap is None else parse_positive_time(gap)
        width_s = parse_positive_time(width)
    except InvalidQuantity as error:
        raise UsageError(str(error) if error.hint is None else f"{error}; hint: {error.hint}") from None
    groups = fabric = between_s = None
    run_directory = run_directory or _run_of(files)
    if run_directory is not None:
        scenario = load_scenario(run_directory / "scenario.yaml")
        fabric = scenario.fabric()
        groups = groups_of_run(fabric, scenario.jobs())
        if not files:
            files = tuple(str(path) for path in sorted((run_directory / "captures").glob("*.pcap*")))
    if jobs:
        groups = groups_given(jobs)
    elif run_directory is not None:
        between_s = _between_collectives(run_directory)
    if not files:
        where = f"{run_directory} holds no captures" if run_directory is not None else "name a capture FILE"
        raise UsageError(f"{where}; --help tells more")
    examined = examine(files, groups=groups, fabric=fabric, gap_s=gap_s, width_s=width_s, between_s=between_s)
    if out is not None:
        owner = invoking_owner()
        written = write_tables(make_plain_directory(out, owner), examined, owner)
        click.echo(f"Wrote {', '.join(written)} to {out}", err=as_json)
    if as_json:
        print_json(msgspec.json.format(msgspec.json.encode(examined.traffic), indent=2))
    else:
        print_rich(traffic_table(examined))


def _between_collectives(run_directory: Path) -> dict[str, Floats] | None:
    """When the run's jobs had no collective going on, None where it is not all there: pauses must do then."""
    from harmonics_emu.errors import HarmonicsError
    from harmonics_emu.evidence.recorded_run import load_recorded_run
    from harmonics_emu.evidence.witnesses import between_collectives

    try:
        return between_collectives(load_recorded_run(run_directory))
    except HarmonicsError:
        return None


def _run_of(files: tuple[str, ...]) -> Path | None:
    """The run in whose captures all files lie, None if there is none."""
    from harmonics_emu.results.captures import ACCOUNT

    folders = {Path(file).absolute().parent for file in files}
    if len(folders) != 1:
        return None
    (folder,) = folders
    told = (folder / ACCOUNT).is_file() and (folder.parent / "scenario.yaml").is_file()
    return folder.parent if told else None
