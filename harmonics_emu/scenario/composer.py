"""Builds a tree from YAML that strangers wrote: bounded in depth and size, and aware of every position.

PyYAML's parser gives the events; the tree is built here rather than by its composer, which recurses with the file's
nesting and keeps the last of two equal keys without a word. Plain scalars are read by YAML 1.2's core rules, so
`no` and `12:30` are text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from harmonics_emu.scenario.problems import Problem, dotted, printable

MAX_DEPTH = 32
MAX_VALUES = 100_000

Scalar = str | int | float | bool | None

PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it, else PyYAML's own: the same events, some twenty times slower."""

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_CONSTANTS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(slots=True, eq=False)
class Node:
    """A value: a scalar, a list of nodes or a mapping of nodes. Lines and columns count from 1."""

    value: Scalar | list[Node] | dict[str, Node]
    line: int
    column: int
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Line and column of each key of a mapping."""


class Unreadable(Exception):
    """No scenario can be read from this; `problems` says why."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems[-1].what)
        self.problems = problems


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet. `key`: the key, with its position, that waits for its value."""

    node: Node
    step: str | int | None
    key: tuple[str, int, int] | None = None


def resolve_scalar(text: str) -> Scalar:
    """The value of a plain (unquoted) scalar; numbers beyond 18 digits become floats."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return math.nan if _NOT_FINITE.fullmatch(text) else text


class Composer:
    """Composes one document. `problems` holds mistakes that don't keep the rest of it from being read."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._root: Node | None = None
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._values = 0

    def compose(self, text: str) -> Node | None:
        """The document's root, None if there is no document. Unreadable where it can't be, or mustn't be, read."""
        for event in self._events(text):
            if isinstance(event, yaml.DocumentStartEvent):
                if self._root is not None:
                    self._refuse(event, "a second document begins here", "one file holds one scenario: remove the ---")
            elif isinstance(event, yaml.NodeEvent):
                self._compose_node(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._open.pop()
        return self._root

    def _events(self, text: str) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(text, Loader=PARSER)
        except (yaml.YAMLError, ValueError) as error:  # PyYAML's own parser lets chr() and int() raise ValueError
            mark = getattr(error, "problem_mark", None)
            parts = (getattr(error, "context", None), getattr(error, "problem", None))
            what = printable(", ".join(filter(None, parts)) or str(error))
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            tabbed = any(re.match(r" *\t", written) for written in text.split("\n")[line - 1 : line])
            hint = "indent with spaces, not tabs" if tabbed else None
            raise Unreadable(*self.problems, Problem(line, column, "", f"not valid YAML: {what}", hint)) from None

    def _compose_node(self, event: yaml.NodeEvent) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            self._refuse(event, f"the file holds more than {MAX_VALUES} values")
        if isinstance(event, yaml.AliasEvent):
            self._attach(self._aliased(event), event)
            return
        tag: str | None = event.tag  # type: ignore[attr-defined]
        if tag is not None:
            self._note(event, f"the YAML tag {printable(tag)} is not allowed", "remove the tag")
        if isinstance(event, yaml.ScalarEvent):
            node = Node(self._scalar(event), *_start(event))
        elif len(self._open) < MAX_DEPTH:
            node = Node([] if isinstance(event, yaml.SequenceStartEvent) else {}, *_start(event))
        else:
            self._refuse(event, f"values are nested more than {MAX_DEPTH} deep")
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        step = self._attach(node, event)
        if not isinstance(event, yaml.ScalarEvent):
            self._open.append(_Open(node, step))

    def _attach(self, node: Node, event: yaml.NodeEvent) -> str | int | None:
        """Put a node where it belongs, and return its key or position there."""
        if not self._open:
            self._root = node
            return None
        parent = self._open[-1]
        siblings = parent.node.value
        if isinstance(siblings, list):
            siblings.append(node)
            return len(siblings) - 1
        assert isinstance(siblings, dict)
        if parent.key is None:
            parent.key = (self._key_text(node, event), *_start(event))
            return None
        name, line, column = parent.key
        parent.key = None
        if name in siblings:
            path = dotted((*self._location(), name))
            hint = f"it stands on line {parent.node.keys[name][0]} too"
            self.problems.append(Problem(line, column, path, "this key is given twice", hint))
        else:
            siblings[name] = node
            parent.node.keys[name] = line, column
        return name

    def _key_text(self, node: Node, event: yaml.NodeEvent) -> str:
        if isinstance(event, yaml.ScalarEvent):
            return str(event.value)
        if isinstance(node.value, str):
            return node.value
        self._refuse(event, "a key must be plain text")

    def _aliased(self, event: yaml.AliasEvent) -> Node:
        anchor = event.anchor or ""
        node = self._anchors.get(anchor)
        if node is None:
            self._refuse(event, f"no value above is marked &{printable(anchor)}")
        if any(node is parent.node for parent in self._open):
            self._refuse(event, f"the value marked &{printable(anchor)} contains itself")
        return node

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        text = str(event.value)
        bad = _UNPRINTABLE.search(text)
        if bad:
            self._note(event, f"this text holds the control character U+{ord(bad[0]):04X}", "remove it")
            return _UNPRINTABLE.sub("?", text)
        value = text if event.style else resolve_scalar(text)
        if isinstance(value, float) and not math.isfinite(value):
            self._note(event, f"{printable(text)} is not a finite number")
            return text
        return value

    def _location(self) -> tuple[str | int, ...]:
        """Where the innermost open list or mapping is."""
        return tuple(parent.step for parent in self._open if parent.step is not None)

    def _note(self, event: yaml.NodeEvent, what: str, hint: str | None = None) -> None:
        self.problems.append(self._problem(event, what, hint))

    def _refuse(self, event: yaml.Event, what: str, hint: str | None = None) -> NoReturn:
        raise Unreadable(*self.problems, self._problem(event, what, hint))

    def _problem(self, event: yaml.Event, what: str, hint: str | None) -> Problem:
        location = self._location()
        if self._open:
            parent = self._open[-1]
            if isinstance(parent.node.value, list):
                location = (*location, len(parent.node.value))
            elif parent.key is not None:
                location = (*location, parent.key[0])
        return Problem(*_start(event), dotted(location), what, hint)


def _start(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    assert mark is not None
    return mark.line + 1, mark.column + 1
