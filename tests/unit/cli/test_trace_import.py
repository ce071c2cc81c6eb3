"""`harmonics-emu trace import`: from files that others recorded to scenarios that run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import harmonics_emu
from harmonics_emu.cli.main import main
from harmonics_emu.cli.trace import PLACEMENTS
from harmonics_emu.emulate.run import refuse_what_may_not_run
from harmonics_emu.scenario import load_scenario
from harmonics_emu.scenario.estimate import estimate_alone
from harmonics_emu.scenario.placement import RULES

HELIOS_HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
MURI_HEADER = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2,priority\n"
)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["trace", "import", *map(str, arguments)])


def report(*arguments: object) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def helios_row(number: int, gpus: int) -> str:
    submitted = datetime(2020, 4, 1) + timedelta(seconds=3 * number)
    began, ended = submitted + timedelta(seconds=60), submitted + timedelta(seconds=660)
    return f"{number},u,vc,{gpus},8,1,COMPLETED,{submitted},{began},{ended},600,60\n"


def test_jobs_of_muri_take_alone_what_the_trace_says(tmp_path: Path) -> None:
    (tmp_path / "muri.csv").write_text(
        MURI_HEADER + "0,8,7000,1000,gpt2,4,5,9,437,0.6,419,49,0\n1,8,9000,2000,vgg16,16,2,2,214,82,75,66,1\n"
        "2,64,9000,2000,vgg16,16,2,2,214,82,75,66,1\n3,8,oops,2000,vgg16,16,2,2,214,82,75,66,1\n"
    )
    found = report(tmp_path / "muri.csv", "--as", tmp_path / "muri.yaml", "--shrink", 10)
    assert (found["jobs"], found["left_out"]) == (2, {"too_large": 1, "later": 0})
    assert found["files"][0]["skipped"] == {"submit_time is no number": {"rows": 1, "first": 5}}
    scenario = load_scenario(tmp_path / "muri.yaml")
    alone = [estimate_alone(scenario.fabric(), job) for job in scenario.jobs()]
    assert [each.iteration_s for each in alone] == [pytest.approx(0.437), pytest.approx(0.214)]
    assert [(job.name, job.iterations, job.start_s) for job in scenario.jobs()] == [
        ("gpt2-0", 100, 0.0),
        ("vgg16-1", 200, 0.2),
    ]
    result = harmonics_emu.run(scenario)
    assert all(job.status == "done" for job in result.jobs)


def test_the_command_offers_every_rule_of_placement() -> None:
    assert set(PLACEMENTS) == set(RULES)


def test_a_log_for_the_emulator(tmp_path: Path) -> None:
    """A thousandth of the rates and bytes, and the same times."""
    path, target = tmp_path / "muri.csv", tmp_path / "muri.yaml"
    path.write_text(MURI_HEADER + "0,8,7000,1000,gpt2,4,5,9,437,0.6,419,49,0\n")
    report(path, "--as", target, "--scale", "1/1000", "--shrink", 100, "--racks", 2, "--hosts-per-rack", 4)
    scenario = load_scenario(target)
    (job,) = scenario.jobs()
    assert scenario.fabric().links["r0h0>leaf0"].rate_bps == 100_000_000
    assert job.bytes == pytest.approx(350_000, rel=1e-4)
    alone = estimate_alone(scenario.fabric(), job)
    assert alone.iteration_s == pytest.approx(0.437, rel=1e-3)
    refuse_what_may_not_run(scenario, "fair", allow_commands=False)


def test_jobs_of_helios_last_as_long_as_the_log_says(tmp_path: Path) -> None:
    path = tmp_path / "helios.csv"
    path.write_text(HELIOS_HEADER + "".join(helios_row(number, 2 + number) for number in range(5)))
    report(path, "--as", tmp_path / "helios.yaml")
    assert "queue" not in (tmp_path / "helios.yaml").read_text()
    scenario = load_scenario(tmp_path / "helios.yaml")
    for number, job in enumerate(scenario.jobs()):
        assert (job.ranks, job.start_s) == (2 + number, 3.0 * number)
        assert estimate_alone(scenario.fabric(), job).iteration_s * job.iterations == pytest.approx(600, rel=0.02)


@pytest.mark.parametrize("queue", ["fifo", "srpt", "none"])
def test_jobs_that_come_to_a_full_cluster(tmp_path: Path, queue: str) -> None:
    path, target = tmp_path / "helios.csv", tmp_path / "helios.yaml"
    path.write_text(HELIOS_HEADER + "".join(helios_row(number, 1 + number % 16) for number in range(200)))
    found = report(path, "--as", target, "--queue", queue, "--jobs", 150, "--shrink", 50, "--placement", "local")
    if queue == "none":
        assert 1 < found["jobs"] <= 10
        return
    assert (found["jobs"], found["left_out"]["later"]) == (150, 50)
    assert load_scenario(target).queue == queue
    result = harmonics_emu.run(load_scenario(target), policy="crux")
    assert [job.status for job in result.jobs] == ["done"] * 150
    assert result.cluster.makespan_s is not None
    assert result.cluster.makespan_s > 150 * 8 * 12 / 32


def test_a_log_on_a_recorded_topology(tmp_path: Path) -> None:
    (tmp_path / "helios.csv").write_text(HELIOS_HEADER + helios_row(0, 6))
    rows = [f"h{host},G6,P{host % 2},S{host % 4}" for host in range(8)]
    (tmp_path / "topo.csv").write_text("ip,DSW,PSW,ASW\n" + "\n".join(rows))
    report(tmp_path / "helios.csv", tmp_path / "topo.csv", "--as", tmp_path / "both.yaml", "--oversubscription", 4)
    fabric = load_scenario(tmp_path / "both.yaml").fabric()
    assert (len(fabric.hosts), len(fabric.switches)) == (8, 7)
    assert fabric.links["P0-S0>P0"].rate_bps == 2 * 100e9 / 4
    assert fabric.links["P0>G6"].rate_bps == 100e9 / 4
    assert invoke(tmp_path / "topo.csv").exit_code == 2


def test_workloads_and_benchmarks(tmp_path: Path) -> None:
    (tmp_path / "vgg.toml").write_text(
        'cuda_devices = [0, 1]\n[[traces]]\nsize = 1000000\ntype = "all_reduce"\ncompute_interval = 6000\n'
    )
    report(tmp_path / "vgg.toml", "--as", tmp_path / "vgg.yaml", "--host-rate", "50Gbit")
    (job,) = load_scenario(tmp_path / "vgg.yaml").jobs()
    assert (job.name, job.bytes, job.compute_s, job.ranks) == ("vgg", 1_000_000, 0.006, 2)
    rows = [f"{size} {size // 4} float sum -1 {50 + size / 10_000} 1 1.5 0 0 0 0 0" for size in (10**6, 10**7, 10**8)]
    (tmp_path / "nccl.txt").write_text("\n".join(["# nccl-tests", *rows]))
    found = report(tmp_path / "nccl.txt", "--as", tmp_path / "nccl.yaml")
    fit = found["files"][0]["calibration"]
    assert (fit["ranks"], fit["latency_s"]) == (4, pytest.approx(50e-6))
    assert fit["bus_bps"] == pytest.approx(1.5 * 80e9, rel=1e-6)
    scenario = load_scenario(tmp_path / "nccl.yaml")
    alone = estimate_alone(scenario.fabric(), scenario.jobs()[0])
    assert alone.communication_s == pytest.approx(1.11e8 / 1e10, rel=1e-6)


def test_the_table_says_what_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "helios.csv").write_text(HELIOS_HEADER + helios_row(0, 4) + helios_row(1, 0) + helios_row(0, 4))
    result = invoke(tmp_path / "helios.csv")
    assert result.exit_code == 0
    assert "1 job on 32 GPUs" in result.stdout
    assert "no GPU job" in result.stdout
    assert "job_id used before" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("", (), "is empty"),
        ("nonsense", (), "has none of the known formats"),
        (HELIOS_HEADER, (), "no job of it can be run on 32 GPUs"),
        (HELIOS_HEADER + helios_row(0, 0), (), "no job of it can be run on 32 GPUs (1 rows were skipped; 1 as: no GPU"),
        (HELIOS_HEADER + helios_row(0, 64), (), "no job of it can be run on 32 GPUs"),
        (HELIOS_HEADER + helios_row(0, 4), ("--models", "vgg17"), "no model 'vgg17'"),
        (HELIOS_HEADER + helios_row(0, 4), ("--models", "resnet152"), "measured compute time"),
        (HELIOS_HEADER + helios_row(0, 4), ("--host-rate", "100"), "--host-rate"),
        (HELIOS_HEADER + helios_row(0, 4), ("--scale", "2"), "--scale"),
    ],
)
def test_what_cannot_be_imported(tmp_path: Path, text: str, options: tuple[str, ...], why: str) -> None:
    (tmp_path / "file").write_text(text)
    result = invoke(tmp_path / "file", *options)
    assert result.exit_code == 2
    assert why in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_files_that_are_none_and_scenarios_that_are_there(tmp_path: Path) -> None:
    assert "can't be read" in invoke(tmp_path / "missing").stderr
    assert "no regular file" in invoke(tmp_path).stderr
    (tmp_path / "log").write_text(HELIOS_HEADER + helios_row(0, 4))
    (tmp_path / "there.yaml").write_text("mine")
    assert "holds something else" in invoke(tmp_path / "log", "--as", tmp_path / "there.yaml").stderr


MEASURED = """
import os, sys
from harmonics_emu.cli.main import main

main(sys.argv[1:], standalone_mode=False)
used = os.times()
peak_kb = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(used.user + used.system, peak_kb, file=sys.stderr)
"""
"""The command, then its processor seconds and peak memory: what a parent is told also counts what the parent held."""


@pytest.mark.slow
def test_a_million_rows_in_ten_seconds_and_500_mb(tmp_path: Path) -> None:
    path = tmp_path / "helios.csv"
    with open(path, "w") as sink:
        sink.write(HELIOS_HEADER)
        sink.writelines(helios_row(number, 1 + number % 8) for number in range(1_000_000))
    program = subprocess.run(
        [sys.executable, "-c", MEASURED, "trace", "import", str(path), "--json"],
        capture_output=True,
        check=True,
        timeout=60,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    processor_s, peak_kb = map(float, program.stderr.split()[-2:])
    found = json.loads(program.stdout)
    assert found["jobs"] + found["left_out"]["later"] == 1_000_000
    # Processor time, which other programs on the machine change little.
    assert processor_s < 10
    assert peak_kb < 500_000
