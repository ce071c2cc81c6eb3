"""`bench scheduling`: how long policies plan on clusters of 4 to 4,096 racks, and how good their plans are."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import click

from harmonics_emu.bench.entangled import entangled_cluster
from harmonics_emu.cli.output import print_json, print_table
from harmonics_emu.schedulers.exact.bound import lower_bound
from harmonics_emu.schedulers.harmonics.rollout import Rollout
from harmonics_emu.schedulers.harmonics.views import Problem
from harmonics_emu.schedulers.interface import Plan, Snapshot
from harmonics_emu.schedulers.registry import find_policy

SIZES = (4, 16, 64, 256, 1024, 4096)
MOST_RACKS = {"crux": 256, "cassini": 64, "optimal": 64}
"""Beyond these a policy takes minutes, or gigabytes: crux compares each job with each, cassini each link's jobs."""
SEED = 0
AS_GOOD = 1e-3
"""Objectives that differ by less, relatively, are of equal quality."""


@click.command("scheduling")
@click.option("--racks", type=click.IntRange(2), multiple=True, metavar="N", help="Default: 4, 16, 64 .. 4096.")
@click.option("--limit", type=click.FloatRange(1), default=60.0, show_default=True, help="Seconds for `optimal`.")
@click.option("--json", "as_json", is_flag=True, help='Print {"rows": [...]}.')
def command(racks: tuple[int, ...], limit: float, as_json: bool) -> None:
    """Time one plan for each policy on clusters with two crossing and two local jobs a rack, all entangled.

    critical_path_s is what a plan takes where each rack plans on a processor of its own: the slowest rack, then the
    coordinator, then the slowest rack again. Here racks follow one another, in total_s, which also has what is done
    once for each job that comes (its paths, its time alone). Other policies plan in one place: there the two are the
    same.

    objective is S if the plan stays for the ten iterations that each job has; fair's is beside it. For optimal, total_s
    is when it had a plan as good as harmonics' (within 0.1 %); where the limit came first, the row is censored. It is
    not tried beyond 64 racks, nor cassini, and crux not beyond 256.
    """
    rows = []
    for size in racks or SIZES:
        for row in measure(size, limit):
            rows.append(row)
            if not as_json:
                click.echo(f"{row['racks']} racks, {row['policy']}: {row['total_s']:.3g} s", err=True)
    if as_json:
        print_json({"rows": rows})
    else:
        columns = ("racks", "jobs", "policy", "total", "critical\npath", "S", "bound", "")
        print_table(columns, map(_cells, rows))


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        row["racks"],
        row["jobs"],
        row["policy"],
        _seconds(row["total_s"]),
        _seconds(row["critical_path_s"]),
        f"{row['objective']:.4f}",
        None if row["bound"] is None else f"{row['bound']:.4f}",
        "censored" if row["censored"] else "",
    )


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def measure(racks: int, limit_s: float) -> Iterator[dict[str, Any]]:
    """Rows of one size, harmonics first after fair."""
    _warm_up()
    snapshot = entangled_cluster(racks, SEED)
    problem = Problem(snapshot)
    for name in ("fair", "crux", "cassini"):
        if racks <= MOST_RACKS.get(name, racks):
            plan, total_s = _timed(name, snapshot)
            yield _row(problem, racks, name, plan, total_s)
    plan, total_s = _timed("harmonics", snapshot)
    reached = _row(problem, racks, "harmonics", plan, total_s)
    yield reached
    if racks <= MOST_RACKS["optimal"]:
        plan, total_s = _timed("optimal", replace(snapshot, options={"time_limit": f"{limit_s:g}s"}))
        row = _row(problem, racks, "optimal", plan, total_s)
        jobs = [state.job for state in snapshot.jobs]
        bound = lower_bound(snapshot.fabric, jobs, SEED, (), time_limit_s=limit_s).value
        yield _optimal_row(row | {"bound": bound}, plan, reached["objective"], limit_s)


def _warm_up() -> None:
    """Compile, or load what was compiled, before a clock starts."""
    for name in ("crux", "cassini", "harmonics"):
        find_policy(name).plan(entangled_cluster(2, SEED))


def _timed(name: str, snapshot: Snapshot) -> tuple[Plan, float]:
    policy = find_policy(name)
    began = time.perf_counter()
    plan = policy.plan(snapshot)
    return plan, time.perf_counter() - began


def _row(problem: Problem, racks: int, policy: str, plan: Plan, total_s: float) -> dict[str, Any]:
    return {
        "racks": racks,
        "jobs": len(problem.tasks),
        "policy": policy,
        "total_s": total_s,
        "critical_path_s": float(plan.facts.get("critical_path_s", total_s)),
        "steps_s": plan.facts.get("steps_s"),
        "objective": objective(problem, plan),
        "bound": None,
        "censored": False,
    }


def objective(problem: Problem, plan: Plan) -> float:
    """S if the plan stays to the jobs' ends. Rates, which no policy here sets, are not looked at."""
    jobs = [plan.of(task.name) for task in problem.tasks]
    routes = {task.name: job.paths for task, job in zip(problem.tasks, jobs, strict=True)}
    view = problem.whole_view(problem.crossings(routes), range(len(jobs)), problem.iterations)
    starts = {number: job.starts_s for number, job in enumerate(jobs) if job.starts_s}
    return Rollout(view).cost([jobs[seen.number].level for seen in view.jobs], starts)


def _optimal_row(row: dict[str, Any], plan: Plan, wanted: float, limit_s: float) -> dict[str, Any]:
    """The row with the time at which its search had found what is as good as `wanted`; the limit if it had not."""
    after_s = next(
        (found["after_s"] for found in plan.facts.get("found", ()) if found["objective"] <= wanted * (1 + AS_GOOD)),
        math.inf,
    )
    if math.isinf(after_s):
        return row | {"total_s": limit_s, "critical_path_s": limit_s, "censored": True}
    return row | {"total_s": after_s, "critical_path_s": after_s}
