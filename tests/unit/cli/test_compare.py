"""`compare` on the simulator: policies with options, in the file and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harmonics_emu import comparing
from harmonics_emu.cli.main import main
from harmonics_emu.results.store import load_run

TEXT = """
name: pair
fabric: {kind: dumbbell, hosts_per_side: 2, host_rate: 400Mbit, uplink_rate: 200Mbit}
jobs:
  - {name: a, gradients: 1MB, workers: 2, compute: {iteration: 50ms}, iterations: 20}
  - {name: b, gradients: 1MB, workers: 2, compute: {iteration: 50ms}, iterations: 20}
policy: {name: cassini, epoch: 500ms}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pair.yaml"
    path.write_text(TEXT)
    return path


def compare(file: Path, policies: str, out: Path) -> Result:
    arguments = ["compare", str(file), "--engine", "simulate", "--policies", policies, "--out", str(out), "--json"]
    return CliRunner().invoke(main, arguments)


def names(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return list(json.loads(result.stdout)["policies"])


def options(run: Path) -> Any:
    return [line for line in load_run(run).scenario.splitlines() if line.startswith("policy:")]


def test_the_scenarios_own_policy_keeps_its_options(file: Path, tmp_path: Path) -> None:
    assert names(compare(file, "fair,cassini", tmp_path / "out")) == ["fair", "cassini"]
    assert options(tmp_path / "out" / "cassini" / "0") == ["policy: {name: cassini, epoch: 500ms}"]
    assert options(tmp_path / "out" / "fair" / "0") == ["policy: {name: fair}"]


def test_options_on_the_command_line(file: Path, tmp_path: Path) -> None:
    """One variant of a policy goes by its name, and never takes up a run that had other options."""
    out = tmp_path / "out"
    assert names(compare(file, "fair,crux", out)) == ["fair", "crux"]
    assert names(compare(file, "fair,crux:levels=1", out)) == ["fair", "crux"]
    assert names(compare(file, "fair,crux,crux:levels=1", out)) == ["fair", "crux", "crux:levels=1"]
    found = sorted(options(run) for run in out.glob("crux*/0"))
    assert found == [["policy: {name: crux, levels: 1}"], ["policy: {name: crux}"]]


def test_options_that_a_policy_does_not_have(file: Path, tmp_path: Path) -> None:
    refused = compare(file, "fair:levels=2", tmp_path / "out")
    assert refused.exit_code == 2
    assert "policy fair has no option 'levels'" in refused.output
    assert not (tmp_path / "out").exists()


def test_several_scenarios_are_one_json_document(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(TEXT.replace("name: pair", "name: other"))
    arguments = ["compare", str(file), str(other), "--engine", "simulate", "--policies", "fair", "--json"]
    result = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert [found["scenario"] for found in json.loads(result.stdout)["comparisons"]] == ["pair", "other"]


def test_a_directory_of_something_else_is_refused(file: Path, tmp_path: Path) -> None:
    """A single run's directory, and runs of the other engine: both would end in one table."""
    simulated = CliRunner().invoke(main, ["simulate", str(file), "--policy", "fair", "--out", str(tmp_path / "run")])
    assert simulated.exit_code == 0, simulated.output
    refused = compare(file, "fair", tmp_path / "run")
    assert (refused.exit_code, "holds a single run" in refused.output) == (2, True), refused.output
    out = tmp_path / "out"
    names(compare(file, "fair", out))
    result = out / "fair" / "0" / "result.json"
    result.write_text(result.read_text().replace('"engine": "simulate"', '"engine": "emulate"'))
    refused = compare(file, "fair", out)
    assert (refused.exit_code, "other engine" in refused.output) == (2, True), refused.output


def test_an_interrupted_comparison_says_how_to_go_on(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, run = tmp_path / "out", comparing.carry_out

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if (out / "fair" / "0" / "result.json").exists():
            raise KeyboardInterrupt
        return run(*arguments, **options)

    monkeypatch.setattr(comparing, "carry_out", interrupted)
    stopped = compare(file, "fair,crux", out)
    assert (stopped.exit_code, f"with --out {out} goes on" in stopped.output) == (1, True), stopped.output
    before = (out / "fair" / "0" / "result.json").stat().st_mtime_ns
    monkeypatch.undo()
    assert names(compare(file, "fair,crux", out)) == ["fair", "crux"]
    assert (out / "fair" / "0" / "result.json").stat().st_mtime_ns == before
