"""Carries out a scenario's events: a cable down, up again or at another rate, ranks slow, stopped or dead, restarts."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from harmonics_emu.emulate import tc
from harmonics_emu.emulate.network import set_cable_state
from harmonics_emu.emulate.testbed import Testbed
from harmonics_emu.errors import RunFailed
from topologies.fabric import Fabric
from workloads.job import LinkEvent, RankEvent, RestartEvent
from workloads.job_page import JobPage

SIGNALS = {"stop": signal.SIGSTOP, "continue": signal.SIGCONT, "kill": signal.SIGKILL}
DEATH_S = 5.0
"""How long a killed process may take to be gone."""


@dataclass(frozen=True)
class LinkChange:
    """Directed links that stopped carrying, and that carry again."""

    lost: frozenset[str] = frozenset()
    restored: frozenset[str] = frozenset()


def apply_link_event(fabric: Fabric, event: LinkEvent) -> LinkChange:
    """Carry one event out. A cable goes down as a whole, both ways, whichever of its names the event uses."""
    cable = next(cable for cable in fabric.cables.values() if event.link in (cable.name, cable.up, cable.down))
    names = frozenset((cable.up, cable.down))
    if event.action == "down":
        set_cable_state(fabric, cable.name, up=False)
        return LinkChange(lost=names)
    if event.action == "up":
        set_cable_state(fabric, cable.name, up=True)
        return LinkChange(restored=names)
    if event.rate_bps is None:
        raise RunFailed(f"event {event.action!r} on {event.link} names no rate")
    for link in fabric.links_named(event.link):
        tc.set_rate(fabric, link.name, event.rate_bps)
    return LinkChange()


def apply_rank_event(page: JobPage, pids: Mapping[int, int], event: RankEvent) -> bool:
    """Carry one out on a job's ranks. pids: of those that live, by rank. False if none of those meant does.

    A signal goes to the rank and all that it has started.
    """
    alive = [rank for rank in event.ranks if rank in pids]
    for rank in alive:
        if event.action == "slow":
            page.slow_down(rank, event.factor)
        else:
            with suppress(ProcessLookupError):
                os.killpg(pids[rank], SIGNALS[event.action])
    return bool(alive)


def kill_daemon(testbed: Testbed, event: RestartEvent) -> None:
    """Kill a daemon, so that the testbed's next look finds it dead and starts it again."""
    process = testbed.controller_process if event.daemon == "controller" else testbed.vswitch.daemon
    process.kill()
    process.wait(DEATH_S)
