"""Mininet's prompt on a fabric: the sandbox, switches, shaping and controller of a run, and a person at the keys."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec
from pydantic import TypeAdapter, ValidationError

from harmonics_emu.emulate.control import network_state
from harmonics_emu.emulate.logs import Logs
from harmonics_emu.emulate.sandbox import enter_sandbox, kill_sandbox, python_command, require_root, start_sandbox
from harmonics_emu.emulate.testbed import raise_testbed
from harmonics_emu.errors import Terminated, UsageError
from harmonics_emu.scenario import load_scenario
from harmonics_emu.scenario.fabrics import FabricSection
from harmonics_emu.schedulers.interface import Plan
from topologies.fabric import Fabric
from workloads.job import Job

INSTALL_S = 30.0


def open_prompt(scenario: str | None, fabric_json: str | None) -> int:
    """Open the prompt in a sandbox and return its exit status once the user has left it.

    Exactly one of the two is given: a scenario's file or name, or a `fabric` section as JSON. UsageError without root.
    """
    require_root()
    _read(scenario, fabric_json)
    arguments = ["--scenario", scenario] if scenario is not None else ["--fabric", str(fabric_json)]
    with TemporaryDirectory(prefix="harmonics-") as logs:
        command = python_command("harmonics_emu.emulate.prompt", *arguments, "--logs", logs)
        # The prompt needs the terminal, so it stays in the caller's session.
        process = start_sandbox(command, log=None, stdin=None, stdout=None, new_session=False)
        try:
            while True:
                try:
                    return process.wait()
                except Terminated:
                    raise
                except KeyboardInterrupt:
                    continue  # Ctrl-C is for the program at the prompt, which hears it too.
        finally:
            if process.poll() is None:
                kill_sandbox(process)


def _read(scenario: str | None, fabric_json: str | None) -> tuple[Fabric, tuple[Job, ...]]:
    if scenario is not None:
        loaded = load_scenario(scenario)
        return loaded.fabric(), loaded.jobs()
    try:
        section = TypeAdapter(FabricSection).validate_python(msgspec.json.decode(str(fabric_json)))
        return section.build(), ()
    except msgspec.DecodeError as error:
        raise UsageError(f"--fabric is no JSON: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"--fabric: {where}: {first['msg']}") from None


@click.command()
@click.option("--scenario")
@click.option("--fabric", "fabric_json")
@click.option("--logs", type=click.Path(path_type=Path), required=True)
def inside(scenario: str | None, fabric_json: str | None, logs: Path) -> None:
    """Process 1 of the prompt's sandbox."""
    from mininet.cli import CLI
    from mininet.log import setLogLevel

    setLogLevel("info")
    fabric, jobs = _read(scenario, fabric_json)
    enter_sandbox(keep=[logs, Path.cwd()])
    testbed = raise_testbed(fabric, jobs, Logs(logs))
    rules = testbed.controller.install(network_state(fabric, jobs, Plan(policy="fair"), seed=0), INSTALL_S)
    click.echo(
        f"{len(fabric.hosts)} hosts, {len(fabric.switches)} switches, {len(rules)} rules; up in {testbed.up_s:.1f} s. "
        "Try `pingall`, `links`, `r0h0 iperf3 -s &`; `exit` takes everything down."
    )
    CLI(testbed.network)
    sys.exit(0)


if __name__ == "__main__":
    inside(standalone_mode=True)
