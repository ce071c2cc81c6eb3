"""Process 1 of a run's sandbox: reads one request, makes the run, writes the run directory, and says how it went."""

from __future__ import annotations

import os
import pwd
import sys
import threading
import time
import traceback
from pathlib import Path

from harmonics_emu.emulate.capture import Captures, plan_taps
from harmonics_emu.emulate.conclude import conclude
from harmonics_emu.emulate.conduct import Conductor
from harmonics_emu.emulate.guard import is_guarded
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.protocol import Event, Finished, Phase, RunRequest, decode_request, encode_line
from harmonics_emu.emulate.ranks import Launcher, RankSettings
from harmonics_emu.emulate.sandbox import enter_sandbox
from harmonics_emu.emulate.solving import Begin, Planner, Solver
from harmonics_emu.emulate.testbed import CONTROLLER_SOCKET, raise_testbed
from harmonics_emu.emulate.two_tiers import TwoTiers
from harmonics_emu.errors import HarmonicsError
from harmonics_emu.ownership import Owner
from harmonics_emu.results import captures
from harmonics_emu.results.run_directory import make_subdirectory
from harmonics_emu.scenario import Scenario, load_scenario
from harmonics_emu.schedulers.options import epoch_option

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
"""What ranks inherit of the caller's environment. Nothing else: a root shell's secrets are no business of theirs."""

TWO_TIERED = "harmonics"
"""The policy that plans in two tiers, in processes of their own. All others plan in one."""

_speaking = threading.Lock()


def say(event: Event) -> None:
    """Send one event to the supervisor. Its death ends this process by signal, so a broken pipe needs no handling."""
    with _speaking:
        os.write(1, encode_line(event) + b"\n")


def main() -> None:
    """Entry point of `python -m harmonics_emu.emulate.inside`."""
    request = decode_request.decode(sys.stdin.readline())
    began = time.monotonic()
    try:
        finished = Finished(_run(request, began))
    except HarmonicsError as error:
        finished = Finished(error.exit_code, " ".join(str(error).split("\n")))
    except Exception as error:
        traceback.print_exc()
        finished = Finished(1, f"an error of harmonics-emu's own: {error!r}; see logs/run.log")
    say(finished)


def _run(request: RunRequest, began: float) -> int:
    directory = Path(request.directory)
    enter_sandbox(keep=[directory, Path(request.working_directory)])
    scenario = load_scenario(str(directory / "scenario.yaml"))
    fabric, jobs, logs = scenario.fabric(), scenario.jobs(), Logs(directory / "logs", request.owner)
    launcher = Launcher(logs)
    solver = _start_solver(request, scenario, logs)
    say(Phase(f"building {len(fabric.hosts)} hosts and {len(fabric.switches)} switches"))
    testbed = raise_testbed(fabric, jobs, logs)
    say(Phase("importing torch"))
    import_s = launcher.wait_until_ready()
    conductor = Conductor(
        scenario=scenario,
        policy=request.policy,
        seed=request.seed,
        testbed=testbed,
        launcher=launcher,
        solver=solver,
        settings=_rank_settings(request),
        captures=_captures(request, scenario),
        say=say,
        stop=_stop_requested(),
    )
    outcome = conductor.conduct()
    say(Phase("writing down results"))
    timings = {"fabric_up_s": testbed.up_s, "torch_import_s": import_s, "to_time_zero_s": outcome.zero_s - began}
    exit_code = conclude(request, scenario, testbed, outcome, timings)
    solver.stop()
    launcher.shut_down()
    testbed.lower()
    return exit_code


def _start_solver(request: RunRequest, scenario: Scenario, logs: Logs) -> Planner:
    """What makes the policy's plans. It comes up while the fabric is built."""
    fabric = scenario.fabric()
    begin = Begin(
        policy=request.policy,
        options=dict(scenario.policy_options),
        fabric=fabric,
        seed=request.seed,
        background=scenario.background(),
        epoch_s=epoch_option(scenario.policy_options),
        guarded=is_guarded(request.policy, scenario.policy_options),
    )
    if request.policy != TWO_TIERED:
        return Solver(begin, logs)
    racks = sorted({fabric.rack_of[host] for job in scenario.jobs() for host in job.hosts})
    return TwoTiers(begin, racks, CONTROLLER_SOCKET, logs)


def _captures(request: RunRequest, scenario: Scenario) -> Captures:
    directory, taps = Path(request.directory), plan_taps(scenario.fabric(), scenario.capture)
    where = make_subdirectory(directory, captures.DIRECTORY, request.owner) if taps else directory
    return Captures(taps, where, request.owner)


def _rank_settings(request: RunRequest) -> RankSettings:
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment["HOME"] = _home(request.owner)
    # A command's `python` is the one that has torch, unless it names another by its path.
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment.get('PATH', os.defpath)}"
    return RankSettings(
        owner=request.owner,
        groups=_groups(request.owner),
        environment=environment,
        working_directory=request.working_directory,
        output_dir=Path(request.directory),
        seed=request.seed,
    )


def _home(owner: Owner | None) -> str:
    try:
        return pwd.getpwuid(os.getuid() if owner is None else owner[0]).pw_dir
    except KeyError:
        return "/"


def _groups(owner: Owner | None) -> tuple[int, ...]:
    if owner is None:
        return ()
    try:
        return tuple(os.getgrouplist(pwd.getpwuid(owner[0]).pw_name, owner[1]))
    except KeyError:
        return (owner[1],)


def _stop_requested() -> threading.Event:
    """An event that is set when the supervisor closes our standard input."""
    event = threading.Event()

    def listen() -> None:
        while sys.stdin.readline():
            pass
        event.set()

    threading.Thread(target=listen, name="stop request", daemon=True).start()
    return event


if __name__ == "__main__":
    main()
