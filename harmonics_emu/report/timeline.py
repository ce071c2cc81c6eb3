"""Each job's iterations over time: compute, wait for slower ranks, gate, communication."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harmonics_emu.evidence.recorded_run import Iterations
from harmonics_emu.report.markup import Markup, element, number

KINDS = {
    "compute": "compute",
    "straggler": "wait for slower ranks",
    "gate": "gate",
    "communication": "communication",
}
FIRST_LOOK = 25
"""Iterations of the job with the shortest ones that the timeline shows at first."""
MOST_LANES, MOST_ITERATIONS = 60, 3000
TICKS = 6
MOVES = {
    "back": ("◀", "Earlier"),
    "on": ("▶", "Later"),
    "in": ("+", "Zoom in"),
    "out": ("−", "Zoom out"),
    "all": ("all", "Whole run"),
}


def timeline(iterations: Mapping[str, Iterations], end_s: float, look_s: float | None = None) -> Markup:
    """A lane for each job, from 0 to end_s, of which it shows up to look_s at first.

    Where a program does not report its compute, all of its iteration is communication.
    """
    shown = dict(list(iterations.items())[:MOST_LANES])
    first_s = first_look_s(shown, end_s) if look_s is None else look_s
    lanes = [
        element(
            "div",
            element("span", job, title=job),
            element(
                "svg",
                [path_of(kind, boxes) for kind, boxes in boxes_of(rows).items()],
                viewBox=f"0 0 {number(first_s)} 1",
                preserveAspectRatio="none",
                role="img",
                aria_label=_label(job, rows),
            ),
            class_="lane",
        )
        for job, rows in shown.items()
    ]
    ticks = [
        element("span", f"{first_s * i / (TICKS - 1):.2f} s", style=f"left:{100 * i / (TICKS - 1):g}%")
        for i in range(TICKS)
    ]
    buttons = [
        element("button", sign, type="button", data_move=move, aria_label=what, title=what)
        for move, (sign, what) in MOVES.items()
    ]
    left_out = []
    if len(iterations) > len(shown):
        left_out.append(f"{len(iterations) - len(shown)} more jobs are not drawn.")
    if any(len(rows.end_s) > MOST_ITERATIONS for rows in shown.values()):
        left_out.append(f"Only the first {MOST_ITERATIONS} iterations of each job are drawn.")
    return element(
        "figure",
        element("div", buttons),
        lanes,
        element("div", ticks, class_="axis"),
        element("figcaption", _legend(), " ".join(left_out)),
        class_="timeline",
        data_end=number(end_s),
        data_to=number(first_s),
        tabindex="0",
        role="group",
        aria_label="Timeline of the jobs' iterations. Plus and minus zoom, arrows move, 0 shows the whole run.",
    )


def first_look_s(iterations: Mapping[str, Iterations], end_s: float) -> float:
    """To where a timeline shows some iterations in full: FIRST_LOOK of the job with the shortest ones."""
    shortest = min((float(np.median(rows.times.iteration_s)) for rows in iterations.values()), default=end_s)
    begin = min((float(rows.start_s[0]) for rows in iterations.values()), default=0.0)
    return max(1e-3, min(end_s, begin + FIRST_LOOK * shortest))


def boxes_of(rows: Iterations) -> dict[str, np.ndarray]:
    """(n, 2) start and length of each part of each iteration that takes any time."""
    times = rows.times
    compute, straggler, gate = (np.nan_to_num(x) for x in (times.compute_s, times.straggler_s, times.gate_s))
    found = {}
    start = rows.start_s.copy()
    for kind, length in (("compute", compute), ("straggler", straggler), ("gate", gate)):
        found[kind] = np.column_stack([start, np.minimum(length, rows.end_s - start)])
        start = np.minimum(start + length, rows.end_s)
    found["communication"] = np.column_stack([start, rows.end_s - start])
    return {kind: boxes[:MOST_ITERATIONS][boxes[:MOST_ITERATIONS, 1] > 1e-6] for kind, boxes in found.items()}


def path_of(kind: str, boxes: np.ndarray) -> Markup | None:
    """All boxes of one kind as one path, from 0 to 1 in height; None where there are none."""
    if not len(boxes):
        return None
    drawn = "".join(f"M{start:.5f} 0h{length:.5f}v1h-{length:.5f}z" for start, length in boxes.tolist())
    return element("path", d=drawn, class_=kind)


def _label(job: str, rows: Iterations) -> str:
    return f"{job}: {len(rows.end_s)} iterations from {rows.start_s[0]:.2f} s to {rows.end_s[-1]:.2f} s"


def _legend() -> Markup:
    entries = [element("span", element("i", class_=kind), what) for kind, what in KINDS.items()]
    return element("div", entries, class_="legend")
