"""Policies side by side over one scenario: isolated runs once, then repeats with the policies interleaved.

A comparison's directory holds one folder a run, so that one that was interrupted goes on where it stopped:

    DIR/isolated/JOB/        each job alone (emulator only; the simulator predicts it in each run)
    DIR/POLICY/REPEAT/       the runs themselves; a policy with options has a folder for them
    DIR/scenario.yaml, DIR/comparison.json
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harmonics_emu.errors import UsageError
from harmonics_emu.ownership import Owner, invoking_owner
from harmonics_emu.planning import refuse_options
from harmonics_emu.results.build import isolated_from
from harmonics_emu.results.comparison import compare
from harmonics_emu.results.manifest import build_manifest
from harmonics_emu.results.run_directory import file_name, locked, prepare_run_directory, write_file
from harmonics_emu.results.schema import Comparison, Engine, Isolated, Result, read_result
from harmonics_emu.results.store import holds_result, write_comparison
from harmonics_emu.runs import carry_out
from harmonics_emu.scenario import Scenario
from harmonics_emu.scenario.policy_choice import PolicyChoice, labelled
from harmonics_emu.schedulers.exact.bound import lower_bound

ISOLATED_ITERATIONS = 40
"""Iterations of an isolated run: enough for a mean, since nothing else is on the links. The rest is scaled up."""
ISOLATED_POLICY = "fair"
SCENARIO = "scenario.yaml"


@dataclass(frozen=True)
class FinishedComparison:
    """exit_code: 1 if a job of any run failed, else 3 if a run is not faithful, else 0."""

    comparison: Comparison
    directory: Path
    exit_code: int


def compare_policies(
    scenario: Scenario,
    policies: Sequence[str],
    engine: Engine,
    *,
    repeats: int,
    directory: Path,
    allow_commands: bool = False,
    on_run: Callable[[str], None] = lambda label: None,
    on_event: Callable[[Any], None] = lambda event: None,
) -> FinishedComparison:
    """Run every policy `repeats` times and compare. Repeat number r has the scenario's seed + r, for all policies.

    policies: names, or names with options (`crux:levels=4`); the comparison calls each by its name, and by the whole
    text where two are of one name.
    `directory` may hold an earlier, interrupted comparison of the same scenario: runs that it has are kept.
    on_run hears of each run before it begins, on_event what happens in it.
    """
    choices = labelled(policies)
    for choice in choices.values():
        refuse_options(scenario.with_policy(choice.text))
    owner = invoking_owner()
    directory = prepare_run_directory(directory, owner, resume=True)
    with locked(directory):
        return _compare(scenario, choices, engine, repeats, directory, owner, allow_commands, on_run, on_event)


def _compare(
    scenario: Scenario,
    choices: Mapping[str, PolicyChoice],
    engine: Engine,
    repeats: int,
    directory: Path,
    owner: Owner | None,
    allow_commands: bool,
    on_run: Callable[[str], None],
    on_event: Callable[[Any], None],
) -> FinishedComparison:
    _keep_scenario(directory, scenario, owner)
    isolated: dict[str, Isolated] = {}

    def one_run(chosen: Scenario, label: str, where: Path) -> Result:
        if not holds_result(where):
            on_run(label)
            finished = carry_out(
                chosen,
                engine=engine,
                out=where,
                resume=True,
                allow_commands=allow_commands,
                isolated=isolated,
                on_event=on_event,
            )
            if finished.interrupted:
                # Half a run is none: a comparison that goes on later makes it anew.
                (where / "result.json").unlink()
                raise KeyboardInterrupt
        kept = read_result(where / "result.json")
        if kept.engine != engine:
            raise UsageError(f"{where} holds a run of the other engine ({kept.engine}); choose another --out")
        return kept

    if engine == "emulate":
        for job in scenario.jobs():
            alone = scenario.alone(job.name, ISOLATED_ITERATIONS).with_policy(ISOLATED_POLICY)
            where = directory / "isolated" / file_name(job.name)
            result = one_run(alone, f"{scenario.name}: job {job.name} alone", where)
            isolated[job.name] = isolated_from(result, job)
    results: dict[str, list[Result]] = {policy: [] for policy in choices}
    for repeat in range(repeats):
        for policy, choice in choices.items():
            chosen = scenario.with_policy(choice.text).with_seed(scenario.seed + repeat)
            label = f"{scenario.name}: {policy}, repeat {repeat + 1} of {repeats}"
            results[policy].append(one_run(chosen, label, directory / file_name(choice.text) / str(repeat)))
    comparison = compare(results, _lower_bounds(scenario, repeats))
    settings = {"policies": [choice.text for choice in choices.values()], "repeats": repeats, "engine": engine}
    write_comparison(directory, comparison, build_manifest(seed=scenario.seed, owner=owner, settings=settings), owner)
    return FinishedComparison(comparison, directory, _exit_code(results))


def _lower_bounds(scenario: Scenario, repeats: int) -> list[float] | None:
    """Of S, one a repeat, by the fluid model on both engines; None where there is none.

    A user's command has no model, and a bound for one placement of jobs that move or queue says nothing of another.
    """
    if scenario.movable or scenario.queue or any(job.command for job in scenario.jobs()):
        return None
    drawn = [scenario.with_seed(scenario.seed + repeat) for repeat in range(repeats)]
    return [lower_bound(one.fabric(), one.jobs(), one.seed, one.events()).value for one in drawn]


def _keep_scenario(directory: Path, scenario: Scenario, owner: Owner | None) -> None:
    """Note the scenario that the directory's runs are of; refuse to mix runs of different ones."""
    if holds_result(directory):
        raise UsageError(f"{directory} holds a single run and no comparison; choose another --out")
    kept, text = directory / SCENARIO, scenario.resolved_yaml().encode()
    if kept.is_file() and kept.read_bytes() != text:
        raise UsageError(f"{directory} holds a comparison of another scenario than this one; choose another --out")
    write_file(directory, SCENARIO, text, owner)


def _exit_code(results: dict[str, list[Result]]) -> int:
    everything = [run for runs in results.values() for run in runs]
    if any(job.status != "done" for run in everything for job in run.jobs):
        return 1
    return 3 if any(run.fidelity.verdict == "not faithful" for run in everything) else 0
