"""HTML and SVG as escaped text: whatever a scenario is named, it can't become markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

VOID = frozenset(("br", "col", "hr", "input", "link", "meta"))


class Markup(str):
    """Text that is markup already; other text is escaped where it is put into an element."""

    __slots__ = ()


Child: TypeAlias = "str | Markup | Iterable[Child] | None"
Value: TypeAlias = "str | float | bool | None"


def element(name: str, /, *children: Child, **attributes: Value) -> Markup:
    """An element. Attributes: `class_` for class, '_' for '-'; None and False leave one out, True gives a bare one."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = "" if value is True else f'="{escape(number(value) if isinstance(value, float) else str(value))}"'
        parts.append(f" {key.rstrip('_').replace('_', '-')}{shown}")
    parts.append(">")
    if name in VOID:
        return Markup("".join(parts))
    return Markup("".join(parts) + joined(children) + f"</{name}>")


def joined(children: Child) -> Markup:
    """Children one after the other, escaped unless they are markup."""
    if children is None:
        return Markup()
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(escape(children, quote=False))
    return Markup("".join(joined(child) for child in children))


def number(value: float) -> str:
    """A coordinate, without digits that nobody sees."""
    return f"{value:.6g}"


def table(
    columns: Iterable[str], rows: Iterable[Iterable[Child]], *, caption: str | None = None, names: int = 1
) -> Markup:
    """A table whose first `names` columns hold names, the first of them the row's header."""
    head = element(
        "tr",
        [
            element("th", column, scope="col", class_=None if i < names else "number")
            for i, column in enumerate(columns)
        ],
    )
    body = []
    for row in rows:
        cells = []
        for i, cell in enumerate(row):
            kind = None if i < names else "number"
            cells.append(element("th", cell, scope="row") if i == 0 else element("td", cell, class_=kind))
        body.append(element("tr", cells))
    title = element("caption", caption) if caption else None
    return element(
        "div",
        element("table", title, element("thead", head), element("tbody", body)),
        class_="scroll",
        tabindex="0",
        role="group",
        aria_label=caption or "table",
    )
