"""The options of a scenario's policy section: those that a policy has, and the engine's own `epoch`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harmonics_emu.errors import UsageError
from harmonics_emu.scenario.quantities import parse_positive_time

EPOCH = "epoch"
"""How often the engine asks the policy again; every policy takes it."""


def check_options(policy: str, options: Mapping[str, Any], *known: str) -> None:
    """UsageError for an option that is neither among the policy's `known` ones nor the engine's, or for no epoch."""
    has = (EPOCH, *known)
    for name in options:
        if name not in has:
            raise UsageError(f"policy {policy} has no option {name!r}; it has: {', '.join(has)}")
    epoch_option(options)


def epoch_option(options: Mapping[str, Any]) -> float | None:
    """Seconds between plans, None where there are none but at arrivals, departures and link events. UsageError."""
    if EPOCH not in options:
        return None
    try:
        return parse_positive_time(options[EPOCH])
    except ValueError as error:
        raise UsageError(f"policy.{EPOCH}: {error}") from None
