"""SVG to PNG, with the library resvg (extra `plots`)."""

from __future__ import annotations

from functools import cache

WIDTH = 1800
"""Pixels: twice what a page shows."""
FAMILIES = ("DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica", "Verdana")
PROBE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20">{}</svg>'


def why_no_png() -> str | None:
    """What is missing for PNG, as what to do about it; None where nothing is."""
    try:
        import resvg_py
    except ImportError:
        return "for PNG: pip install 'harmonics-emu[plots]'"
    assert resvg_py
    return None if _family() else f"for PNG install a font, one of {', '.join(FAMILIES)}"


def png_of(svg: str) -> bytes:
    """The picture on white, WIDTH pixels wide, where `why_no_png` finds nothing missing."""
    import resvg_py

    family = _family()
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, width=WIDTH, background="#ffffff", sans_serif_family=family))


@cache
def _family() -> str | None:
    """A font that is there. The library leaves text out without a word where its font is not."""
    import resvg_py

    blank = resvg_py.svg_to_bytes(svg_string=PROBE.format(""))
    text = PROBE.format('<text x="0" y="15" font-family="sans-serif">x</text>')
    for family in FAMILIES:
        if resvg_py.svg_to_bytes(svg_string=text, sans_serif_family=family) != blank:
            return family
    return None
