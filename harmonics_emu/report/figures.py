"""The figures of a run's report as SVG files of their own, for papers and slides."""

from __future__ import annotations

from collections.abc import Iterator

from harmonics_emu.evidence.recorded_run import RecordedRun
from harmonics_emu.report.markup import Markup, element, number
from harmonics_emu.report.run_report import distributions, end_of, link_figure
from harmonics_emu.report.timeline import KINDS, boxes_of, first_look_s, path_of
from harmonics_emu.results.run_directory import file_name

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
