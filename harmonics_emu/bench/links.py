"""`bench links`: what shaped links carry, how strict the bands are, and whether opposed jobs leave each other alone."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec

from harmonics_emu.bench.sandboxed import measure_inside
from harmonics_emu.cli.output import print_json, print_table
from harmonics_emu.emulate.capacity import Stream, measure_goodput, measure_streams
from harmonics_emu.emulate.control import network_state
from harmonics_emu.emulate.job_queues import JobQueues, Lane
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.sandbox import enter_sandbox
from harmonics_emu.schedulers.interface import JobPlan, Plan
from topologies.addressing import job_interface
from topologies.fabric import Fabric
from topologies.rack_spine import rack_spine
from topologies.shaping import LEVELS, goodput_bps
from workloads.job import Job

MBIT = 1_000_000
GOODPUT_RATES = (10, 50, 100, 500, 1000, 2000)
BAND_RATES = (10, 100, 1000)
OPPOSED_RATE = 100
MEASURED_S, SETTLE_S = 4.0, 1.0


@click.command("links")
@click.option("--json", "as_json", is_flag=True, help='Print {"rows": [...]}.')
def command(as_json: bool) -> None:
    """Measure links across two racks with plain TCP. Needs root.

    goodput: one link, four connections, the median of five tries. bands: eight flows, one a level; each one's share.
    opposed: two jobs of unequal level, one each way. Shares are of what headers leave of the rate.
    """
    rows = [measure("goodput", rate) for rate in GOODPUT_RATES]
    rows += [measure("bands", rate) for rate in BAND_RATES]
    rows.append(measure("opposed", OPPOSED_RATE))
    if as_json:
        print_json({"rows": rows})
        return
    cells = [(row["kind"], row["mbit"], ", ".join(f"{share:.3f}" for share in row["shares"])) for row in rows]
    print_table(("measured", "Mbit/s", "shares of what the link allows"), cells)


def measure(kind: str, mbit: int) -> dict[str, Any]:
    shares = measure_inside("harmonics_emu.bench.links", kind, str(mbit))
    return {"kind": kind, "mbit": mbit, "shares": shares}


def _inside(kind: str, rate_bps: int, logs: Path) -> list[float]:
    """Process 1 of a sandbox: the fabric, the jobs' levels in force, and the shares of the streams."""
    from harmonics_emu.emulate.testbed import raise_testbed

    enter_sandbox(keep=[logs])
    count = {"goodput": 1, "bands": LEVELS, "opposed": 2}[kind]
    fabric = rack_spine(2, count, 1, host_rate_bps=rate_bps, uplink_rate_bps=rate_bps)
    jobs = [_job(number, kind) for number in range(count)]
    testbed = raise_testbed(fabric, jobs, Logs(logs))
    plan = Plan("bench", {job.name: JobPlan(level=job.index if kind == "bands" else 1 + job.index) for job in jobs})
    testbed.controller.install(network_state(fabric, jobs, plan, seed=0), 10.0)
    with JobQueues(fabric) as queues:
        queues.set({host: {job.index: Lane(plan.of(job.name).level)} for job in jobs for host in job.hosts})
    if kind == "goodput":
        measured = [median(measure_goodput(fabric, "r0h0", "r1h0", MEASURED_S / 5) for _ in range(5))]
    else:
        measured = measure_streams([_stream(fabric, job) for job in jobs], MEASURED_S, SETTLE_S)
    testbed.lower()
    return [bps / goodput_bps(rate_bps) for bps in measured]


def _job(number: int, kind: str) -> Job:
    hosts = (f"r0h{number}", f"r1h{number}")
    if kind == "opposed" and number == 1:
        hosts = (hosts[1], hosts[0])
    return Job(name=f"job{number}", index=number, program="ddp", hosts=hosts, iterations=1)


def _stream(fabric: Fabric, job: Job) -> Stream:
    src, dst = job.hosts
    return Stream(src, dst, str(job_interface(job.index, fabric.host_index[dst]).ip))


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_inside(sys.argv[1], int(sys.argv[2]) * MBIT, Path(sys.argv[3]))))
