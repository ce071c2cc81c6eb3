"""Goes through a large JSON file item by item, so that memory holds one item at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from workloads.traces.source import TraceError, chunks

MAX_ITEM_CHARS = 16 * 2**20
"""Longest single value: an event of a profile or a job of a log."""
_SPACE = " \t\n\r"


def stream_items(path: Path, key: str | None) -> Iterator[tuple[str, Any]]:
    """The items of the array that is the document (key None) or stands under `key` of it, as (key or '', item).

    Other values of the top-level object come as (their key, value). TraceError that counts the items before it for what
    is no JSON, nested too deeply, or longer than MAX_ITEM_CHARS.
    """
    return _Stream(path).items(key)


class _Stream:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._chunks = chunks(path)
        self._text = ""
        self._at = 0
        self._count = 0
        self._decoder = json.JSONDecoder()

    def items(self, key: str | None) -> Iterator[tuple[str, Any]]:
        if key is None:
            yield from (("", item) for item in self._array())
        else:
            self._expect("{")
            if self._peek() == "}":
                return
            while True:
                name = self._value()
                self._expect(":")
                if name == key and self._peek() == "[":
                    yield from ((key, item) for item in self._array())
                else:
                    yield str(name), self._value()
                if self._peek() != ",":
                    break
                self._expect(",")
            self._expect("}")
        if self._peek():
            self._refuse("more follows after the document's end")

    def _array(self) -> Iterator[Any]:
        self._expect("[")
        if self._peek() == "]":
            self._expect("]")
            return
        while True:
            yield self._value()
            self._count += 1
            if self._peek() != ",":
                break
            self._expect(",")
        self._expect("]")

    def _peek(self) -> str:
        """The next character that is no space; nothing at the end of the file."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def _more(self) -> bool:
        piece = next(self._chunks, None)
        if piece is None:
            return False
        self._text = self._text[self._at :] + piece
        self._at = 0
        return True

    def _expect(self, wanted: str) -> None:
        found = self._peek()
        if found != wanted:
            self._refuse(f"{wanted!r} is missing" + (f", {found!r} stands there" if found else ": the file ends here"))
        self._at += 1

    def _value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                self._refuse("values are nested too deeply")
            except ValueError as error:  # a cut-off value, or none at all
                if len(self._text) - self._at > MAX_ITEM_CHARS:
                    self._refuse(f"no value ends within {MAX_ITEM_CHARS:,} characters")
                if not self._more():
                    self._refuse(f"not JSON: {getattr(error, 'msg', error)}")
            else:
                # A number at the end of the buffer may go on in the next piece.
                if end < len(self._text) or not self._more():
                    self._at = end
                    return value

    def _refuse(self, what: str) -> NoReturn:
        raise TraceError(self._path, f"after {self._count:,} items: {what}")
