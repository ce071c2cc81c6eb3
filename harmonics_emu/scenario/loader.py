"""Finds scenario files, by path or by built-in name, and turns them into scenarios."""

from __future__ import annotations

import os
from importlib.resources import files

from harmonics_emu.input_file import IrregularFile, read_regular_file
from harmonics_emu.scenario.checks import check
from harmonics_emu.scenario.composer import Unreadable
from harmonics_emu.scenario.document import MAX_BYTES, read_document
from harmonics_emu.scenario.problems import ScenarioError, did_you_mean, printable, shown
from harmonics_emu.scenario.scenario import Scenario, resolve
from harmonics_emu.scenario.validation import validate

SUFFIX = ".yaml"


def load_scenario(name_or_path: str | os.PathLike[str]) -> Scenario:
    """The scenario in a file, or the built-in one of that name; a file wins. ScenarioError lists all that is wrong."""
    given = os.fspath(name_or_path)
    raw = _read_file(given)
    if raw is not None:
        return parse_scenario(raw, given)
    if given in builtin_names():
        return parse_scenario(builtin_text(given), given + SUFFIX)
    hint = did_you_mean(given, builtin_names())
    raise ScenarioError(f"{shown(given)} is neither a file nor a built-in scenario; hint: {hint}", given)


def parse_scenario(raw: bytes, source: str) -> Scenario:
    """The scenario in a file's bytes. `source` names the file in errors."""
    try:
        document, problems = read_document(raw)
    except Unreadable as error:
        raise ScenarioError.of(source, error.problems) from None
    sections, refused = validate(document)
    checked = check(sections)
    found = refused + [document.problem(c.location, c.what, c.hint) for c in checked.complaints]
    # What is wrong with a value's text has been said; that the schema or a check can't use it then says nothing new.
    told = {(problem.line, problem.column, problem.path) for problem in problems}
    problems += [p for p in found if (p.line, p.column, p.path) not in told]
    if problems:
        raise ScenarioError.of(source, problems)
    return Scenario(resolve(sections, checked.hosts))


def builtin_names() -> tuple[str, ...]:
    """Names of the scenarios that come with the package, in alphabetical order."""
    entries = (entry.name for entry in _builtin_folder.iterdir())
    return tuple(sorted(name.removesuffix(SUFFIX) for name in entries if name.endswith(SUFFIX)))


def builtin_text(name: str) -> bytes:
    """The file of a built-in scenario."""
    return (_builtin_folder / (name + SUFFIX)).read_bytes()


_builtin_folder = files("harmonics_emu.scenario") / "builtin"


def _read_file(path: str) -> bytes | None:
    """A regular file's bytes, at most one more than a scenario can have; None if there is no such file."""
    try:
        return read_regular_file(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except IrregularFile as error:
        if path in builtin_names():
            return None
        hint = "name a scenario file or a built-in scenario"
        raise ScenarioError(f"{printable(path)} is {error.strerror}; hint: {hint}", path) from None
    except OSError as error:
        raise ScenarioError(f"{printable(path)} can't be read: {error.strerror}", path) from None
