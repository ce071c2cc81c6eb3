"""The training script that the documentation shows, run unchanged on two racks."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tests.system.runs import harmonics

pytestmark = [pytest.mark.ovs, pytest.mark.torch, pytest.mark.slow]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "workloads.md"
JOBS = ["--job", "name=one -- python train.py", "--job", "name=two -- python train.py", "--allow-commands"]
BYTES = 4 * (256 * 512 + 512 + 512 * 256 + 256)
ALONE_S = 8 * BYTES / 100e6


@pytest.mark.parametrize("policy", ["fair", "harmonics:epoch=1s"])
@pytest.mark.sandboxed(deadline_s=120)
def test_the_script_of_the_page_trains_under_a_policy(policy: str, tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (script,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    for written in JOBS[1], JOBS[3], policy if ":" in policy else "--allow-commands":
        assert written in page
    (tmp_path / "train.py").write_text(script)
    out = tmp_path / "run"
    done = harmonics("run", *JOBS, "--policy", policy, "--out", str(out), timeout_s=100, cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr
    result = json.loads((out / "result.json").read_text())
    for job in result["jobs"]:
        assert (job["status"], job["program"], job["iterations_done"]) == ("done", "command", 40)
        assert job["iteration_s"]["median"] > 0.1 + 0.9 * ALONE_S
        assert job["communication_s"]["median"] > 0.9 * ALONE_S
        assert job["compute_s"]["median"] > 0.1
    rows = list(csv.DictReader((out / "iterations.csv").open()))
    assert len(rows) == 2 * 2 * 40
    decisions = [json.loads(line) for line in (out / "decisions.jsonl").open()]
    known = [decision["known"]["jobs"]["one"] for decision in decisions if "one" in decision["known"]["jobs"]]
    assert known[0]["bytes"] == 0
    if policy != "fair":
        assert known[-1]["bytes"] == pytest.approx(2 * BYTES, rel=0.25)  # one way and back
        assert known[-1]["compute_s"] > 0.1
        assert known[-1]["communication_s"] > 0.9 * ALONE_S
    for log in out.glob("logs/one.rank?.log"):
        assert "harmonics-emu:" not in log.read_text()
