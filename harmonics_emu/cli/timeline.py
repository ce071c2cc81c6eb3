"""`harmonics-emu timeline`: a run as a trace for the Perfetto viewer."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("timeline")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Default: trace.perfetto-trace in RUN.",
)
def command(run: Path, out: Path | None) -> None:
    """Write the directory RUN of a run as a Perfetto trace (protobuf), to open in the Perfetto viewer.

    A track for each rank with its iterations, compute, gate and communication; a counter for each link; the scheduler's
    decisions with the levels that they set.

    Exit status: 0 done, 2 wrong usage or no whole run.
    """
    from harmonics_emu.evidence.recorded_run import load_recorded_run
    from harmonics_emu.ownership import invoking_owner
    from harmonics_emu.results.run_directory import replacing
    from harmonics_emu.timeline.trace import trace

    recorded = load_recorded_run(run)
    where = out or run / "trace.perfetto-trace"
    with replacing(where.absolute().parent, where.name, invoking_owner()) as sink:
        for part in trace(recorded):
            sink.buffer.write(part)
    click.echo(f"Wrote {where}")
