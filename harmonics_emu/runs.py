"""One run of one scenario under one policy, on either engine: the library call behind `run` and `simulate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from harmonics_emu.errors import UsageError
from harmonics_emu.ownership import invoking_owner
from harmonics_emu.records import Placing
from harmonics_emu.results.run_directory import locked, new_run_directory, prepare_run_directory
from harmonics_emu.results.schema import Engine, Isolated, Result
from harmonics_emu.scenario import Scenario, load_scenario
from harmonics_emu.schedulers.registry import find_policy


@dataclass(frozen=True)
class FinishedRun:
    """A run that came to its end: what it says, where it lies, and the exit status that a command gives for it.

    interrupted: somebody ended it before its jobs were done.
    """

    result: Result
    directory: Path | None
    exit_code: int
    interrupted: bool = False


def run(
    scenario: Scenario | str | Path,
    *,
    policy: str | None = None,
    engine: Engine = "simulate",
    out: Path | str | None = None,
    seed: int | None = None,
    allow_commands: bool = False,
) -> Result:
    """Run a scenario (or the file or built-in of that name) and return its result.

    policy (`crux`, or with options `crux:levels=4`) and seed default to the scenario's own. The emulator always writes
    a run directory (`out`, or a new one under ./runs) and needs root; the simulator writes one only where `out` is
    given. Raises HarmonicsError.
    """
    return carry_out(
        scenario if isinstance(scenario, Scenario) else load_scenario(scenario),
        policy=policy,
        engine=engine,
        out=None if out is None else Path(out),
        seed=seed,
        allow_commands=allow_commands,
    ).result


def carry_out(
    scenario: Scenario,
    *,
    policy: str | None = None,
    engine: Engine,
    out: Path | None = None,
    seed: int | None = None,
    resume: bool = False,
    allow_commands: bool = False,
    isolated: Mapping[str, Isolated] | None = None,
    on_event: Callable[[Any], None] = lambda event: None,
) -> FinishedRun:
    """As `run`, with what commands need beside the result. resume: `out` may hold an unfinished run, made anew then.
    isolated: what jobs do alone, where it is known already.
    """
    if engine not in get_args(Engine):
        raise UsageError(f"no engine is called {engine!r}; there are: {', '.join(get_args(Engine))}")
    chosen = scenario if policy is None else scenario.with_policy(policy)
    chosen = chosen if seed is None else chosen.with_seed(seed)
    find_policy(chosen.policy)
    chosen, placing = _placed(chosen)
    owner = invoking_owner()
    if engine == "simulate":
        from harmonics_emu.simulate.run import simulate_scenario

        if out is None:
            return FinishedRun(simulate_scenario(chosen, isolated=isolated, placing=placing), None, 0)
        directory = prepare_run_directory(out, owner, resume=resume)
        with locked(directory):
            result = simulate_scenario(chosen, directory=directory, owner=owner, isolated=isolated, placing=placing)
        return FinishedRun(result, directory, 0)
    from harmonics_emu.emulate.run import emulate, refuse_what_may_not_run
    from harmonics_emu.emulate.sandbox import require_root
    from harmonics_emu.planning import refuse_options

    require_root()
    refuse_options(chosen)
    refuse_what_may_not_run(chosen, chosen.policy, allow_commands)
    if out is None:
        directory = new_run_directory(chosen.name, chosen.policy, owner)
    else:
        directory = prepare_run_directory(out, owner, resume=resume)
    with locked(directory):
        finished = emulate(
            chosen,
            chosen.policy,
            directory,
            owner=owner,
            isolated=isolated,
            placing=placing,
            on_event=on_event,
        )
    return FinishedRun(finished.result, directory, finished.exit_code, finished.interrupted)


def _placed(scenario: Scenario) -> tuple[Scenario, Placing | None]:
    """The scenario with its movable jobs where its policy puts them."""
    if not scenario.movable:
        return scenario, None
    from harmonics_emu.planning import place

    return place(scenario)
