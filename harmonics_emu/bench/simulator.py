"""`bench simulator`: large clusters full of jobs on the fluid engine, each in a process of its own."""

from __future__ import annotations

import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import click

from harmonics_emu.bench.beside_simgrid import FLOWS, SYSTEM_PYTHON, compare_with_simgrid, has_simgrid
from harmonics_emu.bench.cluster import contention_components, crowded_cluster
from harmonics_emu.cli.output import print_json, print_table

SIZES = ((1_000, 50), (10_000, 500))
"""GPUs and jobs."""
SEED = 0


@click.command("simulator")
@click.option("--gpus", type=click.IntRange(8), multiple=True, metavar="N", help="Default: 1000 and 10000.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Default: one for each 20 GPUs.")
@click.option("--iterations", type=click.IntRange(1), default=1000, show_default=True, help="Of each job.")
@click.option("--simgrid/--no-simgrid", default=True, help="Beside SimGrid too, where it is installed.")
@click.option("--json", "as_json", is_flag=True, help='Print {"rows": [...], "simgrid": [...] or null}.')
def command(gpus: tuple[int, ...], jobs: int | None, iterations: int, simgrid: bool, as_json: bool) -> None:
    """Time the simulator on crowded clusters: jobs of mixed models scattered over a 2:1 oversubscribed fabric.

    wall_s counts from jobs and fabric to records, without compiling (done once and kept); events are starts and ends
    of compute, collectives and iterations; peak_rss_bytes is the whole process.

    Then the same plain flows (max-min, no jobs) here and in SimGrid, if the system's Python has it (Debian's
    python3-simgrid): how long each takes, and how far apart the finish times are. SimGrid is driven through its Python
    interface, one actor a flow, which costs it some of that time.
    """
    sizes = [(count, jobs or max(1, count // 20)) for count in gpus] or [(g, jobs or j) for g, j in SIZES]
    rows = []
    for count, crowd in sizes:
        # A fresh process for each size: peak memory never goes down within one.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows.append(pool.submit(measure, count, crowd, iterations).result())
    beside = [compare_with_simgrid(flows, SEED) for flows in FLOWS] if simgrid and has_simgrid() else None
    if as_json:
        print_json({"rows": rows, "simgrid": beside})
        return
    print_table(
        (
            "GPUs",
            "jobs",
            "itera-\ntions",
            "sharing\na link",
            "mean\ncomponent",
            "wall",
            "events",
            "events/s",
            "peak RSS",
        ),
        (
            (
                row["gpus"],
                row["jobs"],
                row["iterations"],
                f"{row['sharing']:.0%}",
                f"{row['mean_component']:.0f} jobs",
                f"{row['wall_s']:.2f} s",
                row["events"],
                f"{row['events'] / row['wall_s']:.0f}",
                f"{row['peak_rss_bytes'] / 1e6:.0f} MB",
            )
            for row in rows
        ),
    )

    if beside is not None:
        print_table(("flows", "here", "SimGrid", "largest difference"), map(_cells, beside))
    elif simgrid:
        click.echo(f"SimGrid is absent: {SYSTEM_PYTHON} can't import simgrid (on Debian: python3-simgrid).")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    walls = (f"{row[key]:.3f} s" for key in ("wall_s", "simgrid_wall_s"))
    return (row["flows"], *walls, f"{row['largest_difference']:.1g}")


def measure(gpus: int, jobs: int, iterations: int) -> dict[str, Any]:
    """One row. sharing: fraction of jobs that share a link; mean_component: mean size of their contention components,
    over jobs."""
    from harmonics_emu.schedulers.fair import policy
    from harmonics_emu.simulate.engine import Options, Simulation, simulate

    options = Options(sample_s=None)
    small = crowded_cluster(64, 2, 1, SEED)
    simulate(*small, policy, SEED, options=options)
    fabric, crowd = crowded_cluster(gpus, jobs, iterations, SEED)
    began = time.perf_counter()
    simulation = Simulation(fabric, crowd, policy, SEED, (), (), options)
    simulation.run()
    wall_s = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    shared = [size for size in contention_components(fabric, crowd, SEED) if size > 1]
    return {
        "gpus": gpus,
        "jobs": jobs,
        "iterations": iterations,
        "sharing": sum(shared) / jobs,
        "mean_component": sum(size * size for size in shared) / sum(shared) if shared else 1.0,
        "wall_s": wall_s,
        "events": simulation.events_handled,
        "peak_rss_bytes": peak,
    }
