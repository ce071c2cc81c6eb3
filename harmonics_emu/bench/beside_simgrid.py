"""The simulator's flows beside SimGrid's: the same flows in both, how long each takes, and how far they differ."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from harmonics_emu.shell import CommandFailed, run
from harmonics_emu.simulate.flows import finish_times
from harmonics_emu.simulate.routing import Router
from topologies.rack_spine import rack_spine

SYSTEM_PYTHON = "/usr/bin/python3"
PROGRAM = Path(__file__).with_name("simgrid_program.py")
FLOWS = (500, 2000)
RATE_BPS = 10**10
DEADLINE_S = 300.0


def has_simgrid() -> bool:
    """Whether the system's Python can import SimGrid."""
    try:
        run([SYSTEM_PYTHON, "-c", "import simgrid"])
    except CommandFailed:
        return False
    return True


def compare_with_simgrid(flows: int, seed: int) -> dict[str, Any]:
    """One row. wall_s, simgrid_wall_s: from flows to finish times, start of the process and compiling left out.

    largest_difference: of a flow's finish times, relative. CommandFailed if SimGrid does not get through.
    """
    case = random_case(flows, seed)
    plain = case | {"flows": [_without_ends(flow) for flow in case["flows"]]}
    finish_times(plain | {"flows": plain["flows"][:1]})
    began = time.perf_counter()
    ours = finish_times(plain)
    wall_s = time.perf_counter() - began
    printed = run([SYSTEM_PYTHON, str(PROGRAM)], stdin=json.dumps(case), timeout_s=DEADLINE_S)
    theirs = json.loads(printed.splitlines()[-1])
    return {
        "flows": flows,
        "wall_s": wall_s,
        "simgrid_wall_s": theirs["wall_s"],
        "largest_difference": max(abs(at - theirs["finish"][flow]) / at for flow, at in ours.items()),
    }


def random_case(flows: int, seed: int) -> dict[str, Any]:
    """Flows of 1 MB to 1 GB that start within a second, between random hosts of 8 racks of 8, over 4 spines."""
    draw = random.Random(seed)
    fabric = rack_spine(8, 8, 4, RATE_BPS, RATE_BPS)
    router = Router(fabric, seed)
    hosts = [host.name for host in fabric.hosts]
    found = []
    for number in range(flows):
        src, dst = draw.sample(hosts, 2)
        found.append(
            {
                "id": str(number),
                "start": draw.uniform(0, 1),
                "bytes": draw.randint(10**6, 10**9),
                "links": list(router.path("flow", src, dst)),
                "src": src,
                "dst": dst,
            }
        )
    return {"links": {name: link.rate_bps / 8 for name, link in fabric.links.items()}, "flows": found}


def _without_ends(flow: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flow.items() if key not in {"src", "dst"}}
