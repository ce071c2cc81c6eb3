"""`scenarios --random`: listed, written, and nothing of the user's overwritten."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from harmonics_emu.cli.main import main
from harmonics_emu.scenario import load_scenario


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["scenarios", *arguments])


def test_random_ones_are_listed() -> None:
    rows = json.loads(invoke("--random", "3", "--seed", "5", "--json").stdout)["scenarios"]
    assert [row["name"] for row in rows] == ["random-5-0", "random-5-1", "random-5-2"]
    table = invoke("--random", "3").stdout
    assert " random-0-2 " in table
    assert max(map(len, table.splitlines())) <= 80


def test_random_ones_are_written_and_load(tmp_path: Path) -> None:
    out = tmp_path / "drawn" / "here"
    result = invoke("--random", "2", "--out", str(out), "--json")
    assert result.exit_code == 0
    for row in json.loads(result.stdout)["scenarios"]:
        assert load_scenario(row["file"]).name == row["name"]
    assert sorted(path.name for path in out.iterdir()) == ["random-0-0.yaml", "random-0-1.yaml"]
    assert invoke("--random", "2", "--out", str(out)).exit_code == 0


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "random-0-0.yaml").write_text("mine")
    result = invoke("--random", "1", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "holds something else; choose another --out" in result.stderr
    assert (tmp_path / "random-0-0.yaml").read_text() == "mine"
    (tmp_path / "file").write_text("")
    result = invoke("--random", "1", "--out", str(tmp_path / "file" / "below"))
    assert result.exit_code == 2
    assert "choose another --out" in result.stderr


def test_options_of_random_ones_need_random() -> None:
    result = invoke("--seed", "1")
    assert result.exit_code == 2
    assert "are for scenarios drawn with --random N" in result.stderr
