"""A policy as a command line names it: `cassini`, or with options beside those of the file, `cassini:epoch=2s`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harmonics_emu.errors import UsageError
from harmonics_emu.scenario.composer import resolve_scalar
from harmonics_emu.scenario.problems import shown

EXAMPLE = "write crux, crux:levels=4 or crux:levels=4:epoch=2s"


@dataclass(frozen=True)
class PolicyChoice:
    """A policy's name and the options stated with it. text: both, the same for the same choice."""

    name: str
    options: Mapping[str, Any]
    text: str


def parse_policy(text: str) -> PolicyChoice:
    """NAME or NAME:OPTION=VALUE:..., values read as in a scenario file. UsageError where it is neither.

    Whether there is such a policy, and whether it has such options, is judged elsewhere.
    """
    name, *parts = (part.strip() for part in text.split(":"))
    written: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not (key and equals and value) or key == "name":
            raise UsageError(f"{shown(part)} in policy {shown(text)} is no option; {EXAMPLE}")
        if key in written:
            raise UsageError(f"policy {shown(text)} states {key} twice")
        written[key] = value
    if not name:
        raise UsageError(f"{shown(text)} names no policy; {EXAMPLE}")
    options = {key: resolve_scalar(written[key]) for key in sorted(written)}
    for key, read in options.items():
        if isinstance(read, float) and not math.isfinite(read):
            raise UsageError(f"option {key} of policy {shown(text)} is no finite number")
    return PolicyChoice(name, options, ":".join([name, *(f"{key}={written[key]}" for key in options)]))


def labelled(texts: Iterable[str]) -> dict[str, PolicyChoice]:
    """Choices by what results call them: the policy's name, or where there are several of one policy, the text."""
    choices = {choice.text: choice for choice in map(parse_policy, texts)}
    count = Counter(choice.name for choice in choices.values())
    return {choice.text if count[choice.name] > 1 else choice.name: choice for choice in choices.values()}
