"""`harmonics-emu validate`: checks a scenario without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harmonics_emu.cli.options import json_option, scenario_argument
from harmonics_emu.cli.output import print_json, print_rich, print_table

if TYPE_CHECKING:
    from harmonics_emu.scenario import Scenario, ScenarioError


@click.command("validate")
@scenario_argument
@json_option("Print the summary, or the problems, as JSON.")
@click.pass_context
def command(ctx: click.Context, scenario: str, as_json: bool) -> None:
    """Check SCENARIO (a file or a built-in name) and say what it comes to, or all that is wrong with it.

    Times are fluid estimates of each job alone on the fabric. What only the simulator can run is right too, and said.
    Exit status: 0 right, 2 wrong.
    """
    from harmonics_emu.scenario import ScenarioError, load_scenario

    try:
        loaded = load_scenario(scenario)
        _judge_options(loaded, scenario)
    except ScenarioError as error:
        if not as_json:
            raise
        print_json(_problems(error))
        ctx.exit(error.exit_code)
    summary = _summary(loaded)
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary)


def _judge_options(loaded: Scenario, source: str) -> None:
    """ScenarioError if the scenario's policy is there and refuses its options."""
    from harmonics_emu.errors import UsageError
    from harmonics_emu.planning import refuse_options
    from harmonics_emu.scenario import ScenarioError
    from harmonics_emu.schedulers.registry import policy_names

    if loaded.policy in policy_names():
        try:
            refuse_options(loaded)
        except UsageError as error:
            raise ScenarioError(str(error), source) from None


def _problems(error: ScenarioError) -> dict[str, Any]:
    return {
        "valid": False,
        "file": error.source,
        "error": str(error),
        "problems": [
            {
                "line": problem.line,
                "column": problem.column,
                "path": problem.path,
                "what": problem.what,
                "hint": problem.hint,
            }
            for problem in error.problems
        ],
    }


def _summary(scenario: Scenario) -> dict[str, Any]:
    from harmonics_emu.scenario.estimate import estimate_alone
    from harmonics_emu.scenario.quantities import format_scale
    from harmonics_emu.schedulers.registry import policy_names

    fabric, jobs = scenario.fabric(), scenario.jobs()
    alone = [estimate_alone(fabric, job) for job in jobs]
    return {
        "valid": True,
        "name": scenario.name,
        "title": scenario.title,
        "worst_case": scenario.worst_case,
        "policy": scenario.policy,
        "policy_installed": scenario.policy in policy_names(),
        "seed": scenario.seed,
        "scale": format_scale(scenario.scale),
        "fabric": {
            "kind": fabric.kind,
            "hosts": len(fabric.hosts),
            "gpus": len(fabric.hosts) * fabric.gpus_per_host,
            "switches": len(fabric.switches),
            "cables": len(fabric.cables),
        },
        "jobs": [
            {
                "name": job.name,
                "program": job.program,
                "model": job.model,
                "ranks": job.ranks,
                "hosts": list(job.hosts),
                "iterations": job.iterations,
                "bytes": job.bytes,
                "buckets": len(job.bucket_bytes),
                "compute_s": job.compute_s,
                "isolated_communication_s": estimate.communication_s,
                "isolated_iteration_s": estimate.iteration_s,
                "duty_cycle": estimate.duty_cycle,
                "bottleneck": estimate.bottleneck,
            }
            for job, estimate in zip(jobs, alone, strict=True)
        ],
        "not_emulated": _not_emulated(scenario),
        "background": len(scenario.background()),
        "events": len(scenario.file.events),
    }


def _not_emulated(scenario: Scenario) -> str | None:
    """Why the emulator would refuse the scenario under its own policy; None if it would not."""
    from harmonics_emu.emulate.run import refuse_what_may_not_run
    from harmonics_emu.errors import UsageError

    try:
        refuse_what_may_not_run(scenario, scenario.policy, allow_commands=True)
    except UsageError as error:
        return str(error)
    return None


def _print_summary(summary: dict[str, Any]) -> None:
    from rich.text import Text

    fabric = summary["fabric"]
    click.echo(f"{summary['name']} is valid: {summary['title']}")
    click.echo(
        f"Fabric: {fabric['kind']}, {fabric['hosts']} hosts with {fabric['gpus']} GPUs, {fabric['switches']} switches, "
        f"{fabric['cables']} cables; scale {summary['scale']}"
    )
    missing = "" if summary["policy_installed"] else " (not installed here: choose another one to run it)"
    click.echo(f"Policy: {summary['policy']}{missing}; seed {summary['seed']}")
    print_table(
        ("job", "model", "ranks", "itera-\ntions", "bytes", "compute", "communi-\ncation", "duty\ncycle"),
        (
            (
                job["name"],
                job["model"] or job["program"],
                job["ranks"],
                job["iterations"],
                f"{job['bytes'] / 1e6:.2f} MB" if job["bytes"] else None,
                f"{1000 * job['compute_s']:.1f} ms",
                f"{1000 * job['isolated_communication_s']:.1f} ms",
                f"{job['duty_cycle']:.0%}",
            )
            for job in summary["jobs"]
        ),
    )
    click.echo("Bytes: emulated, of one iteration. Communication: estimated, of each job alone.")
    if summary["not_emulated"] is not None:
        print_rich(Text(f"Not for the emulator: {summary['not_emulated']}"))
