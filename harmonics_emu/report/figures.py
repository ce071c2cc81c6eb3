"""The figures of a report as files of their own, for papers and slides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from harmonics_emu.evidence.recorded_run import RecordedRun
from harmonics_emu.ownership import Owner
from harmonics_emu.report.comparison_report import first_runs, read_manifest, slowdowns
from harmonics_emu.report.markup import Markup, element, number
from harmonics_emu.report.pictures import png_of, why_no_png
from harmonics_emu.report.run_report import distributions, end_of, link_figure
from harmonics_emu.report.timeline import KINDS, boxes_of, first_look_s, path_of
from harmonics_emu.results.run_directory import file_name, write_file
from harmonics_emu.results.schema import read_comparison

STYLE = (
    "text{font:11px sans-serif;fill:#444}.compute,.bar{fill:#3b6fb6}.straggler{fill:#9aa0a8}.gate{fill:#8a4fa3}"
    ".communication{fill:#d97a1b}.heat{fill:#c2410c}.track{fill:#f2f2f2}.grid{stroke:#bbb}"
    ".mark{stroke:#000;stroke-width:1.5}"
)
NAMESPACE = "http://www.w3.org/2000/svg"
LEFT, WIDTH, LANE, GAP = 130.0, 770.0, 20.0, 4.0


def figures(recorded: RecordedRun) -> Iterator[tuple[str, str]]:
    """File name and content of each: the timeline's first iterations, links, and iteration times of each job."""
    if recorded.iterations:
        yield "timeline.svg", _timeline(recorded)
    for place, picture in enumerate(_pictures(str(link_figure(recorded)))):
        yield ("links.svg" if place == 0 else f"links-{place}.svg"), _standalone(picture)
    for name, picture in zip(recorded.iterations, _pictures(str(distributions(recorded))), strict=False):
        yield f"iterations-{file_name(name)}.svg", _standalone(picture)


def write_figures(directory: Path, drawn: Iterable[tuple[str, str]], owner: Owner | None) -> str:
    """Write each figure as SVG, and as PNG where that is available; says in one line what was written."""
    missing, count = why_no_png(), 0
    for name, picture in drawn:
        count += 1
        write_file(directory, name, picture.encode(), owner)
        if missing is None:
            write_file(directory, name.removesuffix(".svg") + ".png", png_of(picture), owner)
    how = "SVG and PNG" if missing is None else f"SVG ({missing})"
    return f"Wrote {count} figures to {directory} as {how}"


def comparison_figures(directory: Path) -> Iterator[tuple[str, str]]:
    """Of a comparison: the policies' slowdowns, then the figures of each policy's first repeat, named after it."""
    comparison = read_comparison(directory)
    for picture in _pictures(str(slowdowns(comparison))):
        yield "slowdowns.svg", _standalone(picture)
    for label, recorded in first_runs(directory, comparison, read_manifest(directory)).items():
        for name, picture in figures(recorded):
            yield f"{file_name(label)}-{name}", picture


def _pictures(markup: str) -> Iterator[str]:
    """The svg elements in markup of this package, which nests none."""
    for part in markup.split("<svg")[1:]:
        yield "<svg" + part.partition("</svg>")[0] + "</svg>"


def _standalone(picture: str) -> str:
    return picture.replace("<svg", f'<svg xmlns="{NAMESPACE}"', 1).replace(">", f"><style>{STYLE}</style>", 1) + "\n"


def _timeline(recorded: RecordedRun) -> str:
    """As the report shows it at first, with names and legend inside the picture."""
    to_s = first_look_s(recorded.iterations, end_of(recorded))
    parts: list[Markup] = []
    for place, (job, rows) in enumerate(recorded.iterations.items()):
        top = place * (LANE + GAP)
        parts.append(element("text", job[:20], x=LEFT - 6, y=top + LANE - 6, text_anchor="end"))
        drawn = [path_of(kind, boxes) for kind, boxes in boxes_of(rows).items()]
        lane = element(
            "svg",
            drawn,
            x=LEFT,
            y=top,
            width=WIDTH,
            height=LANE,
            viewBox=f"0 0 {number(to_s)} 1",
            preserveAspectRatio="none",
        )
        parts.append(lane)
    bottom = len(recorded.iterations) * (LANE + GAP)
    for i in range(6):
        parts.append(
            element("text", f"{to_s * i / 5:.3g} s", x=LEFT + WIDTH * i / 5, y=bottom + 12, text_anchor="middle")
        )
    for i, (kind, what) in enumerate(KINDS.items()):
        at = LEFT + 170.0 * i
        parts.append(element("rect", x=at, y=bottom + 22, width=11.0, height=11.0, class_=kind))
        parts.append(element("text", what, x=at + 16, y=bottom + 32))
    size = f"0 0 {number(LEFT + WIDTH + 30)} {number(bottom + 40)}"
    return str(element("svg", element("style", Markup(STYLE)), parts, xmlns=NAMESPACE, viewBox=size)) + "\n"
