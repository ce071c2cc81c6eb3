"""The supervisor: makes one emulated run in a sandbox of its own, from outside it, and never leaves anything behind."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.progress_log import ProgressLog
from harmonics_emu.emulate.protocol import Event, Finished, RunRequest, decode_event, encode_line
from harmonics_emu.emulate.sandbox import kill_sandbox, python_command, require_root, start_sandbox
from harmonics_emu.errors import HarmonicsError, RunFailed, UsageError
from harmonics_emu.ownership import Owner
from harmonics_emu.records import Placing
from harmonics_emu.results.run_directory import make_subdirectory, write_file
from harmonics_emu.results.schema import Isolated, Result, read_result
from harmonics_emu.scenario import Scenario
from harmonics_emu.schedulers.interface import Policy, WeightedPolicy
from harmonics_emu.schedulers.registry import find_policy
from topologies.addressing import MAX_JOBS

MOST_HOSTS = 4_096
"""Four times what has been tried: each host is a network namespace, and all share this machine's cores."""
SLOWEST_BPS = 8_000
MOST_CAPTURES = 64
"""Each is a program of its own that copies the headers of all packets of its link."""
SILENCE_S = 90.0
"""The run inside reports at least every second; so long a silence means that it hangs."""
STOP_S = 15.0
"""How long an interrupted run may take to stop its jobs and write down what it has."""


@dataclass(frozen=True)
class EmulatedRun:
    """A finished run: its result and the exit status that a command should end with.

    interrupted: Ctrl-C (or SIGTERM, SIGHUP) ended it; the result holds what it had come to.
    """

    result: Result
    exit_code: int
    interrupted: bool = False


def emulate(
    scenario: Scenario,
    policy: str,
    directory: Path,
    *,
    owner: Owner | None = None,
    isolated: Mapping[str, Isolated] | None = None,
    placing: Placing | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> EmulatedRun:
    """Run a scenario on the emulator, into a directory that `prepare_run_directory` made.

    Call it from the main thread or one that outlives the run: the sandbox dies with the thread that started it.
    placing: how the scenario's movable jobs were placed, for the record.
    UsageError without root, or where the scenario asks for what this machine can't do; RunFailed where the run could
    not be carried to its end. A job that fails is no exception: its status is in the result.
    """
    require_root()
    logs = Logs(make_subdirectory(directory, "logs", owner), owner)
    write_file(directory, "scenario.yaml", scenario.resolved_yaml().encode(), owner)
    request = RunRequest(
        directory=str(directory),
        working_directory=os.getcwd(),
        policy=policy,
        seed=scenario.seed,
        owner=owner,
        isolated=dict(isolated or {}),
        placing=placing,
    )
    with ProgressLog(directory, owner) as log:

        def tell(event: Event) -> None:
            log.take(event)
            on_event(event)

        finished, interrupted = _supervise(request, logs, tell)
        log.take(finished)
    if finished.error is not None:
        failure = UsageError if finished.exit_code == UsageError.exit_code else RunFailed
        raise failure(finished.error)
    return EmulatedRun(read_result(directory / "result.json"), finished.exit_code, interrupted)


def refuse_what_may_not_run(scenario: Scenario, policy: str, allow_commands: bool) -> None:
    """UsageError for a command that was not allowed, and for what only the simulator has."""
    commands = [job.name for job in scenario.jobs() if job.command]
    if commands and not allow_commands:
        raise UsageError(
            f"job {commands[0]!r} runs a command of the scenario's own; read it, then allow it with --allow-commands"
        )
    refuse_what_is_simulated_only(find_policy(policy))
    if scenario.queue is not None:
        raise UsageError("the emulator starts each job when it comes, and has no queue for GPUs; simulate it")
    _refuse_sizes(scenario)
    _refuse_rates(scenario)
    _refuse_captures(scenario)


def _refuse_captures(scenario: Scenario) -> None:
    """UsageError for more captures than a machine can take beside the run, or without what takes them."""
    if len(scenario.capture) > MOST_CAPTURES:
        raise UsageError(
            f"{len(scenario.capture)} links are to be captured, but at most {MOST_CAPTURES} can be; name those you need"
        )
    if scenario.capture and shutil.which("tcpdump") is None:
        raise UsageError("captures need tcpdump, which is not on PATH: install it (scripts/bootstrap does)")


def _refuse_sizes(scenario: Scenario) -> None:
    """UsageError for more hosts than one machine can be expected to hold, or more jobs than there are subnets."""
    for what, count, most in (
        ("hosts", len(scenario.fabric().hosts), MOST_HOSTS),
        ("jobs", len(scenario.jobs()), MAX_JOBS),
    ):
        if count > most:
            raise UsageError(f"the scenario has {count} {what}, but the emulator takes at most {most}; simulate it")


def _refuse_rates(scenario: Scenario) -> None:
    """UsageError for links too slow to shape, and for events that would make a link faster than all that are tried."""
    links = scenario.fabric().links.values()
    for link in links:
        if link.rate_bps < SLOWEST_BPS:
            raise UsageError(f"{link.name} has {link.rate_bps} bit/s; the emulator shapes links of 8 kbit/s and more")
    fastest = max(link.rate_bps for link in links)
    for event in scenario.events():
        if event.rate_bps is not None and not SLOWEST_BPS <= event.rate_bps <= fastest:
            raise UsageError(
                f"the event at {event.at_s:g} s gives {event.link} {event.rate_bps} bit/s; "
                f"the emulator takes 8 kbit/s to the fabric's fastest link ({fastest} bit/s)"
            )


def refuse_what_is_simulated_only(policy: Policy) -> None:
    """UsageError for a policy of weights that TCP would ignore."""
    if isinstance(policy, WeightedPolicy):
        raise UsageError(
            f"policy {policy.name} changes the jobs' shares as they send, which only the simulator can do; simulate it"
        )


def _supervise(request: RunRequest, logs: Logs, on_event: Callable[[Event], None]) -> tuple[Finished, bool]:
    """How the run finished, and whether it was interrupted."""
    with logs.open("run.log") as log:
        process = start_sandbox(python_command("harmonics_emu.emulate.inside"), log=log)
    assert process.stdin is not None
    try:
        process.stdin.write(encode_line(request) + b"\n")
        process.stdin.flush()
        return _follow(process, on_event, SILENCE_S), False
    except BrokenPipeError:
        return Finished(1, "the run ended before it began; see its logs/run.log"), False
    except KeyboardInterrupt:
        # A second Ctrl-C leaves this handler and kills the sandbox at once.
        with contextlib.suppress(BrokenPipeError, RunFailed):
            process.stdin.close()
            return _follow(process, on_event, STOP_S), True
        raise
    finally:
        _end(process)


def _follow(process: subprocess.Popen[bytes], on_event: Callable[[Event], None], silence_s: float) -> Finished:
    """Hand on events until the run says that it has finished; RunFailed when it dies or falls silent."""
    assert process.stdout is not None
    handle = process.stdout.fileno()
    pending = b""
    deadline = time.monotonic() + silence_s
    while True:
        ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise RunFailed(f"the run said nothing for {silence_s:.0f} s and was ended; see its logs/run.log")
        chunk = os.read(handle, 65536)
        if not chunk:
            raise RunFailed(f"the run ended without a word ({_status(process)}); see its logs/run.log")
        deadline = time.monotonic() + silence_s
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            try:
                event = decode_event.decode(line)
            except msgspec.MsgspecError:
                raise HarmonicsError(f"the run sent what is no event: {line[:200]!r}") from None
            if isinstance(event, Finished):
                return event
            on_event(event)


def _status(process: subprocess.Popen[bytes]) -> str:
    try:
        return f"status {process.wait(timeout=2)}"
    except subprocess.TimeoutExpired:
        return "still alive"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the sandbox, with everything in it, and wait until it is gone. A Ctrl-C meanwhile does not stop that."""
    previous = signal.getsignal(signal.SIGINT)
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        kill_sandbox(process)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
    finally:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, previous)
