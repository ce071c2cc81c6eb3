"""The page around everything: style and script in it, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from harmonics_emu.report.markup import Child, Markup, element

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The browser itself refuses to load anything, so the page is the same offline."""


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading; `name` is its address in the page."""

    name: str
    title: str
    content: Child


def page(title: str, lead: Child, sections: Sequence[Section]) -> str:
    """The whole HTML document."""
    here = files("harmonics_emu.report")
    style, script = ((here / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    links = [element("a", section.title, href=f"#{section.name}") for section in sections]
    parts = [
        element(
            "section",
            element("h2", section.title, id=f"{section.name}-title"),
            section.content,
            id=section.name,
            aria_labelledby=f"{section.name}-title",
        )
        for section in sections
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", title),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("header", element("h1", title), lead),
        element("nav", links, aria_label="Sections"),
        element("main", parts),
        element("script", Markup(script)),
    )
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n"
