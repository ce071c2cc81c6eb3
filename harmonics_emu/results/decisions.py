"""A decision on record: what it rested on as JSON values, and the whole of it in plain words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from harmonics_emu.records import Decision
from harmonics_emu.scenario.quantities import format_rate
from harmonics_emu.schedulers.interface import Snapshot
from workloads.job import DEFAULT_LEVEL

WIDTH = 80
INDENT = "  "
EVEN = 1e-3
"""Gates whose distances differ by less than this part are said to come at one interval."""


def known_values(snapshot: Snapshot) -> dict[str, Any]:
    """What a decision rests on."""
    jobs = {
        state.job.name: {
            "compute_s": state.compute_s,
            "communication_s": state.communication_s,
            "iterations_done": state.iterations_done,
            "iterations": state.job.iterations,
            "next_start_s": state.next_start_s,
            "bytes": sum(state.transfers.values()),
        }
        for state in snapshot.jobs
    }
    return {"jobs": jobs, "links_down": sorted(snapshot.links_down)}


def in_words(decision: Decision, number: int, before: Decision | None) -> str:
    """One decision, as lines of at most 80 columns. number: its place among the run's, from 1; before: the last one."""
    paragraphs = [
        *_heading(decision, number),
        "",
        "Known then:",
        *_known(decision),
        "",
        *_decided(decision),
    ]
    if before is not None:
        paragraphs += ["", *_changes(decision, before)]
    if decision.predicted or decision.measured:
        paragraphs += ["", "Seconds of an iteration, from this plan to the next:", *_outcome(decision)]
    return "\n".join(line for paragraph in paragraphs for line in _wrapped(paragraph))


def overall(decisions: Sequence[Decision]) -> str:
    """Predicted against measured iteration times over a whole run, each plan by how long it was in force."""
    totals: dict[str, list[float]] = {}
    for decision, after in zip(decisions, [*decisions[1:], None], strict=True):
        since_s = decision.time_s if decision.in_force_s is None else decision.in_force_s
        until_s = since_s + 1.0 if after is None or after.in_force_s is None else after.in_force_s
        for name in decision.predicted.keys() & decision.measured.keys():
            weight, predicted, measured = totals.setdefault(name, [0.0, 0.0, 0.0])
            lasted_s = max(until_s - since_s, 0.0)
            totals[name] = [
                weight + lasted_s,
                predicted + lasted_s * decision.predicted[name],
                measured + lasted_s * decision.measured[name],
            ]
    known = {name: total for name, total in totals.items() if total[0] > 0}
    if not known:
        return "No plan of the run has both a predicted and a measured iteration time."
    lines = [f"Over all {len(decisions)} plans of the run, seconds of an iteration:"]
    for name, (weight, predicted, measured) in sorted(known.items()):
        lines.append(
            f"  {name}: {predicted / weight:.4f} predicted, {measured / weight:.4f} measured "
            f"({measured / predicted - 1:+.1%})"
        )
    return "\n".join(line for paragraph in lines for line in _wrapped(paragraph))


def _wrapped(paragraph: str) -> list[str]:
    indent = INDENT * (len(paragraph) - len(paragraph.lstrip())) if paragraph.startswith(" ") else ""
    return textwrap.wrap(paragraph, WIDTH, subsequent_indent=indent + INDENT) or [""]


def _heading(decision: Decision, number: int) -> Iterator[str]:
    why = {"start": "the jobs were about to start", "epoch": "an epoch was over"}.get(decision.why, decision.why)
    because = f", since {why}" if why.startswith(("the jobs", "an epoch")) else f" ({why})" if why else ""
    yield f"Decision {number}, of policy {decision.policy}, {decision.time_s:.2f} s after time zero{because}."


def _known(decision: Decision) -> Iterator[str]:
    jobs: Mapping[str, Mapping[str, Any]] = decision.known.get("jobs", {})
    if not jobs:
        yield "  nothing is on record."
    for name, job in jobs.items():
        communication = job.get("communication_s")
        compute = f"{_ms(job['compute_s'])} of compute"
        figures = (
            f"{compute} an iteration (none measured yet)"
            if communication is None
            else f"{compute} and {_ms(communication)} of communication an iteration"
        )
        ahead_s = job["next_start_s"] - decision.time_s
        if job["iterations_done"] == 0 and communication is None:
            next_one = f"begins at {job['next_start_s']:.2f} s"
        elif ahead_s > 0:
            next_one = f"sending; its next iteration can begin in {_ms(ahead_s)}"
        else:
            next_one = f"computing since {_ms(-ahead_s)}"
        yield (
            f"  {name}: {figures}, {job['bytes'] / 1e6:.2f} MB on the wire; "
            f"{job['iterations_done']} iterations done; {next_one}"
        )
    if down := decision.known.get("links_down"):
        yield f"  down: {', '.join(down)}"


def _decided(decision: Decision) -> Iterator[str]:
    in_force = ""
    if decision.in_force_s is not None:
        in_force = f", in force {_ms(max(0.0, decision.in_force_s - decision.time_s))} after the look at the jobs"
    fallback = " (the policy fell back to a simpler plan)" if decision.fallback else ""
    yield f"Decided, in {_ms(decision.solve_s)}{fallback}{in_force}:"
    jobs: Mapping[str, Mapping[str, Any]] = decision.plan.get("jobs", {})
    names = dict.fromkeys([*decision.known.get("jobs", {}), *jobs])
    for name in names:
        since_s = decision.known.get("jobs", {}).get(name, {}).get("next_start_s", decision.time_s)
        yield f"  {name}: {'; '.join(_levers(jobs.get(name, {}), since_s)) or 'nothing; it shares as everybody does'}"
    facts = {
        key: value
        for key, value in decision.plan.get("facts", {}).items()
        if isinstance(value, (int, float, str)) or value is None
    }
    yield f"  Level 0 is served first; what no plan names has level {DEFAULT_LEVEL}."
    if facts:
        said = ", ".join(f"{key} {_value(value)}" for key, value in facts.items())
        yield f"  The policy adds: {said}."


def _levers(job: Mapping[str, Any], since_s: float) -> Iterator[str]:
    if "level" in job:
        yield f"level {job['level']}"
    starts = job.get("starts_s") or []
    if holding := [start for start in starts if start > since_s]:
        yield _gates(holding, len(starts))
    if job.get("rate_bps") is not None:
        yield f"at most {format_rate(job['rate_bps'])} from each host"
    if paths := job.get("paths"):
        yield f"its own paths for {len(paths)} host pairs"


def _gates(starts_s: Sequence[float], collectives: int) -> str:
    """Gates that hold somebody, of the next so many collectives."""
    if len(starts_s) < collectives:
        those = f"{len(starts_s)} of its next {collectives} collectives held"
        if len(starts_s) == 1:
            return f"{those}, until {starts_s[0]:.3f} s"
        return f"{those}, one until {starts_s[0]:.3f} s and the last until {starts_s[-1]:.3f} s"
    first = f"its next collective no sooner than {starts_s[0]:.3f} s"
    gaps = [after - before for before, after in pairwise(starts_s)]
    if not gaps:
        return first
    usual = median(gaps)
    if usual > 0 and all(abs(gap - usual) <= EVEN * usual for gap in gaps):
        return f"{first}, and one each {_ms(usual)} from there ({len(starts_s)} gates)"
    return f"{first}, and {len(gaps)} more gates up to {starts_s[-1]:.3f} s"


def _changes(decision: Decision, before: Decision) -> Iterator[str]:
    """What is different from the plan before, start times aside: they are new each time."""
    now, then = decision.plan.get("jobs", {}), before.plan.get("jobs", {})
    changes = []
    for name in dict.fromkeys([*then, *now]):
        if name not in decision.known.get("jobs", now):
            continue
        for key, what in (("level", "level"), ("rate_bps", "rate"), ("paths", "paths")):
            old, new = (jobs.get(name, {}).get(key) for jobs in (then, now))
            old, new = ({"level": DEFAULT_LEVEL, "paths": []}.get(key) if v is None else v for v in (old, new))
            if old != new:
                changes.append(f"{what} of {name}" if key != "level" else f"{name} from level {old} to {new}")
    yield f"Changed by it: {', '.join(changes)}." if changes else "No level, path or rate was changed by it."


def _outcome(decision: Decision) -> Iterator[str]:
    for name in dict.fromkeys([*decision.predicted, *decision.measured]):
        predicted, measured = decision.predicted.get(name), decision.measured.get(name)
        line = f"  {name}: {'not predicted' if predicted is None else f'{predicted:.4f} predicted'}"
        line += f", {'not measured' if measured is None else f'{measured:.4f} measured'}"
        if predicted and measured:
            line += f" ({measured / predicted - 1:+.1%})"
        if (fair := decision.predicted_fair.get(name)) is not None:
            line += f"; {fair:.4f} predicted of fair sharing"
        yield line


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
