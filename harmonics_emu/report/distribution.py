"""How long a job's iterations took, as a histogram, with the time that one takes alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.report.markup import Markup, element
from harmonics_emu.results.tables import seconds

BINS = 40
WIDTH, HEIGHT, BASE = 320.0, 90.0, 74.0


def distribution(
    job: str, iteration_s: NDArray[np.float64], isolated_s: float | None, most_s: float | None = None
) -> Markup:
    """A histogram from zero to `most_s` (default: the longest iteration), so that several can share one scale."""
    values = iteration_s[np.isfinite(iteration_s)]
    longest = float(values.max()) if len(values) else 0.0
    most = max(longest if most_s is None else most_s, isolated_s or 0.0, 1e-9) * 1.02
    counts, _ = np.histogram(values, bins=BINS, range=(0, most))
    tallest = max(1, int(counts.max()))
    step = WIDTH / BINS
    bars = [
        element(
            "rect",
            element("title", f"{count} iterations from {', '.join(seconds([i * most / BINS]))}"),
            x=i * step,
            y=BASE - 70 * count / tallest,
            width=step - 0.7,
            height=70.0 * count / tallest,
            class_="bar",
        )
        for i, count in enumerate(counts.tolist())
        if count
    ]
    marks = []
    if isolated_s is not None:
        at = WIDTH * isolated_s / most
        marks.append(element("line", x1=at, x2=at, y1=0.0, y2=BASE, class_="mark", stroke_dasharray="3 3"))
    middle, slow = (float(np.percentile(values, q)) for q in (50, 99)) if len(values) else (0.0, 0.0)
    alone, median, p99 = seconds([isolated_s, middle, slow])
    told = f"median {median}, 99 % within {p99}, alone {alone}"
    picture = element(
        "svg",
        bars,
        marks,
        element("line", x1=0.0, x2=WIDTH, y1=BASE, y2=BASE, class_="grid"),
        element("text", "0", x=0.0, y=HEIGHT - 3),
        element("text", seconds([most])[0], x=WIDTH, y=HEIGHT - 3, text_anchor="end"),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        aria_label=f"{job}: {told}",
    )
    return element("figure", element("h3", job), picture, element("figcaption", f"{told} (dashed)"))
