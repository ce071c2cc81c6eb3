"""mltcp: no plan; a job's share of a link grows with the part of its iteration's bytes that it has sent.

Simulator only.

After MLTCP (Rajasekaran et al., HotNets 2024), whose abstract says that scaling congestion windows so lets jobs settle
into an interleaved state in a few iterations. The function F(x) = 1.75 x + 0.25 is as recollected, not checked against
the paper's text. Its additions to TCP's congestion avoidance are modelled by their aim: jobs that meet on a link share
it in proportion to their F. A TCP whose window grows F times as fast may well have a share that is not just F times
as large, and it takes time to get there; here it has it at once, in steps of a sixteenth of the iteration.

Jobs that are exactly in step stay so, as nothing tells them apart: a start offset or jitter does.
"""

from __future__ import annotations

from dataclasses import dataclass

from harmonics_emu.schedulers.interface import Plan, Snapshot
from harmonics_emu.schedulers.options import check_options

SLOPE = 1.75
INTERCEPT = 0.25


@dataclass(frozen=True)
class Mltcp:
    """The policy: every job at the default level on its hashed paths."""

    name: str = "mltcp"
    summary: str = "a job's share grows with what it has sent of its iteration (MLTCP, HotNets 2024); simulator only"

    def plan(self, snapshot: Snapshot) -> Plan:
        """No plan. UsageError for any option but the engine's `epoch`."""
        check_options(self.name, snapshot.options)
        return Plan(policy=self.name)

    def weight(self, sent: float) -> float:
        """F of the fraction of its iteration's bytes that a job has sent."""
        return SLOPE * sent + INTERCEPT


policy = Mltcp()
