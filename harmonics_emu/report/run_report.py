"""The page of one run."""

from __future__ import annotations

from collections.abc import Iterable

from harmonics_emu.evidence.attribution import explain
from harmonics_emu.evidence.link_spans import spans_on_links
from harmonics_emu.evidence.recorded_run import RecordedRun
from harmonics_emu.report import facts
from harmonics_emu.report.contention_table import contention_table
from harmonics_emu.report.distribution import distribution
from harmonics_emu.report.heat_map import heat_map
from harmonics_emu.report.markup import Child, element
from harmonics_emu.report.page import Section, page
from harmonics_emu.report.timeline import timeline

MOST_DISTRIBUTIONS = 60


def run_report(recorded: RecordedRun) -> str:
    """The HTML document of a run, from its directory's files alone."""
    result, records = recorded.run.result, recorded.run.records
    links = spans_on_links(recorded)
    sections = [
        Section("summary", "Summary", facts.summary(result)),
        Section("timeline", "Timeline", timeline(recorded.iterations, end_of(recorded))),
        Section("explanation", "Why iterations were slow", facts.explanations(explain(recorded))),
        Section("links", "Links", link_figure(recorded)),
        Section("contention", "Contention", contention_table([job.name for job in result.jobs], links)),
        Section("iterations", "Iteration times", distributions(recorded)),
        Section("decisions", "Decisions", facts.decisions(records.decisions)),
        Section("rules", "Rules", facts.rules(records.rules)),
        Section("settings", "Settings", facts.settings(recorded.run.manifest, recorded.run.scenario)),
    ]
    lead = [element("p", facts.about(result), class_="muted"), facts.verdict(result.fidelity)]
    return page(f"{result.scenario} under {result.policy}", lead, sections)


def end_of(recorded: RecordedRun) -> float:
    """When the last iteration ended."""
    return max((float(rows.end_s.max()) for rows in recorded.iterations.values()), default=1.0)


def link_figure(recorded: RecordedRun) -> Child:
    figure = heat_map(recorded.run.records.links, recorded.fabric, end_of(recorded))
    return figure or element("p", "Link counters were not sampled in this run.")


def distributions(recorded: RecordedRun, most_s: float | None = None, jobs: Iterable[str] | None = None) -> Child:
    """A histogram for each job, without its warm-up."""
    warmup = {job.name: job.warmup for job in recorded.jobs}
    names = [name for name in recorded.iterations if jobs is None or name in jobs]
    figures = [
        distribution(
            name,
            recorded.iterations[name].times.after(warmup[name]).iteration_s,
            recorded.result(name).isolated_iteration_s,
            most_s,
        )
        for name in names[:MOST_DISTRIBUTIONS]
    ]
    return element("div", figures, class_="multiples")
