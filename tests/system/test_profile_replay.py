"""A profile of real training, imported and simulated: period and bytes are those of the original."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from click.testing import CliRunner

import harmonics_emu
from harmonics_emu.cli.main import main
from harmonics_emu.scenario import load_scenario

pytestmark = pytest.mark.torch


def record(folder: Path) -> dict[str, list[float] | int]:
    """Two ranks train; what rank 0 measured itself, beside its profile."""
    program = Path(__file__).with_name("record_profile.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, str(program), str(rank), "2", str(folder)],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]
    try:
        for rank in ranks:
            _, errors = rank.communicate(timeout=90)
            assert rank.returncode == 0, errors.decode()[-2000:]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    truth: dict[str, list[float] | int] = json.loads((folder / "truth.json").read_text())
    return truth


def test_a_profile_replayed_has_the_period_and_bytes_of_the_original(tmp_path: Path) -> None:
    truth = record(tmp_path)
    target = tmp_path / "replay.yaml"
    imported = CliRunner().invoke(
        main, ["trace", "import", str(tmp_path / "profile.json.gz"), "--as", str(target), "--json"]
    )
    assert imported.exit_code == 0, imported.output
    phases = json.loads(imported.stdout)["files"][0]["phases"]
    assert (phases["ranks"], phases["collective"]) == (2, "ring-all-reduce")
    assert len(phases["sizes"]) > 1

    (job,) = load_scenario(target).jobs()
    assert job.bytes == pytest.approx(truth["bytes"], rel=0.05)
    (result,) = harmonics_emu.run(load_scenario(target)).jobs
    assert result.iteration_s is not None
    began = truth["began"]
    assert isinstance(began, list)
    periods = [after - before for before, after in pairwise(began)]
    assert result.iteration_s.mean == pytest.approx(median(periods), rel=0.05)
    assert result.communication_s is not None
    assert result.communication_s.mean > 0
