"""A scenario on the fluid engine: records, result and, where wanted, a run directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harmonics_emu.errors import UsageError
from harmonics_emu.ownership import Owner
from harmonics_emu.records import Placing
from harmonics_emu.results.build import build_result
from harmonics_emu.results.manifest import build_manifest
from harmonics_emu.results.schema import Fidelity, Isolated, Result
from harmonics_emu.results.store import write_run
from harmonics_emu.scenario import Scenario
from harmonics_emu.schedulers.options import epoch_option
from harmonics_emu.schedulers.registry import find_policy
from harmonics_emu.simulate.engine import Options, simulate
from harmonics_emu.simulate.predict import alone
from topologies.fabric import Fabric
from workloads.job import Job

LARGE_HOSTS = 1000
"""From this many hosts on, link counters are not sampled: only their last values are kept."""


def simulate_scenario(
    scenario: Scenario,
    *,
    directory: Path | None = None,
    owner: Owner | None = None,
    isolated: Mapping[str, Isolated] | None = None,
    placing: Placing | None = None,
) -> Result:
    """Simulate a scenario under its own policy and seed.

    directory: from prepare_run_directory, gets the run's files; None writes none.
    isolated: what jobs do alone, where it is known; the fluid model predicts the others. placing: how its policy placed
    the scenario's movable jobs, for the record. UsageError for a scenario that can't be simulated.
    """
    fabric, jobs = scenario.fabric(), scenario.jobs()
    for job in jobs:
        if job.command:
            raise UsageError(f"job {job.name} runs a command, of which the simulator knows nothing: emulate it")
    for restart in scenario.restarts():
        raise UsageError(
            f"the event at {restart.at_s:g} s restarts the {restart.daemon}, which the simulator has not; emulate it"
        )
    options = engine_options(scenario)
    known = dict(isolated or {})
    moved_from = {} if placing is None else placing.moved_from
    for job in jobs:
        if job.name not in known:
            unmoved = replace(job, hosts=moved_from.get(job.name, job.hosts))
            known[job.name] = _predicted(fabric, unmoved, scenario.seed)
    records = simulate(
        fabric,
        jobs,
        find_policy(scenario.policy),
        scenario.seed,
        scenario.background(),
        (*scenario.events(), *scenario.rank_events()),
        options,
        scenario.waiting_room([known[job.name].training_s or 0.0 for job in jobs]),
    )
    if placing is not None:
        records.decisions.insert(0, placing.decision)
    result = build_result(records, jobs, fabric, scenario.name, known, Fidelity(verdict="faithful"))
    if directory is not None:
        settings: dict[str, Any] = {
            "granularity": options.granularity,
            "sample_s": options.sample_s,
            "epoch_s": options.epoch_s,
        }
        if records.hosts:
            settings["hosts"] = records.hosts
        manifest = build_manifest(seed=scenario.seed, owner=owner, settings=settings)
        write_run(directory, result, records, scenario.resolved_yaml(), manifest, owner)
    return result


def engine_options(scenario: Scenario) -> Options:
    """How to simulate a scenario: its policy's `epoch` is the engine's. UsageError if that is no time."""
    policy = scenario.policy_options
    epoch_s = epoch_option(policy)
    sample_s = None if len(scenario.fabric().hosts) >= LARGE_HOSTS else Options.sample_s
    return Options(sample_s=sample_s, epoch_s=epoch_s, policy=policy)


def _predicted(fabric: Fabric, job: Job, seed: int) -> Isolated:
    means, training_s = alone(fabric, job, seed)
    return Isolated(
        iteration_s=means.iteration_s,
        communication_s=means.communication_s,
        training_s=training_s,
        source="predicted",
    )
