"""The scenario file's reference page, written from its JSON schema so that the two never disagree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from harmonics_emu.scenario.schema import json_schema

_TITLES = {
    "RackSpine": "fabric: rack-spine",
    "Dumbbell": "fabric: dumbbell",
    "FatTree": "fabric: fat-tree",
    "Custom": "fabric: custom",
    "CustomLinkSection": "links of a custom fabric",
    "ScaleSection": "scale",
    "ModelSection": "models",
    "JobSection": "jobs",
    "ComputeSection": "compute of a job",
    "CommandSection": "program of a job",
    "PolicySection": "policy",
    "BackgroundSection": "background",
    "EventSection": "events",
}
_NO_LIMIT = 10**6
"""Limits from here on only keep nonsense out, and would tell a reader nothing."""
_HEAD = """\
# Scenario files

A scenario is a YAML file of at most 1 MB. This page is what `harmonics-emu schema --markdown` prints;
`harmonics-emu schema` prints the same as a JSON schema, for editors. Rates are emulated, bytes are real and shrink by
`scale.rate`, times are real. Quantities carry units: a bare number where a unit is needed is an error, as is an
unknown key. `harmonics-emu validate FILE` lists every mistake with its line. Built-in scenarios
(`harmonics-emu scenarios`) are examples.
"""


def reference_markdown() -> str:
    """The page, with a table of keys for each section."""
    schema = json_schema()
    parts = [_HEAD, _table("Top level", schema)]
    parts += [_table(title, schema["$defs"][name]) for name, title in _TITLES.items()]
    return "\n".join(parts)


def _table(title: str, section: Mapping[str, Any]) -> str:
    required = set(section.get("required", ()))
    lines = [f"## {title}", "", section["description"], "", "| key | value | default | meaning |", "|---|---|---|---|"]
    for key, described in sorted(section["properties"].items(), key=lambda item: item[0] != "kind"):
        default = "required" if key in required else _inline(described["default"]) if "default" in described else ""
        meaning = described.get("description", "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| `{key}` | {_value(described)} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def _value(described: Mapping[str, Any]) -> str:
    """What a key may hold, in a few words."""
    for several in ("oneOf", "anyOf"):
        if several in described:
            return ", or ".join(_value(one) for one in described[several])
    if "$ref" in described:
        title = _TITLES[described["$ref"].rpartition("/")[2]]
        return f"[{title}](#{title.replace(':', '').replace(' ', '-')})"
    if "enum" in described:
        return ", ".join(f"`{choice}`" for choice in described["enum"])
    if "const" in described:
        return f"`{described['const']}`"
    if "examples" in described:
        return "as " + ", ".join(f"`{example}`" for example in described["examples"])
    if described["type"] == "array":
        return f"list of {_value(described['items'])}"
    if described["type"] == "object":
        return f"mapping of names to {_value(described['additionalProperties'])}"
    if described["type"] == "boolean":
        return "`true`, `false`"
    words = {"string": "text", "integer": "whole number", "number": "number"}[described["type"]]
    limits = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    given = (f"{limit} {described[key]}" for key, limit in limits.items() if described.get(key, _NO_LIMIT) < _NO_LIMIT)
    return ", ".join([words, *given])


def _inline(value: Any) -> str:
    if value in ([], {}):
        return ""
    text = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`"
