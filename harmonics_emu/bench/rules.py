"""`bench rules`: how long it takes until what an epoch changes is in force, read back and compared."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec

from harmonics_emu.bench.sandboxed import measure_inside
from harmonics_emu.cli.output import print_json, print_table
from harmonics_emu.emulate.enforcement import Enforcer
from harmonics_emu.emulate.job_queues import JobQueues
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.sandbox import enter_sandbox
from harmonics_emu.results.tables import seconds
from harmonics_emu.schedulers.interface import JobPlan
from topologies.rack_spine import rack_spine
from workloads.job import Job

RACKS, HOSTS_PER_RACK, SPINES = 16, 16, 2
RATE_BPS = 1_000_000_000
RANKS = 4
MOST_JOBS = 64
TRIES = 5
PAUSE_S = 0.2
"""Between two changes, as an epoch would have it."""

Plans = dict[str, JobPlan]


@click.command("rules")
@click.option("--jobs", type=click.IntRange(1, MOST_JOBS), multiple=True, metavar="N", help="Default: 16 and 64.")
@click.option("--json", "as_json", is_flag=True, help='Print {"rows": [...]}.')
def command(jobs: tuple[int, ...], as_json: bool) -> None:
    """Time changes of plans on 256 hosts and 18 switches: jobs of four ranks, each in a rack of its own. Needs root.

    levels: all jobs change theirs, once to such as they had before and once to new ones. level: one job's. rates: all
    jobs' caps. Medians of five changes.
    """
    rows = [measure_inside("harmonics_emu.bench.rules", str(count)) for count in jobs or (16, MOST_JOBS)]
    if as_json:
        print_json({"rows": rows})
        return
    columns = ("jobs", "rules", "all levels, new", "known", "one level", "all rates")
    keys = ("new_levels_s", "known_levels_s", "level_s", "rates_s")
    print_table(columns, [(row["jobs"], row["rules"], *seconds([row[key] for key in keys])) for row in rows])


def _inside(count: int, logs: Path) -> dict[str, Any]:
    """Process 1 of a sandbox: a fabric with jobs that never run, and one plan after another put into force."""
    from harmonics_emu.emulate.testbed import raise_testbed

    enter_sandbox(keep=[logs])
    fabric = rack_spine(RACKS, HOSTS_PER_RACK, SPINES, RATE_BPS, RATE_BPS)
    jobs = [_job(number) for number in range(count)]
    testbed = raise_testbed(fabric, jobs, Logs(logs))
    enforcer = Enforcer(fabric, jobs, (), 0, testbed.controller, JobQueues(fabric))
    names = [job.name for job in jobs]
    enforcer.enforce(_levels(names, 0))
    new = [_timed(enforcer, _levels(names, turn)) for turn in range(1, TRIES + 1)]
    known = [_timed(enforcer, _levels(names, turn)) for turn in range(TRIES)]
    plans = _levels(names, TRIES - 1)
    one = [_timed(enforcer, {names[0]: JobPlan(level=level)}) for level in range(TRIES)]
    rates = [
        _timed(enforcer, {name: JobPlan(plan.level, rate_bps=RATE_BPS // (2 + turn)) for name, plan in plans.items()})
        for turn in range(TRIES)
    ]
    rules = len(enforcer.rules)
    testbed.lower()
    return {
        "jobs": count,
        "rules": rules,
        "new_levels_s": median(new),
        "known_levels_s": median(known),
        "level_s": median(one),
        "rates_s": median(rates),
    }


def _timed(enforcer: Enforcer, plans: Plans) -> float:
    time.sleep(PAUSE_S)
    return enforcer.enforce(plans)


def _levels(names: Sequence[str], turn: int) -> Plans:
    """Every job has another level in each of the first seven turns."""
    return {name: JobPlan(level=(number + turn) % 7) for number, name in enumerate(names)}


def _job(number: int) -> Job:
    group, place = divmod(number, RACKS)
    hosts = tuple(f"r{(place + 4 * rank) % RACKS}h{RANKS * group + rank}" for rank in range(RANKS))
    return Job(f"job{number}", number, "ddp", hosts, 1)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_inside(int(sys.argv[1]), Path(sys.argv[2]))))
