"""Several scenarios' comparisons in one Markdown table: how much of the contention each policy removes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from harmonics_emu import __version__
from harmonics_emu.results.comparison import FAIR
from harmonics_emu.results.schema import AgainstFair, Comparison
from harmonics_emu.results.tables import ENGINES, NOTHING, ratio

WORSE_OFF = -0.02
"""A job that loses more than this fraction of its time against fair sharing counts as worse off."""


def suite_markdown(comparisons: Sequence[Comparison], date: str) -> str:
    """A page with one row a scenario and one column a policy but fair, all of the same engine and repeats.

    Each cell: contention removed and, in brackets, what the worst job saves of its training time (below 0: it loses),
    both against fair sharing and as medians over repeats. ValueError without fair, or for differing comparisons.
    """
    first = comparisons[0]
    policies = [name for name in first.policies if name != FAIR]
    for comparison in comparisons:
        same = (comparison.engine, comparison.repeats, list(comparison.policies))
        if FAIR not in comparison.policies or same != (first.engine, first.repeats, list(first.policies)):
            raise ValueError(f"the comparison of {comparison.scenario} lacks fair, or is unlike the one before it")
    rows = [["scenario", "S, fair", *policies], ["---", "--:", *["--:"] * len(policies)]]
    for comparison in comparisons:
        fair = ratio(comparison.policies[FAIR].S.median)
        rows.append([comparison.scenario, fair, *(_cell(comparison, policy) for policy in policies)])
    summaries = (
        ("**median**", _middle),
        ("**least**", _least),
        ("**of achievable, median**", _of_achievable),
        ("**jobs worse off**", _worse_off),
    )
    for title, summary in summaries:
        against = [[comparison.against_fair[policy] for comparison in comparisons] for policy in policies]
        rows.append([title, "", *(f"**{summary(entries)}**" for entries in against)])
    repeats = "one repeat" if first.repeats == 1 else f"medians of {first.repeats} repeats"
    seeds = "its own seed" if first.repeats == 1 else f"its own seed and the {first.repeats - 1} after it"
    return (
        f"{ENGINES[first.engine].capitalize()} on {date} with version {__version__}: {repeats}, each scenario with "
        f"{seeds}.\nPer cent of contention removed and, in brackets, of training time that the worst job saves.\n\n"
        + "\n".join(f"| {' | '.join(row)} |" for row in rows)
        + "\n"
    )


def _cell(comparison: Comparison, policy: str) -> str:
    if failed := comparison.policies[policy].failed:
        return f"failed in {failed}"
    against = comparison.against_fair[policy]
    return f"{_percent(against.contention_removed)} ({_percent(against.worst_job_training_reduction)})"


def _middle(entries: Sequence[AgainstFair]) -> str:
    removed, worst = _removed(entries), _worst(entries)
    return f"{_percent(median(removed) if removed else None)} ({_percent(median(worst) if worst else None)})"


def _least(entries: Sequence[AgainstFair]) -> str:
    return f"{_percent(min(_removed(entries), default=None))} ({_percent(min(_worst(entries), default=None))})"


def _of_achievable(entries: Sequence[AgainstFair]) -> str:
    known = [entry.of_achievable for entry in entries if entry.of_achievable is not None]
    return _percent(median(known) if known else None)


def _worse_off(entries: Sequence[AgainstFair]) -> str:
    """Of all jobs of all scenarios, how many lose against fair sharing."""
    saved = [job.training_reduction for entry in entries for job in entry.jobs.values()]
    known = [value for value in saved if value is not None]
    return f"{sum(value < WORSE_OFF for value in known)} of {len(known)}"


def _removed(entries: Sequence[AgainstFair]) -> list[float]:
    return [entry.contention_removed for entry in entries if entry.contention_removed is not None]


def _worst(entries: Sequence[AgainstFair]) -> list[float]:
    return [entry.worst_job_training_reduction for entry in entries if entry.worst_job_training_reduction is not None]


def _percent(fraction: float | None) -> str:
    return NOTHING if fraction is None else f"{round(100 * fraction) + 0:d}"
