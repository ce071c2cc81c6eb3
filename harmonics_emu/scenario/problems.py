"""What is wrong with a scenario file: one line a problem, all of them in one error."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from harmonics_emu.errors import UsageError

MAX_SHOWN = 50
"""Problems that an error lists; a file with more of them is not a scenario with mistakes."""
_MAX_CANDIDATES = 2000
_MAX_TEXT = 60

Location = tuple[str | int, ...]
"""Keys and list positions that lead to a value, as `("jobs", 1, "placement")`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where it is (line and column from 1, and the value's path), what is wrong, and what to do."""

    line: int
    column: int
    path: str
    what: str
    hint: str | None = None

    def text(self, source: str) -> str:
        """`file:line:col: jobs[1].placement: what is wrong; hint: what to do`"""
        path = f"{self.path}: " if self.path else ""
        hint = f"; hint: {self.hint}" if self.hint else ""
        return f"{source}:{self.line}:{self.column}: {path}{self.what}{hint}"


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something wrong at a location of the file."""

    location: Location
    what: str
    hint: str | None = None


class ScenarioError(UsageError):
    """A scenario that can't be used. `problems` holds every mistake found in it, empty if there is no file to read."""

    def __init__(self, message: str, source: str, problems: Iterable[Problem] = ()) -> None:
        super().__init__(message)
        self.source = source
        self.problems = tuple(problems)

    @classmethod
    def of(cls, source: str, problems: Collection[Problem]) -> ScenarioError:
        """The error that lists these problems in the order of the file."""
        name = printable(source)
        ordered = sorted(set(problems), key=lambda problem: (problem.line, problem.column, problem.path, problem.what))
        lines = [problem.text(name) for problem in ordered[:MAX_SHOWN]]
        if len(ordered) > 1:
            lines.insert(0, f"{name} has {len(ordered)} problems:")
        if len(ordered) > MAX_SHOWN:
            lines.append(f"... and {len(ordered) - MAX_SHOWN} more")
        return cls("\n".join(lines), source, ordered)


def dotted(location: Location) -> str:
    """`jobs[1].placement` of `("jobs", 1, "placement")`."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{printable(part)}" if path else printable(part)
    return path


def printable(text: str) -> str:
    """`text` with what a terminal would act on written as escapes, and cut where it is very long."""
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: 4 * _MAX_TEXT])
    return safe if len(text) <= 4 * _MAX_TEXT else safe + "..."


def shown(value: object) -> str:
    """A YAML value as an error message names it: short, and with its text in quotes."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{printable(value)}'" if len(value) <= _MAX_TEXT else f"'{printable(value[:_MAX_TEXT])}...'"
    if isinstance(value, (int, float)):
        return str(value)
    return "a list" if isinstance(value, (list, tuple)) else "a mapping"


def did_you_mean(word: str, known: Collection[str]) -> str:
    """A hint for a name that is not `known`: the nearest one, or else what there is."""
    if len(word) <= _MAX_TEXT:
        candidates = [name for name in known if abs(len(name) - len(word)) <= 3][:_MAX_CANDIDATES]
        lowered = {name.lower(): name for name in candidates}
        near = difflib.get_close_matches(word.lower(), lowered, n=5, cutoff=0.6)
        if near:
            swapped = sorted(word.lower())
            nearest = next((name for name in near if sorted(name) == swapped), near[0])
            return f"did you mean '{printable(lowered[nearest])}'?"
    first = [printable(name) for name, _ in zip(known, range(12), strict=False)]
    if not first:
        return "there are none"
    more = f", ... ({len(known)} in all)" if len(known) > len(first) else ""
    return f"there are: {', '.join(first)}{more}"
