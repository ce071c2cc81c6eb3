"""Jobs that queue for GPUs on the fluid engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from harmonics_emu.errors import UsageError
from harmonics_emu.evidence.recorded_run import load_recorded_run
from harmonics_emu.planning import plan_first
from harmonics_emu.results.schema import Result, UnreadableResult
from harmonics_emu.runs import run
from harmonics_emu.scenario import Scenario, parse_scenario
from harmonics_emu.scenario.problems import ScenarioError
from harmonics_emu.schedulers.fair import policy as fair
from harmonics_emu.schedulers.registry import policy_names
from harmonics_emu.simulate.engine import simulate
from workloads.job import LinkEvent

HEAD = """
name: queue
fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 1, host_rate: 1Gbit, uplink_rate: 500Mbit}
"""


def scenario(*jobs: str, queue: str | None = "fifo") -> Scenario:
    lines = [
        f"- {{name: {chr(97 + i)}, gradients: 1MB, compute: {{iteration: 50ms}}, {job}}}" for i, job in enumerate(jobs)
    ]
    text = HEAD + (f"queue: {queue}\n" if queue else "") + "jobs:\n" + "\n".join(lines)
    return parse_scenario(text.encode(), "queue.yaml")


def ends(result: Result) -> list[float]:
    return [job.end_s for job in result.jobs]


FOUR = (
    "workers: 4, iterations: 100, placement: packed",
    "workers: 2, iterations: 100, placement: packed, start: 1s",
    "workers: 4, iterations: 50, placement: packed, start: 2s",
    "workers: 2, iterations: 10, placement: local, start: 2s",
)


def test_first_come_first_served() -> None:
    """74 ms an iteration on four hosts (24 ms of them over the uplink), 58 ms in one rack."""
    result = run(scenario(*FOUR))
    assert ends(result) == pytest.approx([7.4, 13.2, 16.9, 17.48])
    assert [job.training_s for job in result.jobs] == pytest.approx([7.4, 12.2, 14.9, 15.48])
    assert [job.slowdown for job in result.jobs] == pytest.approx([1, 12.2 / 5.8, 14.9 / 3.7, 15.48 / 0.58])


def test_shortest_first() -> None:
    """At 7.4 s d (0.58 s) goes before c (3.7 s), which then does not fit; b (5.8 s) does, and overtakes it."""
    assert ends(run(scenario(*FOUR, queue="srpt"))) == pytest.approx([7.4, 13.2, 16.9, 7.98])


def test_jobs_that_find_room_run_as_without_a_queue() -> None:
    jobs = ("workers: 2, iterations: 40, placement: spread", "workers: 2, iterations: 30, placement: spread, start: 1s")
    waiting, plain = scenario(*jobs), scenario(*jobs, queue=None)
    room = waiting.waiting_room([1.0, 1.0])
    queued = simulate(waiting.fabric(), waiting.jobs(), room=room)
    usual = simulate(plain.fabric(), plain.jobs())
    for name in ("a", "b"):
        assert np.array_equal(queued.iterations[name], usual.iterations[name])
    for link, rows in usual.links.items():
        assert queued.links[link]["bytes"][-1] == rows["bytes"][-1]


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - {"optimal"}))
def test_every_policy_runs_a_queue_to_its_end(policy: str) -> None:
    rules = ("packed", "spread", "random", "local", "[r0h0, r1h1]")
    jobs = [
        f"workers: {2 if rule[0] == '[' else 1 + number % 4}, iterations: {5 + number}, placement: {rule}, "
        f"start: {number * 30}ms"
        for number, rule in enumerate(rules * 4)
    ]
    result = run(scenario(*jobs), policy=policy)
    assert [job.status for job in result.jobs] == ["done"] * len(jobs)
    assert result.cluster.S is not None
    assert result.cluster.S > 1


def test_carried_bytes_are_those_of_the_hosts_that_jobs_were_given() -> None:
    """Each of two jobs with both hosts of a rack sends 1 MB an iteration in each direction of its two cables."""
    job = "workers: 2, iterations: 10, placement: packed"
    waiting = scenario(job, job, job)
    room = waiting.waiting_room([1.0] * 3)
    records = simulate(waiting.fabric(), waiting.jobs(), room=room)
    sent = {link: int(rows["bytes"][-1]) for link, rows in records.links.items()}
    assert sent["r0h0>leaf0"] + sent["r1h0>leaf1"] == 30 * 10**6
    assert not any("spine" in link for link in sent)


def test_jobs_behind_one_that_stalls_are_told_of() -> None:
    waiting = scenario("workers: 4, iterations: 10", "workers: 4, iterations: 10")
    room = waiting.waiting_room([1.0, 1.0])
    down = [LinkEvent(0.0, "leaf0-spine0", "down")]
    records = simulate(waiting.fabric(), waiting.jobs(), fair, events=down, room=room)
    assert "no path from" in str(records.outcomes["a"].error)
    assert "still waited for GPUs" in str(records.outcomes["b"].error)


def test_a_job_on_one_host_only_computes() -> None:
    result = run(scenario("workers: 1, iterations: 10", "workers: 4, iterations: 10"))
    assert ends(result) == pytest.approx([0.5, 0.5 + 0.74])


def test_the_first_plan_is_for_those_that_begin_at_once() -> None:
    assert [state.job.name for state in plan_first(scenario(*FOUR)).snapshot.jobs] == ["a"]


def test_a_resolved_file_keeps_the_rules() -> None:
    first = scenario(*FOUR)
    text = first.resolved_yaml()
    assert "queue: fifo" in text
    assert "placement: local" in text
    assert parse_scenario(text.encode(), "again.yaml") == first


def test_what_cannot_queue() -> None:
    with pytest.raises(ScenarioError, match=r"jobs\[0\].workers: asks for 5 GPUs, but the fabric has 4"):
        scenario("workers: 5, iterations: 10")
    with pytest.raises(ScenarioError, match=r"jobs\[0\].movable: given, but jobs that queue"):
        scenario("workers: 2, iterations: 10, movable: true")
    shared = scenario(*FOUR).resolved_yaml().replace("share_gpus: false", "share_gpus: true")
    with pytest.raises(ScenarioError, match="with share_gpus no job waits"):
        parse_scenario(shared.encode(), "shared.yaml")
    from harmonics_emu.emulate.run import refuse_what_may_not_run

    with pytest.raises(UsageError, match="has no queue for GPUs; simulate it"):
        refuse_what_may_not_run(scenario(*FOUR), "fair", allow_commands=False)


def test_a_run_directory_tells_where_jobs_ran(tmp_path: Path) -> None:
    """The hosts that each was given, which are not always those of the empty cluster."""
    job = "workers: 2, iterations: 20, placement: "
    first = scenario(job + "[r0h0, r1h0]", job + "packed", job + "spread", queue="fifo")
    run(first, out=tmp_path / "run")
    recorded = load_recorded_run(tmp_path / "run")
    assert [found.hosts for found in recorded.jobs] == [("r0h0", "r1h0"), ("r0h1", "r1h1"), ("r0h0", "r1h0")]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    manifest["settings"]["hosts"]["b"] = ["r0h0", 5]
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UnreadableResult, match=r"settings\.hosts\.b is no list"):
        _ = load_recorded_run(tmp_path / "run").jobs
