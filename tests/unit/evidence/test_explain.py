"""Explanations add up, name the culprit, and are right where the fluid engine made the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harmonics_emu.cli.main import main
from harmonics_emu.errors import UsageError
from harmonics_emu.evidence.attribution import JobExplanation, explain
from harmonics_emu.evidence.explanations import in_words, rows_of
from harmonics_emu.evidence.recorded_run import load_recorded_run
from harmonics_emu.evidence.witnesses import witnesses
from harmonics_emu.results.schema import UnreadableResult
from harmonics_emu.runs import run
from harmonics_emu.scenario import parse_scenario

FABRIC = "{kind: rack-spine, racks: 2, hosts_per_rack: 4, spines: 1, host_rate: 400Mbit, uplink_rate: 200Mbit}"


def scenario_of(*lines: str) -> bytes:
    head = f"name: made\nfabric: {FABRIC}\nscale: {{rate: 1/500}}\n"
    return (head + "\n".join(lines) + "\n").encode()


def job(name: str, hosts: str, *more: str) -> str:
    return ", ".join((f"  - {{name: {name}, model: vgg16, placement: [{hosts}], iterations: 12", *more)) + "}"


LEFT, RIGHT = "r0h0, r0h1, r1h0, r1h1", "r0h2, r0h3, r1h2, r1h3"


def explained(tmp_path: Path, scenario: bytes | str, policy: str = "fair") -> dict[str, JobExplanation]:
    given = parse_scenario(scenario, "made.yaml") if isinstance(scenario, bytes) else scenario
    run(given, policy=policy, out=tmp_path / "run")
    return {explanation.job: explanation for explanation in explain(load_recorded_run(tmp_path / "run"))}


@pytest.mark.parametrize("policy", ["fair", "priority", "cassini"])
def test_parts_add_up_and_nothing_stays_unexplained_of_a_simulated_run(policy: str, tmp_path: Path) -> None:
    found = explained(tmp_path, "four-tenants", policy)
    assert set(found) == {"vgg16", "vgg19", "bert", "gpt2"}
    assert any(explanation.slow for explanation in found.values())
    for explanation in found.values():
        for excess in explanation.slow:
            parts = excess.compute_s + excess.gate_s + sum(excess.lost_s.values()) + excess.unexplained_s
            assert parts == pytest.approx(excess.excess_s, abs=1e-9)
            assert excess.excess_s == pytest.approx(excess.iteration_s - explanation.isolated_s, abs=1e-9)
            assert min(excess.lost_s.values(), default=0.0) >= 0
        assert sum(row[2] for row in rows_of(explanation)) == pytest.approx(explanation.mean("excess_s"), abs=1e-9)
        assert abs(explanation.mean("unexplained_s")) <= 0.02 * explanation.mean("excess_s") + 1e-9


def test_the_other_tenant_is_named_with_the_shared_link(tmp_path: Path) -> None:
    found = explained(tmp_path, "two-tenants")
    (cause, lost_s), *rest = found["tenant-a"].mean_lost_s().items()
    assert (cause[0], rest) == ("tenant-b", [])
    assert cause[1] in {"leaf0>spine0", "spine0>leaf1", "leaf1>spine0", "spine0>leaf0"}
    assert lost_s == pytest.approx(0.0664, abs=1e-4)
    said = in_words(found["tenant-a"])
    assert "59 of 59 iterations took longer than alone" in said
    assert f"66.4 ms went to tenant-b on {cause[1]}." in said


def test_who_has_priority_loses_nothing_and_the_other_all(tmp_path: Path) -> None:
    jobs = ("jobs:", job("first", LEFT, "priority: 1"), job("second", RIGHT, "priority: 2"))
    found = explained(tmp_path, scenario_of(*jobs), "priority")
    assert found["first"].slow == ()
    assert "as long as alone" in in_words(found["first"])
    assert {who for who, _ in found["second"].mean_lost_s()} <= {"first"}


def test_background_and_slower_links_are_told_from_jobs(tmp_path: Path) -> None:
    found = explained(
        tmp_path,
        scenario_of("jobs:", job("alone", LEFT), "background: [{from: r0h2, to: r1h3, rate: 150Mbit}]"),
    )
    assert {who for who, _ in found["alone"].mean_lost_s()} == {"background"}
    slower = scenario_of(
        "jobs:",
        job("alone", LEFT),
        "events: [{at: 0s, link: leaf0-spine0, action: rate, rate: 50Mbit}]",
    )
    found = explained(tmp_path / "slower", slower)
    ((who, _), lost_s), *_ = found["alone"].mean_lost_s().items()
    assert (who, lost_s) == ("", pytest.approx(found["alone"].mean("excess_s"), rel=0.02))
    assert "its own path's, cap's or link's" in in_words(found["alone"])


def test_compute_and_gate_are_parts_of_their_own(tmp_path: Path) -> None:
    run("two-tenants", policy="fair", out=tmp_path / "run")
    path = tmp_path / "run" / "iterations.csv"
    lines = path.read_text().splitlines()
    changed = [lines[0]]
    for line in lines[1:]:
        name, rank, number, start, compute, _, end = line.split(",")
        if name == "tenant-a" and number == "5":
            # 30 ms of it were computed longer, and 20 ms waited at the gate.
            compute, end = str(float(compute) + 0.03), str(float(end) + 0.05)
            line = ",".join((name, rank, number, start, compute, "0.02", end))
        changed.append(line)
    path.write_text("\n".join(changed) + "\n")
    (explanation,) = explain(load_recorded_run(tmp_path / "run"), ["tenant-a"])
    changed_one = next(excess for excess in explanation.slow if excess.iteration == 5)
    assert (changed_one.compute_s, changed_one.gate_s) == pytest.approx((0.03, 0.02), abs=1e-9)


def test_spans_tell_contended_time(tmp_path: Path) -> None:
    run("two-tenants", policy="fair", out=tmp_path / "run")
    recorded = load_recorded_run(tmp_path / "run")
    seen = witnesses(recorded)
    assert len(seen) == 4
    for witness in seen:
        assert witness.spans.contended_s == pytest.approx(60 * 2 * 0.0664, rel=0.01)
        assert witness.packets_s is None


def test_the_command(tmp_path: Path) -> None:
    run("two-tenants", policy="fair", out=tmp_path / "run")
    told = CliRunner().invoke(main, ["explain", str(tmp_path / "run"), "--job", "tenant-b", "--each"])
    assert told.exit_code == 0, told.output
    for part in ("tenant-b took 208 ms", "went to tenant-a", "100.0 %", "at once"):
        assert part in " ".join(told.output.split())
    told = CliRunner().invoke(main, ["explain", str(tmp_path / "run"), "--json"])
    shown = json.loads(told.stdout)
    assert [entry["job"] for entry in shown["jobs"]] == ["tenant-a", "tenant-b"]
    assert len(shown["jobs"][0]["slow"]) == 59
    wrong = CliRunner().invoke(main, ["explain", str(tmp_path / "run"), "--job", "tenant-z"])
    assert (wrong.exit_code, "it has tenant-a, tenant-b" in wrong.output) == (2, True)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableResult, match="no whole run"):
        load_recorded_run(tmp_path)
    (tmp_path / "comparison.json").write_text("{}")
    with pytest.raises(UnreadableResult, match="name one of the runs in it"):
        load_recorded_run(tmp_path)


def test_a_job_whose_time_alone_is_unknown_is_left_out_or_refused(tmp_path: Path) -> None:
    run("two-tenants", policy="fair", out=tmp_path / "run")
    path = tmp_path / "run" / "result.json"
    result = json.loads(path.read_text())
    result["jobs"][0]["isolated_iteration_s"] = None
    path.write_text(json.dumps(result))
    recorded = load_recorded_run(tmp_path / "run")
    assert [explanation.job for explanation in explain(recorded)] == ["tenant-b"]
    with pytest.raises(UsageError, match="its time alone is not known"):
        explain(recorded, ["tenant-a"])
