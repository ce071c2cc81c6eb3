"""Runs a document through the schema, and words what the schema refuses as problems of the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, get_args

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from harmonics_emu.scenario.document import Document
from harmonics_emu.scenario.fabrics import CustomLinkSection, FabricSection
from harmonics_emu.scenario.fields import Section
from harmonics_emu.scenario.problems import Location, Problem, did_you_mean, printable, shown
from harmonics_emu.scenario.quantities import InvalidQuantity
from harmonics_emu.scenario.schema import (
    BackgroundSection,
    CommandSection,
    ComputeSection,
    EventSection,
    JobSection,
    ModelSection,
    ScaleSection,
    ScenarioFile,
)

SectionType = TypeVar("SectionType", bound=Section)

_FABRICS: dict[str, type[Section]] = {
    get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in get_args(get_args(FabricSection)[0])
}


_SECTIONS: dict[str, type[Section]] = {
    "": ScenarioFile,
    "scale": ScaleSection,
    "models": ModelSection,
    "jobs": JobSection,
    "compute": ComputeSection,
    "program": CommandSection,
    "background": BackgroundSection,
    "events": EventSection,
    "links": CustomLinkSection,
}
"""The section that stands under a key, whose name is unique in the schema."""

_EXAMPLES = {
    "name": "two-tenants",
    "fabric": "{kind: dumbbell, hosts_per_side: 2, host_rate: 400Mbit, uplink_rate: 200Mbit}",
    "jobs": "[{name: vision, model: vgg16, workers: 4, iterations: 60}]",
    "iterations": "60",
    "racks": "2",
    "hosts_per_rack": "4",
    "hosts_per_side": "4",
    "spines": "1",
    "k": "4",
    "host_rate": "400Mbit",
    "uplink_rate": "200Mbit",
    "rate": "200Mbit",
    "hosts": "[a, b]",
    "links": "[{between: [a, switch], rate: 200Mbit}]",
    "between": "[a, switch]",
    "command": "[python, train.py]",
    "from": "r0h0",
    "to": "r1h0",
    "at": "10s",
    "link": "leaf0-spine0",
    "action": "down",
}
_FIRST_KEYS = {"policy": "name", "compute": "iteration", "scale": "rate"}
"""The key that a section's only value is meant for where it stands there without one."""
_OTHER_FORMS = {"placement": ("a list of hosts",), "program": ("{command: [...]}",)}
_WORDING = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "model_type": "must be a mapping (key: value)",
    "model_attributes_type": "must be a mapping (key: value)",
    "tuple_type": "must be a list",
    "greater_than": "must be above {gt:.15g}",
    "greater_than_equal": "must be at least {ge:.15g}",
    "less_than": "must be below {lt:.15g}",
    "less_than_equal": "must be at most {le:.15g}",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must consist of letters, digits, _, . and -",
}
"""By pydantic's error types. Those that this schema can't raise are missing, so that a new one shows in tests."""


def validate(document: Document) -> tuple[ScenarioFile, list[Problem]]:
    """The scenario's sections, and what the schema finds wrong with them.

    Where there are problems, the sections hold all that is right: what is wrong or missing is None, so that `checks`
    can look for more.
    """
    try:
        return ScenarioFile.model_validate(document.data), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=True)
        problems = (_problem(document, detail) for detail in details)
        return _salvage_file(document.data), [problem for problem in problems if problem is not None]


def _salvage_file(data: dict[str, Any]) -> ScenarioFile:
    sections: dict[str, tuple[Any, ...]] = {}
    kinds: tuple[tuple[str, type[Section]], ...] = (
        ("models", ModelSection),
        ("jobs", JobSection),
        ("background", BackgroundSection),
        ("events", EventSection),
    )
    for key, kind in kinds:
        items = data.get(key)
        if isinstance(items, list):
            sections[key] = tuple(_salvage(kind, item) if isinstance(item, dict) else None for item in items)
    return _salvage(ScenarioFile, data | {"fabric": _known_keys_of_fabric(data.get("fabric"))}).model_copy(
        update=sections
    )


def _known_keys_of_fabric(fabric: Any) -> Any:
    """A fabric with one key too many is still a fabric that hosts can be looked up in."""
    if not isinstance(fabric, dict) or not isinstance(fabric.get("kind"), str) or fabric["kind"] not in _FABRICS:
        return fabric
    return {key: value for key, value in fabric.items() if key in _FABRICS[fabric["kind"]].model_fields}


def _salvage(section: type[SectionType], data: Mapping[str, Any]) -> SectionType:
    """The section with its valid fields; the others are None."""
    values: dict[str, Any] = {}
    for name, adapter in _field_adapters(section).items():
        field = section.model_fields[name]
        key = field.alias or name
        if key in data:
            try:
                values[name] = adapter.validate_python(data[key])
            except ValidationError:
                values[name] = None
        elif field.is_required():
            values[name] = None
    return section.model_construct(**values)


@cache
def _field_adapters(section: type[Section]) -> dict[str, TypeAdapter[Any]]:
    adapters: dict[str, TypeAdapter[Any]] = {}
    for name, field in section.model_fields.items():
        kind: Any = Annotated[field.annotation, *field.metadata, Field(discriminator=field.discriminator)]
        adapters[name] = TypeAdapter(kind)
    return adapters


def _problem(document: Document, detail: ErrorDetails) -> Problem | None:
    """What pydantic says of one value, in our words; None if it only follows from another problem."""
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    location = _location(detail["loc"])
    key = str(location[-1]) if location else ""
    if kind == "too_short" and len(given) >= context["min_length"]:
        return None  # pydantic does not count the list's invalid items
    if kind in {"union_tag_not_found", "union_tag_invalid"}:
        return _kind_problem(document, (*location, "kind"), given)
    hint: str | None = None
    cause = context.get("error")
    if isinstance(cause, InvalidQuantity):
        what, hint = str(cause), cause.hint
    elif kind == "extra_forbidden":
        what, hint = "unknown key", _unknown_key_hint(key, _keys_at(document.data, location[:-1]))
    elif kind == "missing":
        what, hint = "missing", f"add it, as {key}: {_EXAMPLES[key]}"
    elif kind in {"too_short", "too_long"}:
        limit = f"needs at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        what = f"has {len(given)} entries, but {limit}"
    elif kind == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"])
        what = f"must be {' or '.join([*known, *_OTHER_FORMS.get(key, ())])}, not {shown(given)}"
        hint = did_you_mean(given, known) if isinstance(given, str) else None
    else:
        what = f"{_WORDING[kind].format(**context)}, not {shown(given)}"
        if kind == "model_type" and key in _FIRST_KEYS and isinstance(given, str):
            hint = f"write {key}: {{{_FIRST_KEYS[key]}: {printable(given)}}}"
        elif kind == "string_type" and isinstance(given, (int, float)):
            hint = f'put it in quotes: "{shown(given)}"'
    return document.problem(location, what, hint, at_key=kind == "extra_forbidden")


def _location(loc: tuple[int | str, ...]) -> Location:
    """A pydantic location without the name of the union's member that stands in it."""
    if loc[:1] == ("fabric",):
        return (*loc[:1], *loc[2:])
    if loc[:1] == ("jobs",) and loc[2:3] in {("placement",), ("program",)}:
        return (*loc[:3], *loc[4:])
    return loc


def _kind_problem(document: Document, location: Location, fabric: Any) -> Problem:
    if "kind" not in fabric:
        return document.problem(location, "missing", f"a fabric's kind is one of {', '.join(_FABRICS)}")
    kind = fabric["kind"]
    hint = did_you_mean(kind, _FABRICS) if isinstance(kind, str) else f"there are: {', '.join(_FABRICS)}"
    return document.problem(location, f"no kind of fabric is called {shown(kind)}", hint)


def _keys_at(data: Mapping[str, Any], location: Location) -> tuple[str, ...]:
    """The keys that the mapping at `location` may have."""
    name = next((part for part in reversed(location) if isinstance(part, str)), "")
    section = _FABRICS[data["fabric"]["kind"]] if name == "fabric" else _SECTIONS[name]
    return tuple(field.alias or name for name, field in section.model_fields.items())


def _unknown_key_hint(key: str, known: tuple[str, ...]) -> str:
    if key == "<<":
        return "merge keys are not supported: write the keys out"
    return did_you_mean(key, known)
