"""`schedule`: the plan of a policy at time zero, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import harmonics_emu.planning
from harmonics_emu.cli.main import main
from harmonics_emu.errors import UsageError
from harmonics_emu.planning import first_snapshot, plan_first
from harmonics_emu.scenario import builtin_names, load_scenario
from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan, Snapshot
from harmonics_emu.schedulers.registry import policy_names


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["schedule", *arguments])


def as_json(*arguments: str) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def one_spine(snapshot: Snapshot) -> Plan:
    """Every pair over its first path, an absurd long fact, and all levers in use."""
    paths = {(src, dst): snapshot.fabric.paths(src, dst)[0] for state in snapshot.jobs for src, dst in state.transfers}
    jobs = {state.job.name: JobPlan(2, paths, 10**8, (0.125, 0.5)) for state in snapshot.jobs}
    return Plan("one-spine", jobs, {"score": 0.5, "order": ["x" * 100] * 100})


@pytest.fixture
def _one_spine(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = FunctionPolicy("one-spine", "for tests", one_spine)
    monkeypatch.setattr(harmonics_emu.planning, "find_policy", lambda name: policy)


@pytest.mark.parametrize("policy", policy_names())
def test_every_policy_has_a_plan_that_fits_80_columns(policy: str) -> None:
    result = invoke("sixteen-racks", "--policy", policy, "--solves", "1")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert all(f" {job.name} " in result.stdout for job in load_scenario("sixteen-racks").jobs())


def test_priorities_are_those_of_the_scenario() -> None:
    plan = as_json("four-in-step", "--policy", "priority", "--solves", "3")
    assert (plan["scenario"], plan["policy"], plan["jobs"], plan["solves"]) == ("four-in-step", "priority", 4, 3)
    assert {name: job["level"] for name, job in plan["plan"]["jobs"].items()} == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert 0 < plan["solve_s"]["min"] <= plan["solve_s"]["median"] <= plan["solve_s"]["max"]


@pytest.mark.usefixtures("_one_spine")
def test_the_table_shows_every_lever() -> None:
    result = invoke("hash-collision")
    assert result.exit_code == 0
    rows = {line.split()[0]: " ".join(line.split()) for line in result.stdout.splitlines() if line.strip()}
    assert rows["vgg16"] == "vgg16 2 spine0 x4 0.1250 s (2 of 2) 100Mbit"
    assert rows["score"] == "score 0.5"
    assert rows["order"].startswith('order ["xxx')
    assert "..." in result.stdout
    assert len(result.stdout) < 3000
    assert as_json("hash-collision")["plan"]["facts"]["order"] == ["x" * 100] * 100


@pytest.mark.parametrize("name", builtin_names())
def test_the_first_snapshot_holds_the_jobs_that_come_first(name: str) -> None:
    scenario = load_scenario(name)
    snapshot = first_snapshot(scenario)
    expected = ["vgg16"] if name == "arrivals-and-departures" else [job.name for job in scenario.jobs()]
    assert [state.job.name for state in snapshot.jobs] == expected
    assert [state.next_start_s for state in snapshot.jobs] == [state.job.start_s for state in snapshot.jobs]
    assert (snapshot.time_s, snapshot.seed) == (0.0, scenario.seed)
    assert all(state.transfers for state in snapshot.jobs)


def test_wrong_usage() -> None:
    result = invoke("two-tenants", "--policy", "unfair")
    assert result.exit_code == 2
    assert "no policy is called 'unfair'" in result.stderr
    with pytest.raises(UsageError, match="0 solves give no plan"):
        plan_first(load_scenario("two-tenants"), solves=0)


def test_a_plan_in_words_fits_80_columns() -> None:
    result = invoke("four-tenants", "--policy", "crux", "--explain")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "of policy crux" in result.stdout
    assert "none measured yet" in result.stdout
    assert "its own paths" in " ".join(result.stdout.split())


def test_a_runs_decisions_in_words(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert CliRunner().invoke(main, ["simulate", "two-tenants", "--policy", "srpt", "--out", str(run)]).exit_code == 0
    assert "Decision 1, of policy srpt" in invoke(str(run), "--explain").stdout
    last = invoke(str(run), "--explain", "--decision", "-1")
    assert "No level, path or rate was changed" in last.stdout or "Changed by it" in last.stdout
    assert as_json(str(run), "--explain")["policy"] == "srpt"
    missing = invoke(str(run), "--explain", "--decision", "77")
    assert missing.exit_code == 2
    assert "no 77" in missing.stderr
    assert invoke("two-tenants", "--decision", "1").exit_code == 2
