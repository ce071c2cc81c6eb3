"""What an epoch comes to, while it is looked for and when it is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harmonics_emu.schedulers.harmonics.messages import View
from harmonics_emu.schedulers.harmonics.rollout import Starts
from harmonics_emu.schedulers.harmonics.views import Routes
from workloads.job import DEFAULT_LEVEL


@dataclass(frozen=True)
class Outcome:
    """A plan for the tasks of a problem, by their numbers; a task without a level keeps the default.

    cost: as predicted, of rollouts of a given length; None where no rollout has seen them all. late: whether a deadline
    has cut something short.
    """

    routes: Routes
    levels: dict[int, int] = field(default_factory=dict)
    starts: Starts = field(default_factory=dict)
    cost: float | None = None
    late: bool = False


def cost_of(outcome: Outcome) -> float:
    return float("inf") if outcome.cost is None else outcome.cost


def by_number(view: View, levels: Sequence[int]) -> dict[int, int]:
    return dict(zip((job.number for job in view.jobs), levels, strict=True))


def in_order(view: View, levels: Mapping[int, int]) -> list[int]:
    return [levels.get(job.number, DEFAULT_LEVEL) for job in view.jobs]
