"""Turns what a conducted run left into records, a verdict and a result, and writes the run directory."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu import shell
from harmonics_emu.emulate.fidelity import Evidence, JobTimers, LinkUse, exit_code_of, judge
from harmonics_emu.emulate.network import host_settings
from harmonics_emu.emulate.outcome import Outcome
from harmonics_emu.emulate.protocol import RunRequest
from harmonics_emu.emulate.testbed import Testbed
from harmonics_emu.errors import HarmonicsError, RunFailed
from harmonics_emu.records import ITERATION, Records
from harmonics_emu.results import captures
from harmonics_emu.results.build import build_result
from harmonics_emu.results.captures import write_accounts
from harmonics_emu.results.manifest import build_manifest
from harmonics_emu.results.schema import Isolated
from harmonics_emu.results.store import write_run
from harmonics_emu.scenario import Scenario
from harmonics_emu.scenario.estimate import estimate_alone
from harmonics_emu.schedulers.interface import JobPlan
from harmonics_emu.simulate.routing import Router
from topologies.fabric import Fabric
from topologies.shaping import FRAME_BYTES, goodput_bps
from workloads.collectives import goes_in_phases, job_transfers
from workloads.job import Job
from workloads.output_files import spans_path, timer_path
from workloads.spans import read_spans


def conclude(
    request: RunRequest, scenario: Scenario, testbed: Testbed, outcome: Outcome, timings: Mapping[str, float]
) -> int:
    """Write the run directory and return the run's exit status: 1 if a job failed, 3 if it is not faithful, else 0."""
    directory, jobs, fabric, placing = Path(request.directory), testbed.jobs, testbed.fabric, request.placing
    records = Records(
        engine="emulate",
        policy=request.policy,
        seed=request.seed,
        iterations={job.name: _iterations(directory, job) for job in jobs},
        outcomes=outcome.outcomes,
        links=outcome.links,
        link_bytes=outcome.link_bytes,
        decisions=outcome.decisions if placing is None else [placing.decision, *outcome.decisions],
        rules=outcome.rules,
        gates_failed_open=outcome.gates_failed_open,
        fallbacks=outcome.fallbacks,
    )
    moved_from = {} if placing is None else placing.moved_from
    predicted = {job.name: _predict(fabric, replace(job, hosts=moved_from.get(job.name, job.hosts))) for job in jobs}
    fidelity = judge(
        Evidence(
            cpu_busy=outcome.cpu_busy,
            datapath_busy=outcome.datapath_busy,
            links=_link_uses(fabric, outcome, bottlenecks(fabric, jobs, outcome.in_force, request.seed)),
            timers=[timers for job in jobs if (timers := _timers(directory, job)) is not None],
            timeouts=sum(host.timeouts for host in outcome.hosts.values()),
            isolated=isolated_pairs(jobs, request.isolated, predicted),
            faults=outcome.faults,
            violations=outcome.violations,
            notes=[
                f"the capture of {capture.link} is incomplete: {capture.incomplete}"
                for capture in outcome.captures.values()
                if capture.incomplete is not None
            ],
        )
    )
    isolated = {name: alone for name, alone in predicted.items() if alone is not None} | request.isolated
    result = build_result(records, jobs, fabric, scenario.name, isolated, fidelity)
    manifest = build_manifest(
        seed=request.seed,
        owner=request.owner,
        settings={**_settings(testbed, timings), "control_cpu_s": outcome.control_cpu_s},
        open_vswitch=shell.run(["ovs-vswitchd", "--version"]).splitlines()[0],
    )
    if outcome.captures:
        write_accounts(directory / captures.DIRECTORY, outcome.captures, request.owner)
    write_run(directory, result, records, scenario.resolved_yaml(), manifest, request.owner)
    if any(job.status != "done" for job in result.jobs):
        return RunFailed.exit_code
    return exit_code_of(fidelity.verdict)


def _iterations(directory: Path, job: Job) -> NDArray[Any]:
    """The spans of all ranks of a job; none from ranks that never began (or from a command, which makes none)."""
    paths = (spans_path(directory, job.name, rank) for rank in range(job.ranks))
    tables = [read_spans(path) for path in paths if path.is_file()]
    return np.concatenate(tables) if tables else np.empty(0, ITERATION)


def _timers(directory: Path, job: Job) -> JobTimers | None:
    """The worst rank's timer lateness, None for programs that keep no such account."""
    found = []
    for rank in range(job.ranks):
        # A rank that was killed leaves none, a full disk half a one.
        with contextlib.suppress(OSError, ValueError, KeyError):
            found.append(float(json.loads(timer_path(directory, job.name, rank).read_text())["p99_s"]))
    return JobTimers(job.name, job.compute_s, max(found)) if found else None


def _predict(fabric: Fabric, job: Job) -> Isolated | None:
    """What the fluid model says of a job alone, None for a user's command, of which it knows nothing."""
    if job.command:
        return None
    alone = estimate_alone(fabric, job)
    return Isolated(
        iteration_s=alone.iteration_s,
        communication_s=alone.iteration_s - job.compute_s,
        training_s=alone.iteration_s * job.iterations,
        source="predicted",
    )


def isolated_pairs(
    jobs: Sequence[Job], measured: Mapping[str, Isolated], predicted: Mapping[str, Isolated | None]
) -> dict[str, tuple[float, float]]:
    """Measured and predicted time alone, of jobs for which a difference speaks of the machine.

    The fluid model lets all of a collective's bytes go at once, so it has too little time for one that goes in phases.
    """
    pairs = {}
    for job in jobs:
        alone, fluid = measured.get(job.name), predicted.get(job.name)
        if goes_in_phases(job) or alone is None or fluid is None:
            continue
        if alone.iteration_s and fluid.iteration_s:
            pairs[job.name] = (alone.iteration_s, fluid.iteration_s)
    return pairs


def bottlenecks(fabric: Fabric, jobs: Sequence[Job], plans: Mapping[str, JobPlan], seed: int) -> frozenset[str]:
    """The directed links that limit some job when it is alone on the paths it takes under these plans."""
    router = Router(fabric, seed)
    found: set[str] = set()
    for job in jobs:
        seconds: defaultdict[str, float] = defaultdict(float)
        planned = plans[job.name].paths if job.name in plans else {}
        for (src, dst), size in job_transfers(job, fabric.rack_of).items():
            for link in router.path(job.name, src, dst, planned.get((src, dst))):
                seconds[link] += size / fabric.links[link].rate_bps
        slowest = max(seconds.values(), default=0.0)
        found.update(link for link, time_s in seconds.items() if slowest and time_s > 0.99 * slowest)
    return frozenset(found)


def _link_uses(fabric: Fabric, outcome: Outcome, limiting: frozenset[str]) -> list[LinkUse]:
    uses = []
    goodput = outcome.meter.goodput_bps()
    for index, link in enumerate(fabric.links.values()):
        rows = outcome.links[link.name]
        carried = int(rows["bytes"][-1]) if len(rows) else 0
        if link.src in fabric.host_index:
            drops = outcome.hosts[link.src].drops
        else:
            drops = int(rows["drops"][-1]) if len(rows) else 0
        achievable = goodput_bps(link.rate_bps)
        busy = float(goodput[index]) * achievable / link.rate_bps
        uses.append(
            LinkUse(
                link=link.name,
                configured_bps=link.rate_bps,
                achievable_bps=achievable,
                busy_goodput_bps=None if np.isnan(busy) else busy,
                busy_s=float(outcome.meter.seconds[index]),
                packets=carried // FRAME_BYTES,
                drops=drops,
                bottleneck=link.name in limiting,
            )
        )
    return uses


def _settings(testbed: Testbed, timings: Mapping[str, float]) -> dict[str, Any]:
    """What was applied, as read back. One host stands for all: each was checked when it was configured."""
    first = testbed.fabric.hosts[0].name
    settings: dict[str, Any] = {
        "datapath": testbed.vswitch.datapath,
        "window_bytes": testbed.network.window_bytes,
        "timings": dict(timings),
        "interfaces": {shape.link: [shape.node, shape.interface] for shape in testbed.network.shapes},
    }
    try:
        settings["host"] = {first: host_settings(first)}
    except HarmonicsError as error:
        settings["host"] = {first: str(error)}
    return settings
