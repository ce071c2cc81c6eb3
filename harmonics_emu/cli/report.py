"""`harmonics-emu report`: one HTML page of a run or a comparison."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Default: report.html in RUN."
)
@click.option(
    "--figures",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also write a run's figures as SVG files to a new directory.",
)
def command(run: Path, out: Path | None, figures: Path | None) -> None:
    """Write one HTML page of the directory RUN, of a run on either engine or of a comparison.

    The page needs nothing else, opens offline, follows the reader's light or dark setting, and prints.

    Exit status: 0 done, 2 wrong usage or no whole run.
    """
    from harmonics_emu.errors import UsageError
    from harmonics_emu.evidence.recorded_run import load_recorded_run
    from harmonics_emu.ownership import invoking_owner
    from harmonics_emu.report.comparison_report import comparison_report
    from harmonics_emu.report.figures import figures as svg_figures
    from harmonics_emu.report.run_report import run_report
    from harmonics_emu.results.run_directory import make_plain_directory, write_file

    compared = (run / "comparison.json").is_file()
    if compared and figures is not None:
        raise UsageError("--figures is for a run: name one of those in the comparison")
    owner = invoking_owner()
    text = comparison_report(run) if compared else run_report(load_recorded_run(run))
    if figures is not None:
        directory = make_plain_directory(figures, owner)
        for name, picture in svg_figures(load_recorded_run(run)):
            write_file(directory, name, picture.encode(), owner)
    where = out or run / "report.html"
    write_file(where.absolute().parent, where.name, text.encode(), owner)
    click.echo(f"Wrote {where}")
