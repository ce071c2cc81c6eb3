"""Movable jobs, from the scenario to the records of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import harmonics_emu
from harmonics_emu.cli.main import main
from harmonics_emu.emulate.protocol import RunRequest, decode_request, encode_line
from harmonics_emu.planning import place
from harmonics_emu.results.store import load_run
from harmonics_emu.scenario import Scenario, parse_scenario

TEXT = """
name: movable
fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 4, spines: 1, host_rate: 400Mbit, uplink_rate: 200Mbit}
scale: {rate: 1/500}
jobs:
  - {name: a, model: vgg16, workers: 4, iterations: 20, compute: {iteration: 30ms}, movable: true}
  - {name: b, model: vgg16, workers: 4, iterations: 20, compute: {iteration: 30ms}, movable: MOVABLE}
policy: {name: cassini}
"""
"""Both cross, and would need the uplink for two thirds of their time each; packed they would never meet."""


def scenario(movable: bool = True) -> Scenario:
    return parse_scenario(TEXT.replace("MOVABLE", str(movable).lower()).encode(), "movable.yaml")


def test_jobs_are_moved_apart_and_it_is_on_record(tmp_path: Path) -> None:
    result = harmonics_emu.run(scenario(), out=tmp_path / "run")
    run = load_run(tmp_path / "run")
    placement = run.records.decisions[0].plan["facts"]["placement"]
    assert sorted(placement["moved"]) == ["a", "b"]
    assert placement["scores"][0]["score"] < 0.8
    assert placement["scores"][placement["chosen"]]["score"] == 1
    assert len(placement["scores"]) == placement["candidates"] <= 10
    resolved = parse_scenario(run.scenario.encode(), "scenario.yaml")
    assert {job.name: list(job.hosts) for job in resolved.jobs()} == placement["hosts"]
    assert resolved.movable == ()
    assert result.scheduling.decisions == len(run.records.decisions)
    again = harmonics_emu.run(resolved)
    assert [job.training_s for job in again.jobs] == [job.training_s for job in result.jobs]


def test_other_policies_leave_jobs_where_they_are_and_isolated_times_are_the_same() -> None:
    moved, fair = harmonics_emu.run(scenario()), harmonics_emu.run(scenario(), policy="fair")
    still = harmonics_emu.run(scenario(movable=False), policy="fair")
    assert place(scenario().with_policy("fair")) == (scenario().with_policy("fair"), None)
    assert [job.training_s for job in fair.jobs] == [job.training_s for job in still.jobs]
    for own, base in zip(moved.jobs, fair.jobs, strict=True):
        assert own.isolated_training_s == base.isolated_training_s
        assert own.slowdown is not None
        assert own.slowdown < 1


def test_a_job_that_may_not_move_stays() -> None:
    placed, placing = place(scenario(movable=False))
    assert placed.jobs()[1] == scenario().jobs()[1]
    assert placing is not None
    assert placing.decision.plan["facts"]["placement"]["hosts"].keys() == {"a"}


def test_the_seed_draws() -> None:
    """The same seed puts jobs on the same hosts, on either engine; the request carries it there."""
    (first, placing), (second, _) = place(scenario()), place(scenario())
    assert first == second
    request = RunRequest(directory="d", working_directory="w", policy="cassini", seed=0, owner=None, placing=placing)
    assert decode_request.decode(encode_line(request)) == request


@pytest.mark.parametrize("policy", ["cassini", "fair"])
def test_schedule_says_where_jobs_go(tmp_path: Path, policy: str) -> None:
    path = tmp_path / "movable.yaml"
    path.write_text(TEXT.replace("MOVABLE", "true"))
    told = CliRunner().invoke(main, ["schedule", str(path), "--policy", policy, "--solves", "1"])
    printed = CliRunner().invoke(main, ["schedule", str(path), "--policy", policy, "--solves", "1", "--json"])
    placement = json.loads(printed.stdout)["placement"]
    if policy == "fair":
        assert placement is None
        assert "Placement" not in told.stdout
    else:
        assert placement["hosts"]["a"] == list(place(scenario())[0].jobs()[0].hosts)
        assert f"a to {' '.join(placement['hosts']['a'])}" in " ".join(told.stdout.split())
