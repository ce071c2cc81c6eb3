"""How full each directed link was over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.report.markup import Markup, element, number
from topologies.fabric import Fabric

MOST_LINKS, BINS = 32, 120
ROW, LEFT, WIDTH, RIGHT = 15.0, 150.0, 800.0, 70.0
LEAST_SHOWN = 0.01


def utilisation(rows: NDArray[Any], rate_bps: float, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Part of a link's rate carried between edges, by its counters (dtype LINK_SAMPLE), evenly between samples."""
    carried = np.diff(np.interp(edges, rows["time_s"], rows["bytes"].astype(float)))
    parts: NDArray[np.float64] = np.clip(8 * carried / (rate_bps * np.diff(edges)), 0, 1)
    return parts


def heat_map(links: Mapping[str, NDArray[Any]], fabric: Fabric, end_s: float) -> Markup | None:
    """Rows are the busiest links, the busiest first; None without samples. end_s: where time ends."""
    edges = np.linspace(0, max(end_s, 1e-6), BINS + 1)
    sampled = {name: rows for name, rows in links.items() if len(rows) > 2 and name in fabric.links}
    parts = {name: utilisation(rows, fabric.links[name].rate_bps, edges) for name, rows in sampled.items()}
    busiest = sorted(parts, key=lambda name: (-float(parts[name].mean()), name))[:MOST_LINKS]
    if not busiest:
        return None
    step = WIDTH / BINS
    drawn = []
    for place, name in enumerate(busiest):
        top = place * ROW
        boxes = [
            element(
                "rect",
                x=LEFT + column * step,
                y=top,
                width=step + 0.3,
                height=ROW - 1,
                class_="heat",
                fill_opacity=round(float(part), 2),
            )
            for column, part in enumerate(parts[name].tolist())
            if part >= LEAST_SHOWN
        ]
        mean = f"{100 * float(parts[name].mean()):.0f} %"
        drawn.append(
            element(
                "g",
                element("title", f"{name}: {mean} of {fabric.links[name].rate_bps / 1e6:g} Mbit/s on average"),
                element(
                    "text", name if len(name) < 24 else name[:22] + "…", x=LEFT - 6, y=top + ROW - 4, text_anchor="end"
                ),
                element("rect", x=LEFT, y=top, width=WIDTH, height=ROW - 1, class_="track"),
                boxes,
                element("text", mean, x=LEFT + WIDTH + RIGHT - 4, y=top + ROW - 4, text_anchor="end"),
            )
        )
    bottom = len(busiest) * ROW
    ticks = [
        element("text", f"{end_s * i / 5:.3g} s", x=LEFT + WIDTH * i / 5, y=bottom + 14, text_anchor="middle")
        for i in range(6)
    ]
    picture = element(
        "svg",
        drawn,
        ticks,
        viewBox=f"0 0 {number(LEFT + WIDTH + RIGHT)} {number(bottom + 20)}",
        role="img",
        aria_label=f"Utilisation of {len(busiest)} links over time",
    )
    more = f" {len(parts) - len(busiest)} links that carried less are left out." if len(parts) > len(busiest) else ""
    return element("figure", picture, element("figcaption", f"Stronger: fuller. Right: mean of the whole time.{more}"))
