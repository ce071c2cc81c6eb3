"""The parts of a report that are tables and text: summary, verdict, decisions, rules, settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harmonics_emu.evidence.attribution import JobExplanation
from harmonics_emu.evidence.explanations import in_words, rows_of
from harmonics_emu.records import Decision
from harmonics_emu.report.markup import Child, Markup, element, table
from harmonics_emu.results.schema import Cluster, Fidelity, Result, Statistics
from harmonics_emu.results.tables import ENGINES, NOTHING, percent, ratio, seconds

MOST_DECISIONS, MOST_RULES = 200, 500


def verdict(fidelity: Fidelity) -> Markup:
    """The verdict as a badge, with its reasons."""
    badge = element("span", fidelity.verdict, class_=f"badge {fidelity.verdict.replace(' ', '-')}")
    reasons = element("ul", [element("li", reason) for reason in fidelity.reasons]) if fidelity.reasons else None
    return element("div", element("p", "Verdict: ", badge), reasons)


def about(result: Result) -> str:
    return f"{ENGINES[result.engine].capitalize()}, seed {result.seed}."


def summary(result: Result) -> Markup:
    """Each job's times beside those it has alone, then the cluster's figures."""
    columns = ("job", "iteration", "alone", "communication", "alone", "gate", "training", "alone", "slowdown", "status")
    rows = []
    for job in result.jobs:
        pairs = (
            (_mean(job.iteration_s), job.isolated_iteration_s),
            (_mean(job.communication_s), job.isolated_communication_s),
            (job.training_s, job.isolated_training_s),
        )
        iteration, communication, training = (seconds(pair) for pair in pairs)
        gate = seconds([_mean(job.gate_s)])[0]
        status = job.status if job.error is None else f"{job.status}: {job.error}"
        rows.append([job.name, *iteration, *communication, gate, *training, ratio(job.slowdown), status])
    return element(
        "div", table(columns, rows, caption="Means per iteration, without the warm-up."), cluster(result.cluster)
    )


def cluster(figures: Cluster) -> Markup:
    times = [seconds([value])[0] for value in (figures.training_s, figures.communication_s, figures.makespan_s)]
    ratios = [ratio(figures.S), ratio(figures.max_slowdown)]
    busy = [percent(figures.gpu_utilization), percent(figures.network_utilization)]
    columns = ("all jobs", "training", "communication", "makespan", "S", "worst slowdown", "GPUs busy", "links busy")
    return table(columns, [["", *times, *ratios, *busy]], caption="S: mean slowdown, weighted by GPUs.")


def explanations(explained: Sequence[JobExplanation]) -> Markup:
    """A paragraph for each job, with the table of its causes."""
    parts: list[Child] = []
    for explanation in explained:
        parts += [element("h3", explanation.job), element("p", in_words(explanation))]
        excess_s = explanation.mean("excess_s")
        if explanation.slow:
            rows = rows_of(explanation)
            parts.append(
                table(
                    ("lost to", "on", "an iteration", "of the excess"),
                    [[cause, link, seconds([lost_s])[0], percent(lost_s / excess_s)] for cause, link, lost_s in rows],
                    names=2,
                )
            )
    return element("div", parts or element("p", "No job's time alone is known, so there is nothing to compare with."))


def decisions(made: Sequence[Decision]) -> Markup:
    """Each decision: when and why, what it set, how long it took, what it predicted and what came."""
    rows = [
        [
            f"{decision.time_s:.3f} s",
            decision.why or NOTHING,
            _levels(decision.plan),
            seconds([decision.solve_s])[0],
            seconds([decision.critical_path_s])[0],
            "yes" if decision.fallback else "",
            _times(decision.predicted),
            _times(decision.measured),
        ]
        for decision in made[:MOST_DECISIONS]
    ]
    columns = ("at", "why", "levels and starts", "solving", "critical path", "fallback", "predicted", "measured")
    more = f" Only the first {MOST_DECISIONS} of {len(made)}." if len(made) > MOST_DECISIONS else ""
    caption = f"Predicted and measured: an iteration of each job, from this plan to the next.{more}"
    return table(columns, rows, caption=caption, names=3) if rows else element("p", "The policy decided nothing.")


def rules(found: Sequence[Mapping[str, Any]]) -> Markup:
    """How many rules each switch had, and the rules as read back."""
    if not found:
        return element("p", "No rules are on record: a simulated run has none.")
    switches = Counter(str(rule.get("switch", rule.get("bridge", "?"))) for rule in found)
    listed = "\n".join(msgspec.json.encode(rule).decode() for rule in found[:MOST_RULES])
    more = f" The first {MOST_RULES} of them:" if len(found) > MOST_RULES else ""
    counts = ", ".join(f"{switch} {count}" for switch, count in sorted(switches.items()))
    return element(
        "div",
        element("p", f"{len(found)} rules: {counts}.{more}"),
        element("details", element("summary", "All rules as read back"), element("pre", listed)),
    )


def settings(manifest: Mapping[str, Any], scenario: str) -> Markup:
    """Everything that the run was made with."""
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2).decode()
    return element(
        "div",
        element("details", element("summary", "Scenario, resolved"), element("pre", scenario)),
        element("details", element("summary", "Manifest: versions, seed, settings applied"), element("pre", text)),
    )


def _mean(statistics: Statistics | None) -> float | None:
    return None if statistics is None else statistics.mean


def _times(times: Mapping[str, float]) -> str:
    return ", ".join(f"{job} {seconds([time])[0]}" for job, time in list(times.items())[:8])


def _levels(plan: Mapping[str, Any]) -> str:
    """A plan in a line: each job's level, and whether it is gated."""
    jobs = plan.get("jobs")
    if not isinstance(jobs, dict):
        return NOTHING
    told = []
    for name, job in list(jobs.items())[:12]:
        if isinstance(job, dict) and "level" in job:
            told.append(f"{name} {job['level']}{' gated' if job.get('starts_s') else ''}")
    return ", ".join(told) + (" …" if len(jobs) > 12 else "") or "none: fair sharing"
