"""What a conducted run leaves for those who judge it and write it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from numpy.typing import NDArray

from harmonics_emu.emulate.control import ControllerClient, RuleReport
from harmonics_emu.emulate.sampling import BusyMeter
from harmonics_emu.emulate.testbed import HostCounters
from harmonics_emu.errors import HarmonicsError
from harmonics_emu.records import Decision, JobOutcome, LinkBytes
from harmonics_emu.results.captures import CaptureAccount
from harmonics_emu.schedulers.interface import JobPlan


@dataclass
class Outcome:
    """What a conducted run leaves: all in seconds from time zero but `zero_s`, which is CLOCK_MONOTONIC.

    control_cpu_s: CPU time from time zero on of what watches, decides and enforces, and `run_s`, how long that was.
    captures: by file name.
    """

    zero_s: float
    outcomes: dict[str, JobOutcome]
    decisions: list[Decision]
    rules: list[dict[str, Any]]
    links: dict[str, NDArray[Any]]
    link_bytes: LinkBytes
    meter: BusyMeter
    cpu_busy: float | None
    datapath_busy: float | None
    hosts: dict[str, HostCounters]
    in_force: dict[str, JobPlan]
    gates_failed_open: int
    fallbacks: int
    control_cpu_s: dict[str, float]
    faults: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    captures: dict[str, CaptureAccount] = field(default_factory=dict)


def rules_with_counts(
    rules: Sequence[RuleReport], controller: ControllerClient, violations: list[str]
) -> list[dict[str, Any]]:
    """rules.jsonl's rows: each rule as read back, with its last counters.

    Packets that met no rule, and counters that can't be read, are added to `violations`.
    """
    try:
        counts = {rule.cookie: rule for rule in controller.counters(10.0)}
    except HarmonicsError as error:
        violations.append(f"what the rules counted can't be read: {error}")
        counts = {}
    rows = []
    for rule in rules:
        count = counts.get(rule.cookie)
        row = msgspec.to_builtins(rule)
        if count is not None:
            row |= {"packets": count.packets, "bytes": count.bytes}
        rows.append(row)
    lost = sum(row["packets"] for row in rows if row["purpose"] == "miss")
    if lost:
        violations.append(f"{lost} packets met no rule and were dropped by a switch")
    return rows
