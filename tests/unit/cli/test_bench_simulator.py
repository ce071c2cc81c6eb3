"""`bench simulator`: its rows, and the same flows beside SimGrid where that is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harmonics_emu.bench import beside_simgrid
from harmonics_emu.cli.main import main

STAND_IN = """
import json, sys
from harmonics_emu.simulate.flows import finish_times
case = json.load(sys.stdin)
for flow in case["flows"]:
    del flow["src"], flow["dst"]
print("[0.0] a line of the log")
print(json.dumps({"finish": {name: 1.001 * at for name, at in finish_times(case).items()}, "wall_s": 1.5}))
"""


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(
        main, ["bench", "simulator", "--gpus", "64", "--jobs", "3", "--iterations", "5", *arguments]
    )


def test_rows() -> None:
    result = invoke("--no-simgrid", "--json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    (row,) = printed["rows"]
    assert (row["gpus"], row["jobs"], row["iterations"], printed["simgrid"]) == (64, 3, 5, None)
    assert row["events"] >= 3 * 5 * 2


def test_simgrid_that_is_absent_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside_simgrid, "SYSTEM_PYTHON", "/nonexistent/python3")
    result = invoke()
    assert result.exit_code == 0, result.output
    assert "SimGrid is absent" in result.stdout


def test_the_same_flows_go_to_simgrid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in = tmp_path / "simgrid.py"
    stand_in.write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    monkeypatch.setattr(beside_simgrid, "SYSTEM_PYTHON", sys.executable)
    monkeypatch.setattr(beside_simgrid, "PROGRAM", stand_in)
    row = beside_simgrid.compare_with_simgrid(40, 1)
    assert (row["flows"], row["simgrid_wall_s"]) == (40, 1.5)
    assert row["largest_difference"] == pytest.approx(1e-3)
