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
    help="Also write each figure to a new directory, as SVG and, with the extra plots, as PNG.",
)
@click.option(
    "--series",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also write a run's series to a new directory, as CSV and, with the extra parquet, as Parquet.",
)
def command(run: Path, out: Path | None, figures: Path | None, series: Path | None) -> None:
    """Write one HTML page of the directory RUN, of a run on either engine or of a comparison.

    The page needs nothing else, opens offline, follows the reader's light or dark setting, and prints.

    Exit status: 0 done, 2 wrong usage or no whole run.
    """
    from harmonics_emu.errors import UsageError
    from harmonics_emu.evidence.recorded_run import load_recorded_run
    from harmonics_emu.evidence.run_series import run_series
    from harmonics_emu.ownership import invoking_owner
    from harmonics_emu.report.comparison_report import comparison_report
    from harmonics_emu.report.figures import comparison_figures, write_figures
    from harmonics_emu.report.figures import figures as run_figures
    from harmonics_emu.report.run_report import run_report
    from harmonics_emu.results.run_directory import make_plain_directory, write_file
    from harmonics_emu.results.series_files import write_all_series

    compared = (run / "comparison.json").is_file()
    if compared and series is not None:
        raise UsageError("--series is for a run: name one of those in the comparison")
    owner = invoking_owner()
    recorded = None if compared else load_recorded_run(run)
    text = comparison_report(run) if recorded is None else run_report(recorded)
    if figures is not None:
        drawn = comparison_figures(run) if recorded is None else run_figures(recorded)
        click.echo(write_figures(make_plain_directory(figures, owner), drawn, owner))
    if series is not None and recorded is not None:
        click.echo(write_all_series(make_plain_directory(series, owner), run_series(recorded), owner))
    where = out or run / "report.html"
    write_file(where.absolute().parent, where.name, text.encode(), owner)
    click.echo(f"Wrote {where}")
