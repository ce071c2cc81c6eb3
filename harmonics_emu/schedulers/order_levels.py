"""Many jobs in an order, few priority levels: the two usual ways to map one to the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harmonics_emu.errors import UsageError
from harmonics_emu.schedulers.options import check_options
from workloads.job import LEVELS

FIRST_LEVEL = 1
"""Level 0 is not given out: on the emulator, acknowledgements and control messages ride in its band."""
MOST_LEVELS = LEVELS - FIRST_LEVEL


def first_ones_alone(jobs: int, levels: int) -> list[int]:
    """The level of each job in its order: the first levels - 1 jobs have one each, the rest share the last."""
    return [FIRST_LEVEL + min(place, levels - 1) for place in range(jobs)]


def balanced(jobs: int, levels: int) -> list[int]:
    """The level of each job in its order: runs of the order, of equal length within one."""
    used = min(jobs, levels)
    return [FIRST_LEVEL + place * used // jobs for place in range(jobs)]


def level_option(policy: str, options: Mapping[str, Any]) -> int:
    """How many levels a policy may use: its only option `levels`, 1 to 7, default 7.

    UsageError for another value, or for an option that is neither this nor the engine's `epoch`.
    """
    check_options(policy, options, "levels")
    levels = options.get("levels", MOST_LEVELS)
    if isinstance(levels, bool) or not isinstance(levels, int) or not 1 <= levels <= MOST_LEVELS:
        raise UsageError(
            f"policy.levels is {levels!r} but must be a whole number from 1 to {MOST_LEVELS}: "
            "level 0 is kept for acknowledgements"
        )
    return levels
