"""Explanations in words and tables, for a terminal and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harmonics_emu.evidence.attribution import OWN, Excess, JobExplanation
from harmonics_emu.evidence.witnesses import LinkWitness
from harmonics_emu.results.schema import Verdict
from harmonics_emu.results.tables import NOTHING, VERDICT_STYLES, percent, seconds
from harmonics_emu.simulate.entities import BACKGROUND

WORTH_SAYING = 0.02
"""Part of the excess below which a cause is left to the table."""
MOST_WITNESSES = 8
LINK_FULL = 0.75
"""Part of a link's rate below which it was not full, whoever communicated: what was slow then is something else."""


def rows_of(explanation: JobExplanation) -> list[tuple[str, str, float]]:
    """Cause, link and mean seconds an iteration, the largest first; they sum to the job's mean excess."""
    rows = [(who or "itself", link, lost_s) for (who, link), lost_s in explanation.mean_lost_s().items()]
    for what in ("compute", "gate", "unexplained"):
        rows.append((what, "", explanation.mean(f"{what}_s")))
    return sorted((row for row in rows if abs(row[2]) > 1e-9), key=lambda row: -abs(row[2]))


def in_words(explanation: JobExplanation) -> str:
    """One paragraph on one job."""
    job, excess_s = explanation.job, explanation.mean("excess_s")
    alone, mean = seconds([explanation.isolated_s, explanation.mean_s])
    if not explanation.looked_at:
        return f"{job} has no iteration after its warm-up."
    if not explanation.slow:
        return f"{job} took {mean} an iteration, as long as alone ({alone})."
    lead = (
        f"{job} took {mean} an iteration, alone {alone}; "
        f"{len(explanation.slow)} of {explanation.looked_at} iterations took longer than alone. "
        f"Of the {_one(excess_s)} that an iteration lost on average, "
    )
    parts = [_said(explanation, *row, excess_s) for row in rows_of(explanation)]
    said = [part for part in parts if part]
    return lead + (", ".join(said[:-1]) + " and " + said[-1] if len(said) > 1 else "".join(said)) + "."


def explanation_table(
    explanations: Sequence[JobExplanation], witnesses: Sequence[LinkWitness], verdict: Verdict, *, each: bool
) -> RenderableType:
    """A paragraph and a table for each job, then what else was seen of the links."""
    parts: list[RenderableType] = []
    if verdict != "faithful":
        warning = f"This run is {verdict}: something else than its links may have set the times below."
        parts += [Text(warning, style=VERDICT_STYLES[verdict]), Text()]
    for explanation in explanations:
        parts += [Text(in_words(explanation)), Text()]
        if explanation.slow:
            parts += [_causes(explanation), Text()]
            if each:
                parts += [_iterations(explanation.slow), Text()]
    return Group(*parts, *_witnesses(witnesses))


def explanations_to_json(explanations: Sequence[JobExplanation], witnesses: Sequence[LinkWitness]) -> dict[str, Any]:
    """All of it as JSON values, in seconds."""
    return {
        "schema": 1,
        "jobs": [
            {
                "job": explanation.job,
                "isolated_iteration_s": explanation.isolated_s,
                "mean_iteration_s": explanation.mean_s,
                "iterations": explanation.looked_at,
                "slow_iterations": len(explanation.slow),
                "mean_excess_s": explanation.mean("excess_s"),
                "causes": [
                    {"cause": cause, "link": link or None, "mean_s": mean_s}
                    for cause, link, mean_s in rows_of(explanation)
                ],
                "words": in_words(explanation),
                "slow": [_excess(excess) for excess in explanation.slow],
            }
            for explanation in explanations
        ],
        "links": [
            {
                "link": witness.spans.link,
                "jobs": list(witness.spans.jobs),
                "contended_s": {
                    "spans": witness.spans.contended_s,
                    "counters": witness.counters_s,
                    "packets": witness.packets_s,
                },
                "used_while_contended": witness.used,
            }
            for witness in witnesses
        ],
    }


def _excess(excess: Excess) -> dict[str, Any]:
    return {
        "iteration": excess.iteration,
        "start_s": excess.start_s,
        "iteration_s": excess.iteration_s,
        "excess_s": excess.excess_s,
        "compute_s": excess.compute_s,
        "gate_s": excess.gate_s,
        "lost": [
            {"to": who or "itself", "link": link or None, "seconds": lost_s}
            for (who, link), lost_s in excess.lost_s.items()
        ],
        "unexplained_s": excess.unexplained_s,
    }


def _said(explanation: JobExplanation, cause: str, link: str, lost_s: float, excess_s: float) -> str:
    if abs(lost_s) < WORTH_SAYING * excess_s:
        return ""
    amount = _one(lost_s)
    if cause == "unexplained":
        return f"{amount} are unexplained"
    if cause == "compute":
        return f"{amount} are compute that took longer or waits for slower ranks"
    if cause == "gate":
        return f"{amount} are waits at the gate"
    if cause == "itself":
        return f"{amount} are its own path's, cap's or link's" + (f" ({link})" if link else "")
    who = "background traffic" if cause == BACKGROUND else cause
    return f"{amount} went to {who} on {link}"


def _one(value: float) -> str:
    return seconds([value])[0]


def _table(*columns: str, names: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < names else "right", overflow="fold", no_wrap=place >= names)
    return table


def _causes(explanation: JobExplanation) -> Table:
    table = _table("lost to", "on", "an iteration", "of the excess", names=2)
    excess_s = explanation.mean("excess_s")
    for cause, link, lost_s in rows_of(explanation):
        table.add_row(Text(cause), Text(link), _one(lost_s), percent(lost_s / excess_s))
    table.add_row("all", "", _one(excess_s), percent(1.0), style="bold")
    return table


def _iterations(slow: Sequence[Excess]) -> Table:
    table = _table(
        "iteration", "most to", "took", "excess", "compute", "gate", "others", "own", "un-\nexplained", names=2
    )
    for excess in slow:
        to_others = {cause: lost_s for cause, lost_s in excess.lost_s.items() if cause[0] != OWN}
        most = max(to_others, key=to_others.__getitem__, default=None)
        own_s = sum(lost_s for cause, lost_s in excess.lost_s.items() if cause[0] == OWN)
        times = [excess.excess_s, excess.compute_s, excess.gate_s, sum(to_others.values()), own_s, excess.unexplained_s]
        table.add_row(
            str(excess.iteration),
            Text(f"{most[0]} on {most[1]}" if most else NOTHING),
            _one(excess.iteration_s),
            *(_one(value) if abs(value) > 1e-6 else "0" for value in times),
        )
    return table


def _witnesses(witnesses: Sequence[LinkWitness]) -> Iterator[RenderableType]:
    if not witnesses:
        yield Text("No two jobs communicated on one link at once.")
        return
    table = _table("link", "jobs", "at once,\nby spans", "by\ncounters", "by\npackets", "link used\nmeanwhile", names=2)
    for witness in witnesses[:MOST_WITNESSES]:
        table.add_row(
            Text(witness.spans.link),
            Text(", ".join(witness.spans.jobs)),
            *(seconds([value])[0] for value in (witness.spans.contended_s, witness.counters_s, witness.packets_s)),
            percent(witness.used),
        )
    yield table
    if len(witnesses) > MOST_WITNESSES:
        yield Text(f"{len(witnesses) - MOST_WITNESSES} more links: --json prints all.")
    idle = [witness.spans.link for witness in witnesses if witness.used is not None and witness.used < LINK_FULL]
    if idle:
        yield Text(
            f"Not full while jobs communicated on them together: {', '.join(idle[:MOST_WITNESSES])}. "
            "What was slow then may be another link or the machine.",
            style="dim",
        )
