"""Scenarios that are written on the command line, as `run --job` takes them."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from harmonics_emu.cli.main import main
from harmonics_emu.errors import UsageError
from harmonics_emu.scenario.written_jobs import FABRIC, JOB_KEYS, write_scenario


def test_a_command_alone_has_two_ranks_on_two_racks() -> None:
    scenario = write_scenario(["python train.py --epochs 2 'a b'"], "")
    (job,) = scenario.jobs()
    assert (job.name, job.program, job.hosts) == ("job0", "command", ("r0h0", "r1h0"))
    assert job.command == ("python", "train.py", "--epochs", "2", "a b")
    assert len(scenario.fabric().hosts) == 2
    assert scenario.fabric().links["leaf0>spine0"].rate_bps == 100_000_000


def test_settings_come_before_the_command() -> None:
    written = [
        "name=one workers=6 start=2s weight=0.5 -- ./train.sh -- --fast",
        "hosts=r1h4,r0h3 priority=1 warmup=3 -- python b.py",
    ]
    scenario = write_scenario(written, "racks=2 host_rate=400Mbit uplink_rate=1Gbit spines=2")
    one, other = scenario.jobs()
    assert (scenario.name, one.name, other.name) == ("one+job1", "one", "job1")
    assert (one.ranks, one.start_s, one.weight, one.command) == (6, 2.0, 0.5, ("./train.sh", "--", "--fast"))
    assert (other.hosts, other.level, other.warmup) == (("r1h4", "r0h3"), 1, 3)
    assert len(scenario.fabric().hosts) == 2 * (5 + 3)
    assert scenario.fabric().links["r0h0>leaf0"].rate_bps == 400_000_000


@pytest.mark.parametrize(
    ("jobs", "fabric", "said"),
    [
        (["name=a --"], "", "runs nothing; write the command, as --job 'workers=4 -- python train.py'"),
        ([""], "", "runs nothing"),
        (["worker=4 -- x"], "", "there is no key 'worker'; did you mean 'workers'?"),
        (["four workers -- x"], "", "'four' is no KEY=VALUE; a command comes after --"),
        (["name= -- x"], "", "'name=' is no KEY=VALUE"),
        (["name=a name=b -- x"], "", "gives name twice"),
        (["hosts=r0h0 placement=packed -- x"], "", "gives hosts and placement"),
        (["echo 'open"], "", "no closing quotation"),
        (["workers=many -- x"], "", "jobs[0].workers: must be a whole number, not 'many'"),
        (["workers=4 -- x"], "racks=two", "fabric.racks: must be a whole number, not 'two'"),
        (["workers=4 -- x"], "uplink_rate=100", "fabric.uplink_rate"),
        (["x"], "hosts=4", "--fabric: there is no key 'hosts'"),
        (["hosts=r9h0 -- x"], "", "the fabric has no host 'r9h0'"),
    ],
)
def test_what_cannot_be_read_is_told(jobs: list[str], fabric: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        write_scenario(jobs, fabric)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["two-tenants", "--job", "x"], "give a SCENARIO or --job, not both"),
        ([], "name a SCENARIO, or give a --job"),
        (["two-tenants", "--fabric", "racks=2"], "--fabric goes with --job"),
    ],
)
def test_the_command_takes_either_a_scenario_or_jobs(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 2
    assert said in result.output


def test_the_help_tells_the_keys_and_the_fabric() -> None:
    said = " ".join(CliRunner().invoke(main, ["run", "--help"]).output.split())
    assert ", ".join(JOB_KEYS) in said
    assert " ".join(f"{key}={value}" for key, value in FABRIC.items()) in said
