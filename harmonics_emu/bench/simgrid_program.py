"""Finish times of flows from SimGrid: a case of flows as JSON on stdin, finish and wall times as JSON on the last line.

A program for the Python that has the simgrid module (Debian's python3-simgrid), which need not have this project. The
case is as for `harmonics-emu flows`, but flows also name `src` and `dst`, and all flows of a pair cross the same links.
Latency, headers and TCP's other manners are off, so that what is left is max-min sharing.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any


def main() -> None:
    # Not imported above: this project's own Python need not have it.
    simgrid = import_module("simgrid")
    case = json.load(sys.stdin)
    settings = ("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/weight-S:0")
    engine = simgrid.Engine(["simgrid", "--log=root.thres:error", *(f"--cfg={setting}" for setting in settings)])
    zone = simgrid.NetZone.create_full_zone("fabric")
    links = {name: zone.create_link(name, rate).seal() for name, rate in case["links"].items()}
    names = sorted({flow[end] for flow in case["flows"] for end in ("src", "dst")})
    hosts = {name: zone.create_host(name, 1e9).seal() for name in names}
    for src, dst, path in {(flow["src"], flow["dst"], tuple(flow["links"])) for flow in case["flows"]}:
        crossed = [simgrid.LinkInRoute(links[name]) for name in path]
        zone.add_route(hosts[src].netpoint, hosts[dst].netpoint, None, None, crossed, False)
    zone.seal()
    finish: dict[str, float] = {}

    def send(flow: dict[str, Any]) -> None:
        simgrid.this_actor.sleep_until(flow["start"])
        simgrid.Comm.sendto(hosts[flow["src"]], hosts[flow["dst"]], flow["bytes"])
        finish[flow["id"]] = simgrid.Engine.clock

    for flow in case["flows"]:
        simgrid.Actor.create(flow["id"], hosts[flow["src"]], send, flow)
    began = time.perf_counter()
    engine.run()
    print(json.dumps({"finish": finish, "wall_s": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
