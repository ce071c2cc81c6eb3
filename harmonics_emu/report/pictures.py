"""SVG to PNG, with the library resvg (extra `plots`)."""

from __future__ import annotations

from functools import cache

from harmonics_emu.errors import HarmonicsError

WIDTH = 1800
"""Pixels: twice what a page shows."""
FAMILIES = ("DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica", "Verdana")
PROBE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20">{}</svg>'


def png_available() -> bool:
    """Whether the extra `plots` is installed."""
    try:
        import resvg_py
    except ImportError:
        return False
    return bool(resvg_py)


def png_of(svg: str) -> bytes:
    """The picture on white, WIDTH pixels wide. HarmonicsError where the machine has no font for its text."""
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=svg, width=WIDTH, background="#ffffff", sans_serif_family=_family()))


@cache
def _family() -> str:
    """A font that is there. The library leaves text out without a word where its font is not."""
    import resvg_py

    blank = resvg_py.svg_to_bytes(svg_string=PROBE.format(""))
    text = PROBE.format('<text x="0" y="15" font-family="sans-serif">x</text>')
    for family in FAMILIES:
        if resvg_py.svg_to_bytes(svg_string=text, sans_serif_family=family) != blank:
            return family
    raise HarmonicsError(f"no font to draw text with; install one of {', '.join(FAMILIES)}")
