"""A run's and a comparison's tables for a terminal, as rich renderables that fit 80 columns.

Long job names fold within their column, so that two that differ only at the end still look different. Times of one
job and column share a unit and their decimals, so that they compare at a glance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harmonics_emu.results.schema import (
    Cluster,
    Comparison,
    Estimate,
    Fidelity,
    JobFigures,
    JobResult,
    Result,
    Statistics,
    Verdict,
)

NOTHING = "-"
ENGINES = {"emulate": "emulated", "simulate": "simulated"}
UNITS = (("us", 1e-6, 0.0), ("ms", 1e-3, 1e-3), ("s", 1.0, 1.0), ("h", 3600.0, 36_000.0))
"""Unit, its seconds, and the seconds from which it is used."""
NAME_WIDTH = 9
"""What a column of names keeps when the table is narrow: the longest built-in policy's name."""
VERDICT_STYLES = {"faithful": "green", "degraded": "yellow", "not faithful": "bold red"}


def run_table(result: Result) -> RenderableType:
    """One run: each job's times beside those it has alone, its slowdown, the cluster's figures and the verdict."""
    table = _table("job")
    for header in ("iteration", "communi-\ncation", "training"):
        _column(table, header)
        _column(table, "isolated", style="dim")
    _column(table, "slow-\ndown")
    for job in result.jobs:
        pairs = (
            (_mean(job.iteration_s), job.isolated_iteration_s),
            (_mean(job.communication_s), job.isolated_communication_s),
            (job.training_s, job.isolated_training_s),
        )
        times = [text for pair in pairs for text in seconds(pair)]
        table.add_row(*map(Text, (job.name, *times, ratio(job.slowdown))))
    about = f" under {result.policy}, {ENGINES[result.engine]}, seed {result.seed}"
    return Group(
        Text.assemble((result.scenario, "bold"), about),
        Text(),
        table,
        *(_unfinished(job) for job in result.jobs if job.status != "done"),
        Text(),
        _cluster(result.cluster),
        Text(),
        _legend(job.isolated_source for job in result.jobs),
        _verdict(result.fidelity),
    )


def comparison_table(comparison: Comparison) -> RenderableType:
    """Policies side by side: each job's times alone and under each policy, then all jobs together."""
    repeats = "one repeat" if comparison.repeats == 1 else f"medians of {comparison.repeats} repeats"
    legend = _legend(job.isolated_source for job in comparison.jobs.values())
    if comparison.against_fair:
        legend.append(" Saved: less time than under fair.")
    if comparison.repeats > 1:
        legend.append(" Second lines: 95 % intervals.")
    return Group(
        Text.assemble((comparison.scenario, "bold"), f", {ENGINES[comparison.engine]}, {repeats}"),
        Text(),
        _jobs_side_by_side(comparison),
        Text(),
        _cluster_side_by_side(comparison),
        Text(),
        legend,
        *_doubts(comparison),
    )


def seconds(values: Sequence[float | None]) -> list[str]:
    """Times in one unit and with one number of decimals, three digits of the smallest; '-' for None."""
    sizes = [abs(value) for value in values if value is not None and abs(value) >= 5e-8]
    if not sizes:
        return [NOTHING if value is None else "0 s" for value in values]
    # One that is much larger than the smallest would be a long row of digits in the smallest one's unit.
    size = max(min(sizes), max(sizes) / 1000)
    unit, scale, _ = next(entry for entry in reversed(UNITS) if size >= entry[2])
    decimals = 2 if size < 10 * scale else 1 if size < 100 * scale else 0
    return [NOTHING if value is None else f"{_rounded(value / scale, decimals)} {unit}" for value in values]


def ratio(value: float | None) -> str:
    """A slowdown: 1.47."""
    return NOTHING if value is None else _rounded(value, 2)


def percent(value: float | None) -> str:
    """A fraction as a percentage: 31.4 %."""
    return NOTHING if value is None else f"{_rounded(100 * value, 1)} %"


def _jobs_side_by_side(comparison: Comparison) -> Table:
    table = _table("job", "policy")
    for header in ("iteration", "communi-\ncation", "training", "slow-\ndown"):
        _column(table, header)
    if comparison.against_fair:
        _column(table, "training\nsaved")
        _column(table, "communi-\ncation\nsaved")
    for name, job in comparison.jobs.items():
        figures: list[JobFigures] = [job.isolated, *job.policies.values()]
        columns = [
            ["isolated", *job.policies],
            seconds([figure.iteration_s for figure in figures]),
            seconds([figure.communication_s for figure in figures]),
            seconds([figure.training_s for figure in figures]),
            [ratio(figure.slowdown) for figure in figures],
        ]
        if comparison.against_fair:
            saved = [entry.jobs[name] if (entry := comparison.against_fair.get(p)) else None for p in job.policies]
            columns.append(["", *("" if entry is None else percent(entry.training_reduction) for entry in saved)])
            columns.append(["", *("" if entry is None else percent(entry.communication_reduction) for entry in saved)])
        table.add_row(Text(name), *map(_first_line_dim, columns), end_section=True)
    return table


def _cluster_side_by_side(comparison: Comparison) -> Table:
    table = _table("all jobs")
    for header in ("training", "communi-\ncation", "make-\nspan", "S", "GPUs\nbusy"):
        _column(table, header)
    if comparison.against_fair:
        for header in ("training\nsaved", "worst\njob", "conten-\ntion\nremoved"):
            _column(table, header)
    policies = comparison.policies.values()
    times = zip(
        seconds([policy.training_s.median for policy in policies]),
        seconds([policy.communication_s.median for policy in policies]),
        seconds([policy.makespan_s.median for policy in policies]),
        strict=True,
    )
    for (name, policy), texts in zip(comparison.policies.items(), times, strict=True):
        cells = [
            Text(name),
            *map(Text, texts),
            _estimate(policy.S, ratio),
            Text(percent(policy.gpu_utilization.median)),
        ]
        if against := comparison.against_fair.get(name):
            saved = Estimate(against.training_reduction, against.training_reduction_ci95)
            worst, removed = against.worst_job_training_reduction, against.contention_removed
            cells += [_estimate(saved, percent), Text(percent(worst)), Text(percent(removed))]
        table.add_row(*cells)
    return table


def _estimate(estimate: Estimate, text: Callable[[float | None], str]) -> Text:
    """The median and, below it, its interval."""
    if estimate.ci95 is None:
        return Text(text(estimate.median))
    low, high = (text(end).removesuffix(" %") for end in estimate.ci95)
    return Text.assemble(text(estimate.median), "\n", (f"{low}..{high}", "dim"))


def _cluster(cluster: Cluster) -> Table:
    table = _table("")
    for header in ("training", "communi-\ncation", "makespan", "S", "worst\nslowdown", "GPUs\nbusy", "links\nbusy"):
        _column(table, header)
    times = [seconds([time])[0] for time in (cluster.training_s, cluster.communication_s, cluster.makespan_s)]
    slowdowns = [ratio(cluster.S), ratio(cluster.max_slowdown)]
    busy = [percent(cluster.gpu_utilization), percent(cluster.network_utilization)]
    table.add_row("all jobs", *times, *slowdowns, *busy)
    return table


def _legend(sources: Iterable[str | None]) -> Text:
    known = sorted({source for source in sources if source})
    text = "S: mean slowdown, weighted by GPUs."
    return Text(f"{text} Isolated times: {' or '.join(known)}." if known else text)


def _unfinished(job: JobResult) -> Text:
    done = f"{job.name} {job.status} after {job.iterations_done} of {job.iterations} iterations"
    return Text(f"{done}: {job.error}" if job.error else done, style="red")


def _verdict(fidelity: Fidelity) -> RenderableType:
    lines = [Text.assemble("Verdict: ", (fidelity.verdict, VERDICT_STYLES[fidelity.verdict]))]
    return Group(*lines, *(Padding(Text(f"- {reason}"), (0, 0, 0, 2)) for reason in fidelity.reasons))


def _doubts(comparison: Comparison) -> list[Text]:
    """What must be known before the figures are trusted: runs that failed, verdicts that are not good."""
    doubts = []
    for name, policy in comparison.policies.items():
        if policy.failed:
            text = f"{name}: a job failed in {policy.failed} of {comparison.repeats} runs, which are left out"
            doubts.append(Text(text, style="red"))
    verdicts: dict[Verdict, list[str]] = {}
    for name, policy in comparison.policies.items():
        verdicts.setdefault(policy.verdict, []).append(name)
    for verdict, names in verdicts.items():
        who = "all runs" if len(verdicts) == 1 else f"worst run of {', '.join(names)}"
        doubts.append(Text.assemble("Verdict: ", (verdict, VERDICT_STYLES[verdict]), f" ({who})"))
        for name in names:
            doubts += [Text(f"  - {name}: {reason}") for reason in comparison.policies[name].reasons]
    return doubts


def _table(*names: str) -> Table:
    """A table whose first columns hold names, which fold where they are long."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for name in names:
        table.add_column(name, overflow="fold", min_width=NAME_WIDTH)
    return table


def _column(table: Table, header: str, style: str = "") -> None:
    table.add_column(header, justify="right", no_wrap=True, style=style)


def _first_line_dim(lines: Sequence[str]) -> Text:
    return Text("\n").join([Text(lines[0], style="dim"), *map(Text, lines[1:])])


def _mean(statistics: Statistics | None) -> float | None:
    return None if statistics is None else statistics.mean


def _rounded(value: float, decimals: int) -> str:
    """As '%f', but never '-0.00'."""
    return f"{round(value, decimals) + 0.0:.{decimals}f}"
