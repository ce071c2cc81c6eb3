"""The contention matrix: for how long each pair of jobs communicated on one link at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harmonics_emu.evidence.contention import Use, contention_matrix
from harmonics_emu.report.markup import Markup, element, table
from harmonics_emu.results.tables import percent

MOST_JOBS = 24


def contention_table(jobs: Sequence[str], links: Mapping[str, Mapping[str, Use]]) -> Markup:
    """Rows and columns are jobs; a cell is the part of the row's communication during which the column's was there."""
    shown = [job for job in jobs if any(job in uses for uses in links.values())]
    if len(shown) < 2:
        return element("p", "Fewer than two jobs communicated over links.")
    shown = shown[:MOST_JOBS]
    kept = {link: {job: use for job, use in uses.items() if job in shown} for link, uses in links.items()}
    matrix = contention_matrix(shown, {link: uses for link, uses in kept.items() if uses})
    busy_s = [
        max(float((uses[job].busy[:, 1] - uses[job].busy[:, 0]).sum()) for uses in kept.values() if job in uses)
        for job in shown
    ]
    rows = []
    for a, job in enumerate(shown):
        cells: list[Markup | str] = [job]
        for b in range(len(shown)):
            part = float(matrix.seconds[a, b]) / busy_s[a] if busy_s[a] else 0.0
            shade = f"background:color-mix(in srgb, var(--heat) {round(60 * min(1.0, part))}%, transparent)"
            cells.append(
                "" if a == b else element("span", percent(part), style=shade, title=f"{matrix.seconds[a, b]:.3f} s")
            )
        rows.append(cells)
    more = f" Only the first {MOST_JOBS} jobs." if len(jobs) > MOST_JOBS else ""
    caption = f"Part of the row's communication during which the column's job communicated on a link of its own.{more}"
    return table(["", *shown], rows, caption=caption.replace("a link of its own", "a link of the row's"))
