"""`harmonics-emu schedule`: the plan that a policy makes, and how long it takes to make it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from harmonics_emu.cli.options import json_option, load, policy_option, scenario_argument, seed_option
from harmonics_emu.cli.output import print_json, print_rich, print_table
from harmonics_emu.errors import UsageError

if TYPE_CHECKING:
    from harmonics_emu.planning import FirstPlan
    from harmonics_emu.records import Placing
    from harmonics_emu.schedulers.interface import HostPair
    from topologies.fabric import Fabric
    from topologies.fabric import Path as Links

DECISIONS = "decisions.jsonl"
MAX_FACT = 300
"""Characters of a fact that the table shows; --json prints all."""


@click.command("schedule")
@scenario_argument
@policy_option
@seed_option
@click.option("--solves", type=click.IntRange(1), default=5, show_default=True, help="To time it; fewer if slow.")
@click.option("--explain", is_flag=True, help="Say in plain words what was known, decided and expected.")
@click.option("--decision", type=int, metavar="N", help="Of a run, the one to explain, from 1; -1 is the last.")
@json_option("Print the plan as JSON, with all paths and start times.")
def command(
    scenario: str,
    policy: str | None,
    seed: int | None,
    solves: int,
    explain: bool,
    decision: int | None,
    as_json: bool,
) -> None:
    """Print the plan that a policy makes for SCENARIO at time zero, and how long that took.

    The plan is for the jobs that come first: those with the earliest `start`, each when its offset says. Jobs that may
    be moved are placed before, where the policy does that. Nothing runs.
    No further solve is begun after 2 s.

    With --explain, SCENARIO may also be the directory of a run, of which it explains a decision.
    """
    from harmonics_emu.planning import plan_first

    if explain and Path(scenario, DECISIONS).is_file():
        _explain_run(Path(scenario), 1 if decision is None else decision, as_json)
        return
    if decision is not None:
        raise UsageError(f"--decision is for --explain on a run's directory, and {scenario} holds no {DECISIONS}")
    loaded = load(scenario)
    loaded = loaded if seed is None else loaded.with_seed(seed)
    first = plan_first(loaded, policy=policy, solves=solves)
    if explain:
        _explain_first(first, as_json)
        return
    summary = _summary(loaded.name, first)
    if as_json:
        print_json(summary)
    else:
        _print_plan(summary, first)


def _explain_run(directory: Path, number: int, as_json: bool) -> None:
    from harmonics_emu.results.decisions import in_words, overall
    from harmonics_emu.results.rows import read_decisions

    decisions = read_decisions(directory / DECISIONS)
    if not decisions:
        raise UsageError(f"{directory} has no decision on record")
    if not 1 <= number <= len(decisions) and not 1 <= -number <= len(decisions):
        raise UsageError(f"{directory} has decisions 1 to {len(decisions)} (-1 is the last), no {number}")
    place = number - 1 if number > 0 else len(decisions) + number
    if as_json:
        print_json(asdict(decisions[place]))
    else:
        click.echo(in_words(decisions[place], place + 1, decisions[place - 1] if place else None))
        click.echo(f"\n{overall(decisions)}")


def _explain_first(first: FirstPlan, as_json: bool) -> None:
    from harmonics_emu.results.decisions import in_words, known_values

    decision = replace(first.decisions[0], known=known_values(first.snapshot), why="start")
    if as_json:
        print_json(asdict(decision))
    else:
        click.echo(in_words(decision, 1, None))


def _summary(name: str, first: FirstPlan) -> dict[str, Any]:
    from harmonics_emu.simulate.decisions import plan_values

    times = [decision.solve_s for decision in first.decisions]
    return {
        "scenario": name,
        "policy": first.decisions[0].policy,
        "seed": first.snapshot.seed,
        "time_s": first.snapshot.time_s,
        "jobs": len(first.snapshot.jobs),
        "solves": len(times),
        "solve_s": {"median": median(times), "min": min(times), "max": max(times)},
        "critical_path_s": median(decision.critical_path_s for decision in first.decisions),
        "fallback": first.decisions[0].fallback,
        "placement": None if first.placing is None else _placement(first.placing),
        "plan": plan_values(first.plan),
    }


def _placement(placing: Placing) -> dict[str, Any]:
    return {"solve_s": placing.decision.solve_s, **placing.decision.plan["facts"]["placement"]}


def _print_plan(summary: Mapping[str, Any], first: FirstPlan) -> None:
    from rich.text import Text

    from harmonics_emu.results.tables import seconds
    from harmonics_emu.scenario.quantities import format_rate

    solve, shortest, longest = seconds([summary["solve_s"][key] for key in ("median", "min", "max")])
    solves = "one solve" if summary["solves"] == 1 else f"median of {summary['solves']}, {shortest} to {longest}"
    head = f"{summary['scenario']} under {summary['policy']}, seed {summary['seed']}: solved in {solve} ({solves})"
    print_rich(Text(head))
    if summary["fallback"]:
        click.echo("The policy fell back to a simpler plan.")
    if summary["placement"]:
        print_rich(Text(_placing_line(summary["placement"])))
    rows = []
    for state in first.snapshot.jobs:
        plan = first.plan.of(state.job.name)
        holding = [start for start in plan.starts_s if start > state.next_start_s]
        more = f" ({len(holding)} of {len(plan.starts_s)})"
        rows.append(
            (
                state.job.name,
                plan.level,
                _turns(first.snapshot.fabric, state.transfers, plan.paths),
                f"{holding[0]:.4f} s{more}" if holding else None,
                None if plan.rate_bps is None else format_rate(plan.rate_bps),
            )
        )
    print_table(("job", "level", "paths", "held until", "rate"), rows)
    if first.plan.facts:
        facts = ((name, _shortened(json.dumps(value, ensure_ascii=False))) for name, value in first.plan.facts.items())
        print_table(("fact", "value"), facts)
    print_rich(Text("Level 0 is served first. Paths: topmost switches, where there are several. '-': nothing set."))
    if any(plan.starts_s for plan in first.plan.jobs.values()):
        print_rich(Text("Held until: the first start time that holds a job back (how many do, of those planned)."))


def _placing_line(placement: Mapping[str, Any]) -> str:
    """`Placement: chosen of 10 in 26 ms; moved: a to r0h0 r0h1, b to r1h0 r1h1`"""
    from harmonics_emu.results.tables import seconds

    (took,) = seconds([placement["solve_s"]])
    moved = ", ".join(f"{name} to {' '.join(placement['hosts'][name])}" for name in placement["moved"])
    return f"Placement: chosen of {placement['candidates']} in {took}; moved: {moved or 'nobody'}"


def _turns(fabric: Fabric, pairs: Iterable[HostPair], paths: Mapping[HostPair, Links]) -> str | None:
    """The topmost switches on the paths of those pairs that have several: `spine0 x3, spine1`; None if none has."""
    turns: Counter[str] = Counter()
    for src, dst in pairs:
        if len(fabric.paths(src, dst)) > 1:
            path = paths.get((src, dst))
            turns["hashed" if path is None else fabric.links[path[len(path) // 2]].src] += 1
    if turns.keys() == {"hashed"}:
        return "hashed"
    return ", ".join(f"{turn} x{count}" if count > 1 else turn for turn, count in sorted(turns.items())) or None


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_FACT else text[: MAX_FACT - 3] + "..."
