"""The options of policy harmonics: its deadline, and which of its parts are at work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harmonics_emu.errors import UsageError
from harmonics_emu.scenario.quantities import parse_positive_time
from harmonics_emu.schedulers.options import check_options

TIERS = ("both", "local", "coordinator")
LEVERS = ("all", "priorities", "start-times")
DEADLINE_S = 0.5


@dataclass(frozen=True)
class Settings:
    """deadline_s: for one plan. tiers, levers: one of TIERS, LEVERS. harmonisation: whether periods may be stretched.

    guard: whether fair sharing is used where no plan is predicted to be better.
    """

    deadline_s: float = DEADLINE_S
    tiers: str = "both"
    levers: str = "all"
    harmonisation: bool = True
    guard: bool = True

    @property
    def local(self) -> bool:
        """Whether racks plan and fit."""
        return self.tiers != "coordinator"

    @property
    def coordinator(self) -> bool:
        return self.tiers != "local"

    @property
    def priorities(self) -> bool:
        return self.levers != "start-times"

    @property
    def start_times(self) -> bool:
        return self.levers != "priorities"


def settings_of(options: Mapping[str, Any]) -> Settings:
    """UsageError for an option that there is not, or a value that it can't have."""
    check_options("harmonics", options, "deadline", "tiers", "levers", "harmonisation", "guard")
    return Settings(
        deadline_s=_time(options, "deadline", DEADLINE_S),
        tiers=_one_of(options, "tiers", TIERS),
        levers=_one_of(options, "levers", LEVERS),
        harmonisation=_switch(options, "harmonisation"),
        guard=_switch(options, "guard"),
    )


def _time(options: Mapping[str, Any], name: str, default: float) -> float:
    if name not in options:
        return default
    try:
        return parse_positive_time(options[name])
    except ValueError as error:
        raise UsageError(f"policy.{name}: {error}") from None


def _one_of(options: Mapping[str, Any], name: str, values: tuple[str, ...]) -> str:
    value = options.get(name, values[0])
    if value not in values:
        raise UsageError(f"policy.{name} is {value!r} but must be one of: {', '.join(values)}")
    return str(value)


def _switch(options: Mapping[str, Any], name: str) -> bool:
    """From the command line, switches come as words."""
    value = {"true": True, "false": False}.get(str(options.get(name, True)).lower())
    if value is None:
        raise UsageError(f"policy.{name} is {options[name]!r} but must be true or false")
    return value
