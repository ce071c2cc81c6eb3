"""A scenario file as plain data that knows where each of its values stands."""

from __future__ import annotations

import re
from typing import Any

from harmonics_emu.scenario.composer import MAX_DEPTH, MAX_VALUES, Composer, Node, Unreadable
from harmonics_emu.scenario.problems import Location, Problem, dotted, shown

MAX_BYTES = 1_000_000

_NOT_YAML = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Document:
    """A YAML mapping: `data` is what it says, as plain dicts, lists and scalars. `gaps` are keys without a value."""

    def __init__(self, root: Node) -> None:
        expansion = _Expansion()
        self.root = root
        self.data: dict[str, Any] = expansion.plain(root, ())
        self.gaps = tuple(expansion.gaps)

    def problem(self, location: Location, what: str, hint: str | None = None, *, at_key: bool = False) -> Problem:
        """A problem of the value at `location`, or of its key; of what would hold it where it is not in the file."""
        node, position = self.root, (self.root.line, self.root.column)
        for part in location:
            if isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                position = node.line, node.column
            elif isinstance(node.value, dict) and isinstance(part, str) and part in node.value:
                key = node.keys[part]
                node = node.value[part]
                position = key if at_key or node.value is None else (node.line, node.column)
            else:
                break
        return Problem(*position, dotted(location), what, hint)


def read_document(raw: bytes) -> tuple[Document, list[Problem]]:
    """The document in a file's bytes, and the mistakes that didn't keep it from being read. Unreadable otherwise."""
    if len(raw) > MAX_BYTES:
        raise Unreadable(Problem(1, 1, "", f"the file is larger than {MAX_BYTES // 10**6} MB", "split the scenario"))
    text = _decode(raw)
    bad = _NOT_YAML.search(text)
    if bad:
        what = f"the file holds the control character U+{ord(bad[0]):04X}"
        raise Unreadable(Problem(*_position(text, bad.start()), "", what, "remove it"))
    composer = Composer()
    root = composer.compose(text)
    if root is None or root.value is None:
        raise Unreadable(
            *composer.problems, Problem(1, 1, "", "the file is empty", "`harmonics-emu scenarios` lists examples")
        )
    if not isinstance(root.value, dict):
        what = f"a scenario is a mapping (key: value), not {shown(root.value)}"
        raise Unreadable(*composer.problems, Problem(root.line, root.column, "", what))
    try:
        document = Document(root)
    except Unreadable as error:
        raise Unreadable(*composer.problems, *error.problems) from None
    gaps = [document.problem(gap, "has no value", "give it one, or remove it") for gap in document.gaps]
    return document, composer.problems + gaps


class _Expansion:
    """Plain data of a tree whose aliases are expanded: what they multiply counts against the limits too."""

    def __init__(self) -> None:
        self.values = 0
        self.gaps: list[Location] = []

    def plain(self, node: Node, location: Location) -> Any:
        self.values += 1
        if self.values > MAX_VALUES:
            what = f"aliases make more than {MAX_VALUES} values of this file"
            raise Unreadable(Problem(node.line, node.column, "", what, "write the values out"))
        if len(location) > MAX_DEPTH:
            raise Unreadable(Problem(node.line, node.column, "", f"aliases nest values more than {MAX_DEPTH} deep"))
        if isinstance(node.value, list):
            return [self.plain(item, (*location, index)) for index, item in enumerate(node.value)]
        if isinstance(node.value, dict):
            return {key: self.plain(item, (*location, key)) for key, item in node.value.items()}
        if node.value is None:
            self.gaps.append(location)
        return node.value


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        what = f"the file is not UTF-8 (byte 0x{error.object[error.start]:02x})"
        raise Unreadable(Problem(*_position(before, len(before)), "", what, "save it as UTF-8")) from None


def _position(text: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of a place in the text."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
