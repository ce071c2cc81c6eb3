"""Rates and start times of a plan, as the jobs of a run feel them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import median

import pytest

from tests.system.runs import SMALL, harmonics, offer_policy

pytestmark = [pytest.mark.ovs, pytest.mark.torch, pytest.mark.sandboxed(deadline_s=90)]

CAPPER = '''
"""A policy that lets job one send at 10 Mbit/s from each host, for the plan's first second."""

from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan


def plan(snapshot):
    rate_bps = 10_000_000 if snapshot.time_s < 1.5 else None
    return Plan("capper", {"one": JobPlan(rate_bps=rate_bps)})


policy = FunctionPolicy("capper", "10 Mbit/s", plan)
'''


def rows_of(out: Path, job: str) -> list[dict[str, float]]:
    with (out / "iterations.csv").open() as source:
        return [
            {key: float(value) for key, value in row.items() if key != "job"}
            for row in csv.DictReader(source)
            if row["job"] == job and row["rank"] == "0"
        ]


def test_a_rate_holds_a_job_back_and_its_end_lets_it_go(tmp_path: Path) -> None:
    scenario, out = tmp_path / "small.yaml", tmp_path / "run"
    scenario.write_text(SMALL.format(name="small", iterations=25))
    environment = offer_policy(tmp_path, "capper", CAPPER)
    done = harmonics("run", str(scenario), "--policy", "capper:epoch=500ms", "--out", str(out), env=environment)
    assert done.returncode in (0, 3), done.stderr
    rates = [json.loads(line)["plan"]["jobs"]["one"]["rate_bps"] for line in (out / "decisions.jsonl").open()]
    assert rates[:3] == [10_000_000] * 3
    assert rates[-1] is None
    rows = rows_of(out, "one")
    lasts = {
        name: median(row["end_s"] - row["start_s"] for row in rows if low < row["start_s"] < high)
        for name, low, high in (("capped", 0.0, 1.3), ("free", 2.0, 1e9))
    }
    # 200 kB at 10 Mbit/s take 160 ms beside the 20 ms of compute; at 50 Mbit/s, 32 ms, or 64 where the other sends too.
    assert lasts["capped"] > 0.175
    assert lasts["free"] < 0.150
    others = [row["end_s"] - row["start_s"] for row in rows_of(out, "two")]
    assert median(others) < 0.150


def test_cassini_holds_jobs_apart_by_gates(tmp_path: Path) -> None:
    scenario, out = tmp_path / "pair.yaml", tmp_path / "run"
    scenario.write_text(
        "name: pair\n"
        "fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 1, host_rate: 100Mbit, uplink_rate: 50Mbit}\n"
        "jobs:\n"
        "  - {name: one, gradients: 250kB, workers: 2, placement: spread, compute: {iteration: 80ms}, iterations: 30}\n"
        "  - {name: two, gradients: 250kB, workers: 2, placement: spread, compute: {iteration: 80ms}, iterations: 30}\n"
    )
    done = harmonics("run", str(scenario), "--policy", "cassini:epoch=1s", "--out", str(out))
    assert done.returncode in (0, 3), done.stderr
    decisions = [json.loads(line) for line in (out / "decisions.jsonl").open()]
    first, second = (decisions[0]["plan"]["jobs"][job]["starts_s"] for job in ("one", "two"))
    assert abs(first[0] - second[0]) > 0.035, "the plan holds one of them back"
    held = [sum(row["gate_s"] for row in rows_of(out, job)) for job in ("one", "two")]
    assert max(held) > 0.03
    # What was held apart finds the link free: 40 ms of sending, headers and latency beside them, and not twice that.
    for job in ("one", "two"):
        sending = [row["end_s"] - row["start_s"] - row["compute_s"] - row["gate_s"] for row in rows_of(out, job)[1:]]
        assert median(sending) < 0.065
    assert json.loads((out / "result.json").read_text())["scheduling"]["gates_failed_open"] == 0
