"""The commands that describe: validate, schema, scenarios, policies, models."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harmonics_emu.cli.main import main
from harmonics_emu.scenario import builtin_names
from harmonics_emu.schedulers.registry import policy_names
from workloads.models import model_names
from workloads.parallelism import COLLECTIVE_OF

BAD = """\
name: demo
fabric: {kind: dumbbell, hosts_per_side: 1, host_rate: 100, uplink_rate: 1Gbps}
jobs: [{name: a, gradients: 1MB, compute: {iteration: 75ms}, workers: 2, iterations: 9, priorty: 1}]
"""


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def from_json(*arguments: str) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_validate_says_what_a_scenario_comes_to() -> None:
    result = invoke("validate", "two-tenants")
    assert result.exit_code == 0
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        "two-tenants is valid: Two equal jobs in step share one uplink",
        "Fabric: rack-spine, 8 hosts with 8 GPUs, 3 switches, 10 cables; scale 1/500",
        "Policy: fair; seed 0",
        "",
        "                         itera-                    communi-   duty",
        " job       model  ranks   tions    bytes  compute    cation  cycle",
        " ─────────────────────────────────────────────────────────────────",
        " tenant-a  vgg16      4      60  1.11 MB  75.0 ms   66.4 ms    47%",
        " tenant-b  vgg16      4      60  1.11 MB  75.0 ms   66.4 ms    47%",
        "",
        "Bytes: emulated, of one iteration. Communication: estimated, of each job alone.",
    ]


def test_validate_as_json() -> None:
    summary = from_json("validate", "vision-and-text")
    assert (summary["valid"], summary["name"], summary["scale"]) == (True, "vision-and-text", "1/250")
    assert summary["fabric"] == {"kind": "rack-spine", "hosts": 8, "gpus": 8, "switches": 3, "cables": 10}
    vision, text = summary["jobs"]
    assert (vision["ranks"], vision["compute_s"], vision["bottleneck"]) == (4, 0.075, "leaf0>spine0")
    assert vision["isolated_communication_s"] == pytest.approx(0.1328, rel=1e-3)
    assert text["duty_cycle"] == pytest.approx(0.222, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("hosts_per_side: 2049", "the scenario has 4098 hosts, but the emulator takes at most 4096; simulate it"),
        ("host_rate: 1kbit", "r0h0>leaf0 has 1000 bit/s; the emulator shapes links of 8 kbit/s and more"),
    ],
)
def test_validate_says_what_only_the_simulator_can_run(tmp_path: Path, change: str, why: str) -> None:
    path = tmp_path / "large.yaml"
    text = BAD.replace("100,", "100Mbit,").replace("1Gbps", "1Gbit").replace("priorty", "priority")
    path.write_text(re.sub(rf"{change.split(':')[0]}: \w+", change, text))
    summary = from_json("validate", str(path))
    assert (summary["valid"], summary["not_emulated"]) == (True, why)
    told = invoke("validate", str(path))
    assert f"Not for the emulator: {why}" in " ".join(told.stdout.split())


def test_validate_lists_all_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    result = invoke("validate", str(path))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"error: {path} has 3 problems:",
        f"{path}:2:56: fabric.host_rate: 100 has no unit; hint: write a rate with its unit, as 100Mbit or 1.5Gbit",
        f"{path}:2:74: fabric.uplink_rate: 'Gbps' is no unit of rate; hint: did you mean 1Gbit?",
        f"{path}:3:89: jobs[0].priorty: unknown key; hint: did you mean 'priority'?",
    ]
    result = invoke("validate", str(path), "--json")
    assert result.exit_code == 2
    said = json.loads(result.stdout)
    assert said["valid"] is False
    assert said["problems"][2] == {
        "line": 3,
        "column": 89,
        "path": "jobs[0].priorty",
        "what": "unknown key",
        "hint": "did you mean 'priority'?",
    }


def test_validate_asks_the_policy_about_its_options(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    text = BAD.replace("100,", "100Mbit,").replace("1Gbps", "1Gbit").replace("priorty", "priority")
    path.write_text(text + "policy: {name: crux, levels: 99}\n")
    result = invoke("validate", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: policy.levels is 99 but must be a whole number from 1 to 7")
    said = json.loads(invoke("validate", str(path), "--json").stdout)
    assert (said["valid"], said["problems"]) == (False, [])


def test_validate_of_no_file(tmp_path: Path) -> None:
    for given, message in ((str(tmp_path), "is a directory"), ("tow-tenants", "did you mean 'two-tenants'?")):
        result = invoke("validate", given)
        assert result.exit_code == 2
        assert message in result.stderr
        result = invoke("validate", given, "--json")
        assert result.exit_code == 2
        assert message in json.loads(result.stdout)["error"]


def test_validate_prints_names_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    name = "[red]x[/red]" + "y" * 100
    text = BAD.replace("100,", "100Mbit,").replace("1Gbps", "1Gbit").replace("priorty", "priority")
    path.write_text(text.replace("name: a,", f"name: '{name}',"))
    result = invoke("validate", str(path))
    assert result.exit_code == 0, result.stderr
    table = result.stdout.splitlines()[3:-1]
    assert all(len(line) <= 80 for line in table)
    assert "".join(line[:40].split()[0] for line in table[4:-1]).startswith("[red]x[/red]yyy")


def test_scenarios() -> None:
    rows = from_json("scenarios")["scenarios"]
    assert [row["name"] for row in rows] == list(builtin_names())
    assert {"two-tenants", "vision-and-text", "four-tenants"} <= {row["name"] for row in rows}
    four = next(row for row in rows if row["name"] == "four-tenants")
    assert (four["jobs"], four["ranks"], four["hosts"], four["worst_case"]) == (4, 16, 16, True)
    assert all(row["title"] and row["title"] != row["name"] for row in rows)


def test_policies() -> None:
    rows = from_json("policies")["policies"]
    assert [row["name"] for row in rows] == list(policy_names())
    assert all(row["summary"] for row in rows)


def test_models() -> None:
    rows = {row["name"]: row for row in from_json("models")["models"]}
    assert set(rows) == set(model_names())
    assert rows["vgg16"]["parameters"] == 138_357_544
    assert rows["vgg16"]["gradient_bytes"] == {"fp32": 4 * 138_357_544, "fp16": 2 * 138_357_544}
    assert rows["vgg16"]["compute_s"][rows["vgg16"]["default_compute"]] == 0.075
    assert "torchvision" in rows["vgg16"]["source"]


def test_models_of_a_scenario_come_first(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        BAD.replace("100,", "100Mbit,").replace("1Gbps", "1Gbit").replace("priorty", "priority")
        + "models: [{name: mine, parameters: 1000, compute: {a100: 1ms}}, {name: other, tensors: [9]}]\n"
    )
    rows = from_json("models", str(path))["models"]
    assert [row["name"] for row in rows] == ["mine", "other", *model_names()]
    assert invoke("models", str(path)).exit_code == 0


@pytest.mark.parametrize("command", ["scenarios", "policies", "models"])
def test_lists_fit_80_columns(command: str) -> None:
    result = invoke(command)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    for name in {"scenarios": builtin_names(), "policies": policy_names(), "models": model_names()}[command]:
        assert f" {name} " in result.stdout


def test_schema_describes_the_file() -> None:
    result = invoke("schema")
    assert result.exit_code == 0
    schema = json.loads(result.stdout)
    assert schema["required"] == ["name", "fabric", "jobs"]
    assert schema["additionalProperties"] is False
    job = schema["$defs"]["JobSection"]["properties"]
    assert job["bucket"]["default"] == "25MiB"
    assert job["timeout"]["default"] == "60s"
    assert job["program"]["oneOf"][0]["enum"] == [*COLLECTIVE_OF, "allreduce"]
    assert "null" not in result.stdout


def test_the_reference_page_is_what_the_schema_says() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "scenario.md"
    assert page.read_text(encoding="utf-8") == invoke("schema", "--markdown").stdout


def test_output_that_cannot_be_written_is_told_in_a_line() -> None:
    for arguments in (["policies"], ["policies", "--json"]):
        with open("/dev/full", "w") as full:
            command = [sys.executable, "-m", "harmonics_emu", *arguments]
            ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert "error: cannot write the output: No space left on device" in ran.stderr
        assert "Traceback" not in ran.stderr
