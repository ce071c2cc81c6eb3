"""The verdict that goes with every emulated run: did the links make its numbers, or the machine?

Each threshold says what it guards against. 'degraded' numbers show the right direction and order; 'not faithful' ones
are not to be used (exit status 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harmonics_emu.results.schema import Fidelity, LinkFidelity, Verdict

CPU_DEGRADED, CPU_LIMIT = 0.85, 0.95
"""Share of all cores: above it ranks and datapath wait for the CPU, and the wait looks like communication."""
DATAPATH_DEGRADED, DATAPATH_LIMIT = 0.92, 0.98
"""Share of one core: the userspace datapath forwards in one thread, and at its limit sharing becomes arbitrary. It
wakes for each packet while it has time to, so that near 0.9 it still has room: it then takes several at a time."""
LATENESS_DEGRADED, LATENESS_LIMIT = 0.10, 0.30
"""p99 of how late compute timers woke, against compute time: late wakes lengthen compute and drift jobs apart."""
TIMEOUTS_LIMIT = 10
"""TCP retransmission timeouts of all hosts: each stalls a job for seconds. Any is 'degraded'."""
DROPS_LIMIT = 1e-3
"""Share of packets: GPU fabrics are lossless; a drop costs TCP a timeout or a halved window. Any is 'degraded'."""
GOODPUT_DEGRADED, GOODPUT_LIMIT = 0.75, 0.60
"""Of what a job's slowest link can carry, while busy: a ring leaves gaps between its steps, a starved link far more."""
ISOLATED_DEGRADED, ISOLATED_LIMIT = 0.15, 0.40
"""How much longer an isolated iteration was measured than the fluid model predicts."""
BUSY_ENOUGH_S = 0.5
"""A link that was busy for less time than this is not judged by its goodput."""


@dataclass(frozen=True)
class LinkUse:
    """What a directed link did. achievable_bps: what headers leave of configured_bps. Goodput None: never busy.

    bottleneck: whether it is the slowest link of some job, so that it must be full while that job communicates.
    """

    link: str
    configured_bps: float
    achievable_bps: float
    busy_goodput_bps: float | None
    busy_s: float
    packets: int
    drops: int
    bottleneck: bool


@dataclass(frozen=True)
class JobTimers:
    """One job's compute time and the 99th percentile of how late its ranks woke from it, in seconds."""

    job: str
    compute_s: float
    lateness_p99_s: float


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on.

    datapath_busy: cores used by the switch daemon, None with the kernel datapath. timeouts: TCP retransmission timeouts
    on all hosts. isolated: per job (measured, predicted) seconds of an iteration alone. faults: what broke and was
    mended in the run. violations: what makes the numbers meaningless whatever the machine did, such as lost packets.
    notes: what takes nothing from the numbers, but must be known of the run's files.
    """

    cpu_busy: float | None
    datapath_busy: float | None
    links: Sequence[LinkUse]
    timers: Sequence[JobTimers]
    timeouts: int
    isolated: Mapping[str, tuple[float, float]]
    faults: Sequence[str] = ()
    violations: Sequence[str] = ()
    notes: Sequence[str] = ()


def judge(evidence: Evidence) -> Fidelity:
    """The verdict with every reason that speaks against the run, worst first, then the notes."""
    severe: list[str] = list(evidence.violations)
    mild: list[str] = list(evidence.faults)

    def weigh(value: float | None, degraded: float, limit: float, reason: str) -> None:
        if value is not None and value > limit:
            severe.append(reason)
        elif value is not None and value > degraded:
            mild.append(reason)

    if evidence.cpu_busy is not None:
        weigh(evidence.cpu_busy, CPU_DEGRADED, CPU_LIMIT, f"{evidence.cpu_busy:.0%} of all CPU time was used")
    if evidence.datapath_busy is not None:
        reason = f"the switch daemon used {evidence.datapath_busy:.0%} of the one core it forwards on"
        weigh(evidence.datapath_busy, DATAPATH_DEGRADED, DATAPATH_LIMIT, reason)
    for timers in evidence.timers:
        if timers.compute_s > 0:
            reason = f"job {timers.job}: compute timers woke up to {timers.lateness_p99_s * 1e3:.1f} ms late (p99)"
            weigh(timers.lateness_p99_s / timers.compute_s, LATENESS_DEGRADED, LATENESS_LIMIT, reason)
    for use in evidence.links:
        _judge_link(use, severe, mild)
    if evidence.timeouts:
        target = severe if evidence.timeouts > TIMEOUTS_LIMIT else mild
        target.append(f"TCP waited {evidence.timeouts} times for a retransmission timeout")
    for job, (measured, predicted) in evidence.isolated.items():
        excess = measured / predicted - 1
        reason = f"job {job} alone takes {excess:.0%} longer than its links explain"
        weigh(excess, ISOLATED_DEGRADED, ISOLATED_LIMIT, reason)
    verdict: Verdict = "not faithful" if severe else "degraded" if mild else "faithful"
    return Fidelity(
        verdict=verdict,
        reasons=(*severe, *mild, *evidence.notes),
        cpu_busy=evidence.cpu_busy,
        links=tuple(
            LinkFidelity(
                link=use.link,
                configured_bps=use.configured_bps,
                busy_goodput_bps=use.busy_goodput_bps,
                drops=use.drops,
            )
            for use in evidence.links
        ),
    )


def _judge_link(use: LinkUse, severe: list[str], mild: list[str]) -> None:
    if use.drops:
        share = use.drops / max(1, use.packets + use.drops)
        target = severe if share > DROPS_LIMIT else mild
        target.append(f"{use.link} dropped {use.drops} packets ({share:.2%})")
    if use.busy_goodput_bps is None or use.busy_s < BUSY_ENOUGH_S or not use.bottleneck:
        return
    share = use.busy_goodput_bps / use.achievable_bps
    if share < GOODPUT_DEGRADED:
        target = severe if share < GOODPUT_LIMIT else mild
        target.append(f"{use.link} carried {share:.0%} of what it can while it was busy")


def exit_code_of(verdict: Verdict) -> int:
    """DESIGN's exit status of a finished run with that verdict."""
    return 3 if verdict == "not faithful" else 0
