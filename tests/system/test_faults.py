"""What dies, stops or slows down in a run whose policy plans all through it: jobs go on, and the result tells.

Each test runs in a sandbox that plays the host. How long jobs stood still is taken from their own rows.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.system.runs import (
    SMALL,
    harmonics,
    offer_policy,
    open_page,
    parent_of,
    python_processes,
    start,
    wait_for_iterations,
)
from workloads.job import DEFAULT_LEVEL

pytestmark = [pytest.mark.ovs, pytest.mark.torch, pytest.mark.sandboxed(deadline_s=120)]

STILL_S = 1.0
"""More than any iteration of these jobs takes on a busy machine, and less than a job that hangs would."""
HOLDER = '''
"""A policy that lets each job send ten times a second, and never again after its plan's second."""

from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan


def plan(snapshot):
    starts_s = tuple(snapshot.time_s + 0.1 * number for number in range(1, 11)) + (1e6,)
    return Plan("holder", {state.job.name: JobPlan(starts_s=starts_s) for state in snapshot.jobs})


policy = FunctionPolicy("holder", "ten times a second", plan)
'''


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    """Two small jobs that last for some seconds."""
    path = tmp_path / "longer.yaml"
    path.write_text(SMALL.format(name="longer", iterations=70))
    return str(path)


def finish(process, out: Path, timeout_s: float = 90) -> dict:
    _, said = process.communicate(timeout=timeout_s)
    assert process.returncode in (0, 3), said
    result = json.loads((out / "result.json").read_text())
    assert [job["status"] for job in result["jobs"]] == ["done"] * len(result["jobs"])
    return result


def decisions_of(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "decisions.jsonl").open()]


def longest_pause_s(out: Path, job: str) -> float:
    """The longest time between two ends of a job's iterations."""
    with (out / "iterations.csv").open() as source:
        ends = sorted(float(row["end_s"]) for row in csv.DictReader(source) if row["job"] == job and row["rank"] == "0")
    return max(after - before for before, after in pairwise(ends))


def test_a_solver_that_is_killed_is_replaced_and_costs_one_plan(scenario: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start("run", scenario, "--policy", "crux:epoch=300ms", "--out", str(out))
    wait_for_iterations(out, process)
    (victim,) = python_processes("harmonics_emu.emulate.solver")
    time.sleep(0.5)
    os.kill(victim, signal.SIGKILL)
    result = finish(process, out)
    assert result["scheduling"]["fallbacks"] >= 1
    assert any("the solver was lost" in reason for reason in result["fidelity"]["reasons"])
    whys = [decision["why"] for decision in decisions_of(out)]
    assert "a lost solver" in whys
    assert whys.count("epoch") >= 3
    assert max(longest_pause_s(out, "one"), longest_pause_s(out, "two")) < STILL_S


def test_a_rank_that_is_stopped_goes_on_when_it_is_continued(scenario: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start("run", scenario, "--policy", "cassini:epoch=300ms", "--out", str(out))
    wait_for_iterations(out, process)
    launchers = python_processes("workloads.launcher")
    rank = next(pid for pid in launchers if parent_of(pid) in launchers)
    os.kill(rank, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(rank, signal.SIGCONT)
    result = finish(process, out)
    pauses = sorted(longest_pause_s(out, job) for job in ("one", "two"))
    assert pauses[1] > 1.4
    assert pauses[0] < STILL_S, "the other job stood still too"
    assert result["scheduling"]["fallbacks"] == 0


def test_gates_open_when_the_supervisor_stops_and_close_when_it_goes_on(scenario: str, tmp_path: Path) -> None:
    environment = offer_policy(tmp_path, "holder", HOLDER)
    out = tmp_path / "run"
    process = start("run", scenario, "--policy", "holder:epoch=500ms", "--out", str(out), env=environment)
    wait_for_iterations(out, process)
    page = open_page(0)
    before = page.progress(0).iterations
    time.sleep(1.0)
    assert 7 <= page.progress(0).iterations - before <= 13, "ten gates a second"
    (supervisor,) = python_processes("harmonics_emu.emulate.inside")
    os.kill(supervisor, signal.SIGSTOP)
    stopped = page.progress(0).iterations
    # The plan's last gate would hold for ever; the lease ends after a second (two epochs).
    time.sleep(3.0)
    free = page.progress(0).iterations - stopped
    os.kill(supervisor, signal.SIGCONT)
    assert free > 20, "the job went on, faster than its gates let it"
    result = finish(process, out)
    assert result["scheduling"]["gates_failed_open"] > 0


def test_a_straggler_is_seen_and_planned_with(scenario: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start("run", scenario, "--policy", "crux:epoch=300ms", "--out", str(out))
    wait_for_iterations(out, process)
    page = open_page(0)
    page.slow_down(1, 3.0)
    time.sleep(2.0)
    page.slow_down(1, 1.0)
    finish(process, out)
    computes = [decision["known"]["jobs"].get("one", {}).get("compute_s", 0.02) for decision in decisions_of(out)]
    others = [decision["known"]["jobs"].get("two", {}).get("compute_s", 0.02) for decision in decisions_of(out)]
    assert max(computes) == pytest.approx(0.06, rel=0.3)
    assert computes[-2] < 0.04
    assert max(others) < 0.04


def test_a_policys_paths_leave_a_link_that_goes_down_and_come_back(tmp_path: Path) -> None:
    scenario = tmp_path / "events.yaml"
    scenario.write_text(
        "name: events\n"
        "fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 2, host_rate: 100Mbit, uplink_rate: 50Mbit}\n"
        "jobs:\n"
        "  - {name: one, gradients: 200kB, workers: 2, compute: {iteration: 20ms}, iterations: 90}\n"
        "  - {name: two, gradients: 200kB, workers: 2, compute: {iteration: 20ms}, iterations: 90}\n"
        "events: [{at: 1s, link: leaf0-spine0, action: down}, {at: 3s, link: leaf0-spine0, action: up}]\n"
    )
    out = tmp_path / "run"
    done = harmonics("run", str(scenario), "--policy", "crux:epoch=500ms", "--out", str(out), timeout_s=90)
    assert done.returncode in (0, 3), done.stderr
    decisions = decisions_of(out)
    down = [decision for decision in decisions if decision["known"]["links_down"]]
    assert down[0]["why"] == "leaf0-spine0 down"
    assert down[0]["in_force_s"] < 1.5, "a new plan within one epoch"
    used = {link for d in down for job in d["plan"]["jobs"].values() for path in job["paths"] for link in path["links"]}
    assert used
    assert not used & {"leaf0>spine0", "spine0>leaf0"}
    back = [decision for decision in decisions if decision["why"] == "leaf0-spine0 up"]
    assert back
    assert any("leaf0>spine0" in path["links"] for job in back[0]["plan"]["jobs"].values() for path in job["paths"]), (
        "crux spreads the two jobs over both spines again"
    )
    # One TCP timeout is 2 s: a packet may be lost with its cable, none with the move of a path.
    assert max(longest_pause_s(out, "one"), longest_pause_s(out, "two")) < 2.0 + STILL_S


def test_faults_that_the_scenario_asks_for(tmp_path: Path) -> None:
    scenario = tmp_path / "faults.yaml"
    scenario.write_text(
        SMALL.format(name="faults", iterations=80).replace("hosts_per_rack: 2", "hosts_per_rack: 3")
        + "  - {name: three, gradients: 200kB, workers: 2, compute: {iteration: 20ms}, iterations: 80}\n"
        + "events:\n"
        + "  - {at: 1s, job: one, rank: 1, action: slow, factor: 3, for: 1s}\n"
        + "  - {at: 500ms, job: three, rank: 1, action: kill}\n"
        + "  - {at: 2500ms, job: two, action: stop}\n"
        + "  - {at: 3300ms, job: two, action: continue}\n"
        + "  - {at: 4s, daemon: controller, action: restart}\n"
        + "  - {at: 5s, daemon: switches, action: restart}\n"
    )
    out = tmp_path / "run"
    done = harmonics("run", str(scenario), "--policy", "crux:epoch=500ms", "--out", str(out), timeout_s=90)
    assert done.returncode == 1, done.stderr
    result = json.loads((out / "result.json").read_text())
    one, two, three = result["jobs"]
    assert (one["status"], two["status"]) == ("done", "done")
    assert three["status"] == "failed"
    assert three["error"].startswith("rank 1 was killed by SIGKILL")
    with (out / "iterations.csv").open() as source:
        rows = [row for row in csv.DictReader(source) if row["job"] == "one" and row["rank"] == "1"]
    slow = [float(row["compute_s"]) for row in rows if 1.2 < float(row["start_s"]) < 1.9]
    later = [float(row["compute_s"]) for row in rows if 2.3 < float(row["start_s"]) < 3.9]
    assert min(slow) > 0.055
    assert sorted(later)[len(later) // 2] < 0.03
    assert longest_pause_s(out, "two") > 0.75
    reasons = " ".join(result["fidelity"]["reasons"])
    assert "the controller died 4." in reasons
    assert "ovs-vswitchd died 5." in reasons
    for said in (
        "slow x3 of job 'one', rank 1 at 1.",
        "stop of job 'two', rank 0, 1 at 2.",
        "switches killed at 5.",
    ):
        assert said in done.stderr


def test_harmonics_goes_on_without_a_local_scheduler_and_without_its_coordinator(scenario: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start("run", scenario, "--policy", "harmonics:epoch=300ms", "--out", str(out))
    wait_for_iterations(out, process)
    schedulers = python_processes("harmonics_emu.emulate.local_scheduler")
    rack = max(pid for pid in schedulers if parent_of(pid) in schedulers)
    os.kill(rack, signal.SIGKILL)
    time.sleep(1.0)
    assert len(python_processes("harmonics_emu.emulate.local_scheduler")) == len(schedulers)
    (controller,) = python_processes("controller")
    os.kill(controller, signal.SIGKILL)
    killed = time.monotonic()
    while not [pid for pid in python_processes("controller") if pid != controller]:
        assert time.monotonic() - killed < 10, "no other controller was started"
        time.sleep(0.05)
    result = finish(process, out)
    reasons = " ".join(result["fidelity"]["reasons"])
    assert "the Local Scheduler of rack 1 was killed by SIGKILL and was started again" in reasons
    assert "the controller died" in reasons
    decisions = decisions_of(out)
    assert {decision["policy"] for decision in decisions} == {"harmonics"}
    # A Coordinator remembers what it found: the first one asked the racks once, and so did the one in its place.
    asked = [decision for decision in decisions if "racks report" in decision["plan"]["facts"].get("steps_s", {})]
    assert len(asked) >= 2
    assert asked[-1]["time_s"] > 1.0
    assert asked[-1]["plan"]["facts"]["silent_racks"] == []
    assert max(longest_pause_s(out, "one"), longest_pause_s(out, "two")) < STILL_S


def test_harmonics_gives_way_to_fair_sharing_when_its_plans_do_worse_than_expected(tmp_path: Path) -> None:
    """No policy is told of a link's new rate: plans then do worse than was expected at the old one."""
    scenario = tmp_path / "slower.yaml"
    event = "events: [{at: 2s, link: leaf0-spine0, action: rate, rate: 15Mbit}]\n"
    scenario.write_text(SMALL.format(name="slower", iterations=50) + event)
    out = tmp_path / "run"
    done = harmonics("run", str(scenario), "--policy", "harmonics:epoch=500ms", "--out", str(out), timeout_s=90)
    assert done.returncode in (0, 3), done.stderr
    decisions = decisions_of(out)
    before = [decision for decision in decisions if decision["time_s"] < 2.0]
    assert {decision["policy"] for decision in before} == {"harmonics"}
    assert all(decision["predicted_fair"] for decision in before)
    fair = next(decision for decision in decisions if decision["policy"] == "fair")
    assert fair["why"].startswith("2 epochs in a row were worse than expected of fair sharing")
    assert 4.0 < fair["time_s"] < 8.0
    assert {plan["level"] for plan in fair["plan"]["jobs"].values()} == {DEFAULT_LEVEL}
    result = json.loads((out / "result.json").read_text())
    assert any("policy harmonics gave way to fair sharing" in reason for reason in result["fidelity"]["reasons"])
    assert result["scheduling"]["fallbacks"] >= 1
    number = decisions.index(fair) + 1
    said = harmonics("schedule", str(out), "--explain", "--decision", str(number)).stdout
    assert "of policy fair" in said
    assert "worse than expected of fair sharing" in " ".join(said.split())
