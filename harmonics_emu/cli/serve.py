"""`harmonics-emu serve`: a local web page of a run, and its metrics."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("serve")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Default: one that is free.")
def command(run: Path, port: int) -> None:
    """Show the directory RUN of a run, in progress or finished, as a page on this machine until Ctrl-C.

    Only this machine can reach the page, and only with the token in its address, which is another each time. It updates
    twice a second and loads nothing from elsewhere. The same address with `metrics` behind it has the figures for
    Prometheus.

    Exit status: 0 ended by Ctrl-C, 2 wrong usage or no run.
    """
    from harmonics_emu.live.server import RunServer
    from harmonics_emu.live.watch import RunWatch

    watch = RunWatch(run)
    with RunServer(watch.look, port) as server:
        click.echo(f"Page: {server.url}")
        click.echo(f"Metrics: {server.url}metrics")
        click.echo("Ctrl-C ends it.")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            click.echo()
    watch.close()
