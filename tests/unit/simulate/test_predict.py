"""Figures of the fluid model, and scenarios on the engine through the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.cli.main import main
from harmonics_emu.errors import RunFailed
from harmonics_emu.results.store import load_run
from harmonics_emu.scenario import load_scenario
from harmonics_emu.simulate.predict import alone, isolated, predict, simulate_alone
from tests.unit.simulate.cases import fabric, job, levels
from topologies.fabric import Fabric
from topologies.rack_spine import rack_spine
from workloads.job import Job, LinkEvent


def test_isolated_takes_the_best_paths() -> None:
    """Two hops of one ring leave each rack: hashed paths may share a spine, the best ones do not."""
    crossing = ("r0h0", "r1h0", "r0h1", "r1h1")
    iteration_s, communication_s = isolated(fabric(spines=2), job(hosts=crossing))
    assert (iteration_s, communication_s) == pytest.approx((2.5, 1.5))
    assert isolated(fabric(spines=1), job(hosts=crossing)).communication_s == pytest.approx(3.0)


def test_training_time_alone_is_that_of_all_iterations() -> None:
    means, training_s = alone(fabric(), job(iterations=7, start_s=3.0))
    assert (means.iteration_s, training_s) == pytest.approx((2, 14))
    shaky = job(iterations=50, compute_cv=0.2)
    means, training_s = alone(fabric(), shaky, seed=3)
    assert means.communication_s == pytest.approx(1.0)
    assert training_s == pytest.approx(50 * means.iteration_s, rel=0.01)


@st.composite
def lone_jobs(draw: st.DrawFn) -> tuple[Fabric, Job]:
    gpus = draw(st.integers(1, 2))
    on = rack_spine(3, 3, draw(st.integers(1, 3)), 10**8, draw(st.sampled_from([10**7, 10**8])), gpus, 10**9)
    slots = [host.name for host in on.hosts for _ in range(gpus)]
    ranks = draw(st.integers(1, 6))
    hosts = draw(st.permutations(slots))[:ranks]
    return on, job(
        hosts=tuple(hosts),
        collective=draw(st.sampled_from(["ring-all-reduce", "all-to-all", "tree-all-reduce", "broadcast"])),
        compute_s=draw(st.sampled_from([0.0, 0.01, 0.3])),
        overlap=draw(st.sampled_from([0.0, 0.5, 1.0])),
        bucket_bytes=tuple(draw(st.lists(st.integers(0, 10**6), max_size=4))),
    )


@given(lone_jobs())
@settings(max_examples=60, deadline=None)
def test_the_closed_form_is_what_the_engine_comes_to(drawn: tuple[Fabric, Job]) -> None:
    on, one = drawn
    (means, training_s), (engine, engine_training_s) = alone(on, one), simulate_alone(on, one)
    assert means == pytest.approx(engine, rel=1e-9, abs=1e-9)
    assert training_s == pytest.approx(engine_training_s, rel=1e-9, abs=1e-9)


def test_predict_gives_means_without_warm_up() -> None:
    """By priority the second job waits a second in its first iteration only."""
    jobs = [job(0), job(1)]
    assert predict(fabric(), jobs)["job0"] == pytest.approx((3, 2))
    assert predict(fabric(), jobs, levels(jobs))["job1"] == pytest.approx((2, 1))


def test_predict_fails_where_a_job_stalls() -> None:
    with pytest.raises(RunFailed, match="job job0 stalled at"):
        predict(fabric(), [job()], events=[LinkEvent(1.5, "leaf0-spine0", "down")])


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def test_command_simulates_a_built_in_scenario_into_a_run_directory(tmp_path: Path) -> None:
    result = invoke("two-tenants", "--policy", "priority", "--seed", "5", "--out", tmp_path / "run", "--json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert (printed["engine"], printed["policy"], printed["seed"]) == ("simulate", "priority", 5)
    assert printed["cluster"]["S"] == pytest.approx(1.0, abs=0.01)
    assert printed["jobs"][0]["isolated_communication_s"] == pytest.approx(0.0664, abs=1e-4)
    assert printed["cluster"]["S"] == load_run(tmp_path / "run").result.cluster.S
    with (tmp_path / "run" / "iterations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(one.iterations for one in load_scenario("two-tenants").jobs())


def test_command_writes_the_same_bytes_for_the_same_seed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert invoke("vision-and-text", "--out", tmp_path / name).exit_code == 0
    for name in ("iterations.csv", "links.csv", "scenario.yaml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


SCENARIO = """
name: demo
fabric: {kind: dumbbell, hosts_per_side: 2, host_rate: 400Mbit, uplink_rate: 200Mbit}
jobs:
  - {name: a, program: PROGRAM, gradients: 1MB, workers: 2, compute: {iteration: 10ms}, iterations: 9,
     placement: spread}
policy: {name: fair, epoch: EPOCH}
events: [{at: 50ms, link: leaf0-leaf1, action: down}]
"""


@pytest.mark.parametrize(
    ("program", "epoch", "status", "complaint"),
    [
        ("ddp", "1s", 1, "leaf0>leaf1 is down"),
        ("ddp", "5", 2, "policy.epoch"),
        ("ddp", "0.5us", 2, "give it a longer epoch"),
        ("{command: [python, train.py]}", "1s", 2, "job a runs a command"),
    ],
)
def test_command_says_what_is_wrong(tmp_path: Path, program: str, epoch: str, status: int, complaint: str) -> None:
    path = tmp_path / "demo.yaml"
    text = SCENARIO.replace("PROGRAM", program).replace("EPOCH", epoch)
    path.write_text(text if program == "ddp" else text.replace(" gradients: 1MB,", ""))
    result = invoke(path)
    assert (result.exit_code, complaint in result.output.replace("\n", " ")) == (status, True), result.output


def test_bench_prints_its_rows() -> None:
    result = CliRunner().invoke(main, ["bench", "simulator", "--gpus", "64", "--iterations", "5", "--json"])
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["gpus"], row["jobs"], row["iterations"], row["events"]) == (64, 3, 5, 45)
    assert row["wall_s"] > 0
    assert row["peak_rss_bytes"] > 10**7
