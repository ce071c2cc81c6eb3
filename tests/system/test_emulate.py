"""Emulated runs from the outside: the command, the run directory, bad input, and what faults leave behind (nothing).

Each test runs in a sandbox that plays the host, with decoys in it: foreign interfaces, bridges, namespaces, processes.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.system.runs import (
    SMALL,
    harmonics,
    parent_of,
    processes_in_sandbox,
    python_processes,
    start,
    wait_for_another,
    wait_for_iterations,
)

pytestmark = [pytest.mark.ovs, pytest.mark.torch]


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A scenario file of two small jobs, a few seconds long."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.format(name="small", iterations=20))
    return str(path)


@pytest.fixture
def endless(tmp_path: Path) -> str:
    path = tmp_path / "endless.yaml"
    path.write_text(SMALL.format(name="endless", iterations=100000))
    return str(path)


@pytest.fixture
def foreign_things():
    """Decoys with the very names that a run uses, and a snapshot of everything that must still be there afterwards."""
    for command in (
        "ip link add leaf0-r0h0 type veth peer name eth0",
        "ip link add leaf0 type bridge",
        "ip netns add r0h0",
        "ip link set leaf0-r0h0 up",
        "tc qdisc add dev leaf0-r0h0 root htb",
    ):
        subprocess.run(command.split(), check=True)
    decoy = subprocess.Popen(["sleep", "1000"], env={"OVS_RUNDIR": "/run/harmonics"})
    before = everything()
    yield before
    assert decoy.poll() is None
    decoy.kill()


def everything() -> dict[str, object]:
    """What a run may leave or take away: interfaces, queues, namespaces, mounts, and other processes."""
    own = {os.getpid(), os.getppid()}
    return {
        "links": [link["ifname"] for link in json.loads(subprocess.check_output(["ip", "-j", "link"]))],
        "queues": subprocess.check_output(["tc", "qdisc"], text=True),
        "namespaces": sorted(os.listdir("/run/netns")),
        "mounts": Path("/proc/self/mounts").read_text(),
        "run": sorted(os.listdir("/run")),
        "shared memory": sorted(os.listdir("/dev/shm")),
        "processes": sorted(
            (Path("/proc") / pid / "cmdline").read_text() for pid in os.listdir("/proc") if _lives(pid, own)
        ),
    }


def _lives(pid: str, own: set[int]) -> bool:
    try:
        return pid.isdecimal() and int(pid) not in own and (Path("/proc") / pid / "cmdline").read_text() != ""
    except FileNotFoundError:
        return False


def until_only(before: dict[str, object], timeout_s: float = 20) -> None:
    """Wait until nothing but what was there before is left; say what is, if that takes too long."""
    deadline = time.monotonic() + timeout_s
    while (now := everything()) != before:
        assert time.monotonic() < deadline, {key: (before[key], now[key]) for key in now if now[key] != before[key]}
        time.sleep(0.1)


@pytest.mark.sandboxed(deadline_s=120)
def test_a_run_leaves_a_whole_directory_and_nothing_else(small, tmp_path, foreign_things):
    out = tmp_path / ("a long name " + "x" * 200) / "run"
    done = harmonics("run", small, "--policy", "priority", "--out", str(out))
    assert done.returncode in (0, 3), done.stderr
    assert str(out)[-30:] in done.stdout.replace("\n", "")
    result = json.loads((out / "result.json").read_text())
    assert [job["status"] for job in result["jobs"]] == ["done", "done"]
    assert all(job["iteration_s"]["mean"] > 0.02 for job in result["jobs"])
    rows = list(csv.DictReader((out / "iterations.csv").open()))
    assert len(rows) == 2 * 2 * 20
    rules = [json.loads(line) for line in (out / "rules.jsonl").open()]
    pairs = [rule for rule in rules if rule["purpose"] == "pair"]
    assert len(pairs) == 4
    assert all(rule["packets"] > 0 and rule["error"] is None for rule in pairs)
    links = list(csv.DictReader((out / "links.csv").open()))
    sent = max(int(row["bytes"]) for row in links if row["link"] == "leaf0>spine0")
    assert sent > 2 * 20 * 200_000
    decisions = [json.loads(line) for line in (out / "decisions.jsonl").open()]
    assert decisions[0]["plan"]["jobs"]["one"]["level"] == 1
    assert json.loads((out / "manifest.json").read_text())["state"] == "finished"
    until_only(foreign_things)


@pytest.mark.sandboxed(deadline_s=120)
def test_a_command_of_the_scenario_runs_only_when_allowed_and_its_failure_is_told(tmp_path):
    scenario = tmp_path / "script.yaml"
    script = "import sys, os; print('rank', os.environ['RANK'], os.environ['GLOO_SOCKET_IFNAME']); sys.exit('no data')"
    scenario.write_text(
        "name: script\n"
        "fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 1, spines: 1, host_rate: 50Mbit, uplink_rate: 50Mbit}\n"
        f"jobs: [{{name: mine, workers: 2, program: {{command: [{sys.executable}, -c, {script!r}]}}}}]\n"
    )
    refused = harmonics("run", str(scenario), "--out", str(tmp_path / "refused"))
    assert refused.returncode == 2
    assert "--allow-commands" in refused.stderr
    failed = harmonics("run", str(scenario), "--allow-commands", "--out", str(tmp_path / "failed"))
    assert failed.returncode == 1
    assert "no data" in failed.stderr
    (job,) = json.loads((tmp_path / "failed" / "result.json").read_text())["jobs"]
    assert job["status"] == "failed"
    assert "status 1" in job["error"]


@pytest.mark.sandboxed(deadline_s=60)
def test_a_rate_beyond_the_machine_is_refused_with_what_was_measured(tmp_path):
    scenario = tmp_path / "fast.yaml"
    scenario.write_text(
        "name: fast\n"
        "fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 1, spines: 1, host_rate: 400Gbit, uplink_rate: 400Gbit}\n"
        "jobs: [{name: one, gradients: 1MB, workers: 2, compute: {iteration: 20ms}, iterations: 3}]\n"
    )
    refused = harmonics("run", str(scenario), "--out", str(tmp_path / "run"))
    assert refused.returncode == 2
    assert "this machine carries" in refused.stderr
    assert "400 Gbit/s" in refused.stderr


@pytest.mark.slow
@pytest.mark.sandboxed(deadline_s=240)
def test_killing_the_supervisor_at_any_moment_leaves_nothing(endless, tmp_path, foreign_things):
    for number, moment_s in enumerate((0.1, 0.3, 0.6, 0.9, 1.2, 1.6, 2.1, 3.0, 4.5, 6.0)):
        process = start("run", endless, "--out", str(tmp_path / f"run{number}"))
        time.sleep(moment_s)
        assert process.poll() is None, process.communicate()
        process.kill()
        process.communicate()
        until_only(foreign_things)


@pytest.mark.sandboxed(deadline_s=90)
def test_ctrl_c_writes_down_what_there_is_and_leaves_nothing(endless, tmp_path, foreign_things):
    out = tmp_path / "run"
    process = start("run", endless, "--out", str(out))
    wait_for_iterations(out, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 1
    until_only(foreign_things)
    result = json.loads((out / "result.json").read_text())
    assert {job["status"] for job in result["jobs"]} == {"killed"}
    assert all(job["iterations_done"] > 0 for job in result["jobs"])


@pytest.mark.sandboxed(deadline_s=90)
@pytest.mark.parametrize("victim", ["ovs-vswitchd", "controller"])
def test_a_dead_switch_daemon_or_controller_is_mended_and_told(victim, tmp_path, foreign_things):
    scenario = tmp_path / "longer.yaml"
    scenario.write_text(SMALL.format(name="longer", iterations=120))
    out = tmp_path / "run"
    process = start("run", str(scenario), "--out", str(out))
    wait_for_iterations(out, process)
    begins = "ovs-vswitchd" if victim == "ovs-vswitchd" else f"{sys.executable}\0-P\0-m\0controller"
    for _ in range(2):
        (pid,) = processes_in_sandbox(begins)
        os.kill(pid, signal.SIGKILL)
        wait_for_another(begins, pid)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (0, 3), said
    result = json.loads((out / "result.json").read_text())
    assert [job["status"] for job in result["jobs"]] == ["done", "done"]
    assert sum(victim in reason and "died" in reason for reason in result["fidelity"]["reasons"]) == 2
    until_only(foreign_things)


@pytest.mark.sandboxed(deadline_s=60)
def test_a_killed_rank_ends_its_job_soon_and_not_the_other(tmp_path):
    scenario = tmp_path / "longer.yaml"
    scenario.write_text(SMALL.format(name="longer", iterations=60))
    out = tmp_path / "run"
    process = start("run", str(scenario), "--out", str(out))
    wait_for_iterations(out, process)
    launchers = python_processes("workloads.launcher")
    ranks = [pid for pid in launchers if parent_of(pid) in launchers]
    assert len(ranks) == 4
    os.kill(ranks[0], signal.SIGKILL)
    process.communicate(timeout=50)
    assert process.returncode == 1
    statuses = {
        job["name"]: (job["status"], job["error"]) for job in json.loads((out / "result.json").read_text())["jobs"]
    }
    assert sorted(status for status, _ in statuses.values()) == ["done", "failed"]
    assert "SIGKILL" in next(error for status, error in statuses.values() if status == "failed")


@pytest.mark.sandboxed(deadline_s=90)
def test_jobs_leave_a_link_that_goes_down_and_background_traffic_keeps_its_rate(tmp_path):
    scenario = tmp_path / "events.yaml"
    scenario.write_text(
        "name: events\n"
        "fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 2, host_rate: 100Mbit, uplink_rate: 50Mbit}\n"
        "jobs: [{name: one, gradients: 100kB, workers: 4, compute: {iteration: 30ms}, iterations: 120}]\n"
        "background: [{from: r0h0, to: r0h1, rate: 10Mbit}]\n"
        "events: [{at: 1s, link: leaf0-spine0, action: down}, {at: 3s, link: leaf0-spine0, action: up}]\n"
    )
    out = tmp_path / "run"
    done = harmonics("run", str(scenario), "--out", str(out))
    assert done.returncode in (0, 3), done.stderr
    (job,) = json.loads((out / "result.json").read_text())["jobs"]
    assert job["status"] == "done"
    assert "leaf0-spine0 down at 1.0 s" in done.stderr
    rows = list(csv.DictReader((out / "links.csv").open()))
    down = [int(r["bytes"]) for r in rows if r["link"] == "leaf0>spine0" and 1.5 < float(r["time_s"]) < 2.9]
    assert down[0] == down[-1], "the link that was down carried something"
    seen = [(float(r["time_s"]), int(r["bytes"])) for r in rows if r["link"] == "leaf0>r0h1"]
    rate = (seen[-1][1] - seen[2][1]) * 8 / (seen[-1][0] - seen[2][0])
    assert rate > 9e6, "the background flow alone has 10 Mbit/s"


@pytest.mark.sandboxed(deadline_s=120)
def test_two_runs_at_once_do_not_meet(small, tmp_path, foreign_things):
    runs = [start("run", small, "--out", str(tmp_path / f"run{number}")) for number in range(2)]
    for run in runs:
        _, said = run.communicate(timeout=100)
        assert run.returncode in (0, 3), said
    until_only(foreign_things)


@pytest.mark.sandboxed(deadline_s=120)
def test_an_interrupted_comparison_goes_on_where_it_stopped(small, tmp_path):
    out = tmp_path / "comparison"
    first = harmonics("compare", small, "--policies", "fair", "--out", str(out), timeout_s=100)
    assert first.returncode in (0, 3), first.stderr
    made = {path: path.stat().st_mtime_ns for path in out.glob("*/*/result.json")}
    assert len(made) == 3
    second = harmonics("compare", small, "--policies", "fair,priority", "--out", str(out), timeout_s=100)
    assert second.returncode in (0, 3), second.stderr
    assert all(path.stat().st_mtime_ns == when for path, when in made.items())
    comparison = json.loads((out / "comparison.json").read_text())
    assert set(comparison["policies"]) == {"fair", "priority"}
