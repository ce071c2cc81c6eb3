"""The kinds of values that a scenario's keys take, as pydantic types that read, describe and write them."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictFloat,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)

from harmonics_emu.scenario import quantities as q
from harmonics_emu.scenario.problems import did_you_mean, shown
from harmonics_emu.schedulers.registry import policy_names

PUBLISHED_POLICIES = ("harmonics", "optimal", "crux", "cassini", "harmony")
"""Policies that scenarios may name whether or not they are installed: the file is right, only running it needs them."""


class Section(BaseModel):
    """A mapping of the scenario file: its keys are this class's fields, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


def _quantity(pattern: str, *examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": list(examples)})


Rate = Annotated[
    int,
    BeforeValidator(q.parse_rate),
    PlainSerializer(q.format_rate),
    _quantity(q.RATE_PATTERN, "500Mbit", "1.5Gbit"),
]
Time = Annotated[
    float, BeforeValidator(q.parse_time), PlainSerializer(q.format_time), _quantity(q.TIME_PATTERN, "75ms", "2s")
]
PositiveTime = Annotated[
    float,
    BeforeValidator(q.parse_positive_time),
    PlainSerializer(q.format_time),
    _quantity(q.TIME_PATTERN, "75ms", "2s"),
]
Size = Annotated[
    int, BeforeValidator(q.parse_size), PlainSerializer(q.format_size), _quantity(q.SIZE_PATTERN, "4MB", "25MiB")
]
Percent = Annotated[
    float, BeforeValidator(q.parse_percent), PlainSerializer(q.format_percent), _quantity(q.PERCENT_PATTERN, "0.1%")
]
Scale = Annotated[
    Fraction,
    BeforeValidator(q.parse_scale),
    PlainSerializer(q.format_scale),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": q.SCALE_PATTERN, "examples": ["1/100"]},
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            ]
        }
    ),
]
Share = Annotated[StrictFloat, Field(ge=0, le=1)]
Count = Annotated[StrictInt, Field(ge=1, le=10**9)]


def _name(text: str) -> str:
    if not text.strip():
        raise q.InvalidQuantity("a name must not be empty")
    if not text.isprintable() or text != text.strip():
        raise q.InvalidQuantity("a name must be one line of printable text without spaces around it")
    return text


def _policy(name: str) -> str:
    known = tuple(dict.fromkeys((*policy_names(), *PUBLISHED_POLICIES)))
    if name not in known:
        raise q.InvalidQuantity(f"there is no policy {shown(name)}", did_you_mean(name, policy_names()))
    return name


Name = Annotated[StrictStr, AfterValidator(_name)]
NodeName = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
PolicyName = Annotated[StrictStr, AfterValidator(_policy)]
Text = StrictStr


def written_kind(value: Any) -> str:
    """Which form of a value was written, where one key takes several: 'list', 'mapping' or 'name'."""
    if isinstance(value, (list, tuple)):
        return "list"
    return "mapping" if isinstance(value, (dict, BaseModel)) else "name"
