"""The page of a comparison: policies side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harmonics_emu.evidence.recorded_run import RecordedRun, load_recorded_run
from harmonics_emu.report import facts
from harmonics_emu.report.markup import Child, Markup, element, table
from harmonics_emu.report.page import Section, page
from harmonics_emu.report.run_report import distributions, end_of, link_figure
from harmonics_emu.report.timeline import first_look_s, timeline
from harmonics_emu.results.run_directory import MANIFEST, file_name
from harmonics_emu.results.schema import Comparison, Estimate, Fidelity, UnreadableResult, read_comparison
from harmonics_emu.results.tables import ENGINES, percent, ratio, seconds
from harmonics_emu.scenario.policy_choice import labelled

BAR, GAP, LEFT, WIDTH = 22.0, 8.0, 160.0, 560.0


def comparison_report(directory: Path) -> str:
    """The HTML document of a comparison, from its directory's files alone. Timelines are of each first repeat."""
    comparison = read_comparison(directory)
    manifest = read_manifest(directory)
    runs = first_runs(directory, comparison, manifest)
    end_s = max((end_of(run) for run in runs.values()), default=1.0)
    look_s = max((first_look_s(run.iterations, end_s) for run in runs.values()), default=end_s)
    longest_s = _longest_iteration_s(runs)
    scenario = (
        (directory / "scenario.yaml").read_text(encoding="utf-8") if (directory / "scenario.yaml").is_file() else ""
    )
    sections = [
        Section("summary", "Summary", [slowdowns(comparison), _policies(comparison), _jobs(comparison)]),
        Section("timeline", "Timelines", _stacked(runs, lambda run: timeline(run.iterations, end_s, look_s))),
        Section("links", "Links", _stacked(runs, link_figure)),
        Section("iterations", "Iteration times", _stacked(runs, lambda run: distributions(run, longest_s))),
        Section("settings", "Settings", facts.settings(manifest, scenario)),
    ]
    repeats = "one repeat" if comparison.repeats == 1 else f"{comparison.repeats} repeats, medians and 95 % intervals"
    verdicts = [
        element("div", element("strong", name), facts.verdict(Fidelity(verdict=policy.verdict, reasons=policy.reasons)))
        for name, policy in comparison.policies.items()
    ]
    lead = [
        element("p", f"{ENGINES[comparison.engine].capitalize()}, {repeats}.", class_="muted"),
        element("div", verdicts, class_="verdicts"),
    ]
    return page(f"{comparison.scenario}: {', '.join(comparison.policies)}", lead, sections)


def first_runs(directory: Path, comparison: Comparison, manifest: Mapping[str, Any]) -> dict[str, RecordedRun]:
    """The first repeat of each policy, as far as its directory is there."""
    given = manifest.get("settings", {}).get("policies", list(comparison.policies))
    folders = {label: directory / file_name(choice.text) / "0" for label, choice in labelled(given).items()}
    return {
        label: load_recorded_run(folder)
        for label, folder in folders.items()
        if label in comparison.policies and (folder / "result.json").is_file()
    }


def read_manifest(directory: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode((directory / MANIFEST).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise UnreadableResult(f"{directory / MANIFEST} can't be read: {error}") from None


def _longest_iteration_s(runs: Mapping[str, RecordedRun]) -> float:
    """The 99th percentile of the slowest job: all histograms share its scale, and one outlier does not set it."""
    values = [
        float(np.percentile(rows.times.iteration_s, 99)) for run in runs.values() for rows in run.iterations.values()
    ]
    return float(max(values, default=1.0))


def _stacked(runs: Mapping[str, RecordedRun], draw: Any) -> Child:
    return [[element("h3", name), draw(run)] for name, run in runs.items()] or element("p", "The runs are not there.")


def slowdowns(comparison: Comparison) -> Markup:
    """S of each policy as bars from 1 on, with intervals."""
    values = {name: policy.S for name, policy in comparison.policies.items()}
    known = [
        end for estimate in values.values() for end in (estimate.median, *(estimate.ci95 or ())) if end is not None
    ]
    most: float = max([1.05, *known])

    def at(value: float) -> float:
        return LEFT + WIDTH * (max(1.0, value) - 1) / (most - 1)

    drawn = []
    for place, (name, estimate) in enumerate(values.items()):
        top = place * (BAR + GAP)
        drawn.append(element("text", name, x=LEFT - 8, y=top + BAR - 6, text_anchor="end"))
        if estimate.median is None:
            continue
        drawn.append(element("rect", x=LEFT, y=top, width=at(estimate.median) - LEFT, height=BAR, class_="bar"))
        if estimate.ci95 is not None:
            low, high = (at(end) for end in estimate.ci95)
            drawn.append(element("line", x1=low, x2=high, y1=top + BAR / 2, y2=top + BAR / 2, class_="mark"))
        drawn.append(element("text", ratio(estimate.median), x=LEFT + WIDTH + 45, y=top + BAR - 6, text_anchor="end"))
    height = len(values) * (BAR + GAP)
    picture = element(
        "svg",
        drawn,
        viewBox=f"0 0 {LEFT + WIDTH + 50:g} {height:g}",
        role="img",
        aria_label="Mean slowdown S of each policy, from 1",
    )
    return element(
        "figure",
        picture,
        element("figcaption", "S, the mean slowdown weighted by GPUs; a bar begins at 1, which is no slowdown."),
    )


def _policies(comparison: Comparison) -> Markup:
    columns = ["policy", "training", "communication", "makespan", "S", "GPUs busy"]
    if comparison.against_fair:
        columns += ["training saved", "communication saved", "worst job saved", "contention removed", "of achievable"]
    rows = []
    for name, policy in comparison.policies.items():
        row: list[Child] = [
            name,
            *(seconds([e.median])[0] for e in (policy.training_s, policy.communication_s, policy.makespan_s)),
        ]
        row += [_interval(policy.S), percent(policy.gpu_utilization.median)]
        if comparison.against_fair:
            against = comparison.against_fair.get(name)
            row += (
                [
                    percent(value)
                    for value in (
                        against.training_reduction,
                        against.communication_reduction,
                        against.worst_job_training_reduction,
                        against.contention_removed,
                        against.of_achievable,
                    )
                ]
                if against
                else [""] * 5
            )
        rows.append(row)
    return table(columns, rows, caption="All jobs. Saved: less time than under fair sharing.")


def _jobs(comparison: Comparison) -> Markup:
    rows = []
    for job, figures in comparison.jobs.items():
        for label, figure in (("isolated", figures.isolated), *figures.policies.items()):
            times = [seconds([value])[0] for value in (figure.iteration_s, figure.communication_s, figure.training_s)]
            rows.append([job, label, *times, ratio(figure.slowdown)])
    return table(
        ("job", "policy", "iteration", "communication", "training", "slowdown"), rows, caption="Each job.", names=2
    )


def _interval(estimate: Estimate) -> str:
    if estimate.ci95 is None:
        return ratio(estimate.median)
    return f"{ratio(estimate.median)} ({ratio(estimate.ci95[0])} to {ratio(estimate.ci95[1])})"
