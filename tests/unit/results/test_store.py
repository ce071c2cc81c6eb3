"""A run to its directory and back, and what is said of files that do not fit."""

from __future__ import annotations

import csv
import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.records import ITERATION
from harmonics_emu.results import rows
from harmonics_emu.results.build import build_result
from harmonics_emu.results.comparison import compare
from harmonics_emu.results.run_directory import prepare_run_directory
from harmonics_emu.results.schema import (
    Fidelity,
    LinkFidelity,
    Result,
    UnreadableResult,
    read_comparison,
    read_result,
    to_json,
)
from harmonics_emu.results.store import holds_result, load_run, write_comparison, write_run
from tests.unit.results import samples

ODD = 'odd, "name"\nof two lines'


@pytest.fixture
def result():
    fidelity = Fidelity(
        verdict="degraded",
        reasons=("too slow",),
        links=(LinkFidelity(link="h0>leaf0", configured_bps=1000, busy_goodput_bps=None, drops=1),),
    )
    jobs = (samples.job("vision"), samples.job(ODD))
    alone = {"vision": samples.isolated(3, 1.0, 1.0)}
    return build_result(samples.full_records(), jobs, samples.fabric(), "naïve", alone, fidelity)


@pytest.fixture
def directory(tmp_path, result):
    path = prepare_run_directory(tmp_path / "run", None)
    assert not holds_result(path)
    write_run(path, result, samples.full_records(), "name: naïve\n", {"tool": "harmonics-emu", "seed": 0}, None)
    assert holds_result(path)
    return path


def test_a_run_comes_back_as_it_was(directory, result):
    run = load_run(directory)
    before = samples.full_records()
    assert run.result == result
    assert run.scenario == "name: naïve\n"
    assert run.manifest == {"tool": "harmonics-emu", "seed": 0}
    assert run.records.outcomes == before.outcomes
    assert list(run.records.iterations) == list(before.iterations)
    for kind in ("iterations", "links"):
        for name, table in getattr(before, kind).items():
            read = getattr(run.records, kind)[name]
            assert read.dtype == table.dtype
            assert read.tolist() == table.tolist()
    assert run.records.gates_failed_open == 3
    assert run.records.rules == [{"switch": "leaf0", "packets": 7}]
    assert [decision.plan for decision in run.records.decisions] == [
        {"jobs": {}, "objective": 1.5},
        {"jobs": {}, "bound": None},
    ]
    assert run.records.decisions[1].fallback


def test_a_result_can_be_built_again_from_its_directory(directory, result):
    run = load_run(directory)
    jobs = (samples.job("vision"), samples.job(ODD))
    alone = {"vision": samples.isolated(3, 1.0, 1.0)}
    assert build_result(run.records, jobs, samples.fabric(), "naïve", alone, result.fidelity) == result


def test_files_are_plain_for_other_tools(directory):
    with (directory / "iterations.csv").open(newline="") as source:
        table = list(csv.DictReader(source))
    assert len(table) == 12
    assert table[2] == {
        "job": "vision",
        "rank": "0",
        "iteration": "1",
        "start_s": "4.0",
        "compute_s": "1.0",
        "gate_s": "0.5",
        "end_s": "8.0",
    }
    assert {path.name for path in directory.iterdir()} == {
        "manifest.json",
        "scenario.yaml",
        "result.json",
        "iterations.csv",
        "links.csv",
        "decisions.jsonl",
        "rules.jsonl",
    }
    for path in directory.iterdir():
        assert b"NaN" not in path.read_bytes()


def test_result_json_has_the_documented_fields(directory):
    found = json.loads((directory / "result.json").read_bytes())
    assert set(found) == {
        *("schema", "scenario", "engine", "policy", "seed", "jobs", "cluster", "scheduling", "fidelity")
    }
    documented = {
        *("name", "model", "program", "ranks", "iterations", "status", "training_s", "slowdown", "error"),
        *("iteration_s", "communication_s", "compute_s", "gate_s", "straggler_s", "steady_iteration_s"),
        *("isolated_iteration_s", "isolated_communication_s", "isolated_source"),
    }
    assert documented <= set(found["jobs"][0])
    assert set(found["jobs"][0]["iteration_s"]) == {"mean", "median", "p99", "std"}
    assert set(found["cluster"]) == {
        *("makespan_s", "training_s", "communication_s", "S", "max_slowdown"),
        *("gpu_utilization", "network_utilization"),
    }
    assert set(found["scheduling"]) == {"decisions", "solve_s", "critical_path_s", "fallbacks", "gates_failed_open"}
    assert set(found["fidelity"]["links"][0]) == {"link", "configured_bps", "busy_goodput_bps", "drops"}


def change(path, *keys, to):
    content = json.loads(path.read_bytes())
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    path.write_text(json.dumps(content))


def test_errors_name_the_field(directory):
    path = directory / "result.json"
    change(path, "jobs", 0, "training_s", to="fast")
    with pytest.raises(UnreadableResult, match=r"result.json .*Expected `float \| null`.*jobs\[0\]\.training_s"):
        read_result(directory)
    change(path, "jobs", 0, "training_s", to=1)
    change(path, "engine", to="guess")
    with pytest.raises(UnreadableResult, match=r"Invalid enum value 'guess' - at `\$\.engine`"):
        read_result(path)
    for content in (b"{", b'"\xff"', b"[]", b""):
        path.write_bytes(content)
        with pytest.raises(UnreadableResult, match="is not a result of schema 1"):
            read_result(path)
    with pytest.raises(UnreadableResult, match=r"cannot read .*nowhere"):
        read_result(path.parent / "nowhere")


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("iterations.csv", 'vision,0,x,0.0,0.0,0.0,1.0"', "line 2: invalid literal"),
        ("iterations.csv", "vision,0,0,0.0", "line 2: zip"),
        ("links.csv", "", "line 2: pop from empty list"),
        ("decisions.jsonl", '{"time_s": "now"}', r"line 1: .*time_s"),
        ("rules.jsonl", "[]", r"line 1: Expected `object`"),
        ("rules.jsonl", '{"a": "\xff"}', "line 1: "),
        ("links.csv", "0.0,\xff,1,1,1,0.0", r"line 1: 'utf-8' codec"),
    ],
)
def test_errors_name_the_line(directory, name, line, said):
    path = directory / name
    header = path.read_text().splitlines()[0] + "\n" if name.endswith("csv") else ""
    path.write_bytes(f"{header}{line}\n".encode("latin-1"))
    with pytest.raises(UnreadableResult, match=rf"{name}, {said}"):
        load_run(directory)


def test_a_number_too_large_is_refused(directory):
    path = directory / "iterations.csv"
    path.write_text(path.read_text() + f"vision,0,{2**40},0.0,0.0,0.0,1.0\n")
    with pytest.raises(UnreadableResult, match=r"iterations.csv holds a number that is too large"):
        load_run(directory)


def test_a_table_with_other_columns_is_refused(directory):
    (directory / "links.csv").write_text("when,what\n")
    with pytest.raises(UnreadableResult, match=r"links.csv, line 1: its first line must read time_s,link,bytes"):
        load_run(directory)


def test_a_missing_file_is_named(directory):
    (directory / "scenario.yaml").unlink()
    with pytest.raises(UnreadableResult, match=r"cannot read .*scenario.yaml"):
        load_run(directory)


numbers = st.floats(allow_nan=True, allow_infinity=False)
measured = st.tuples(st.integers(0, 99), st.integers(0, 10**6), numbers, numbers, numbers, numbers)


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\r")), st.lists(measured, min_size=1), max_size=3
    )
)
def test_rows_survive_the_file(tmp_path_factory, tables):
    before = {name: np.array(table, ITERATION) for name, table in tables.items()}
    path = tmp_path_factory.mktemp("rows") / "iterations.csv"
    with path.open("w", encoding="utf-8", newline="") as sink:
        rows.write_iterations(sink, before)
    after = rows.read_iterations(path)
    assert list(after) == list(before)
    for name in before:
        for field in ITERATION.names:
            np.testing.assert_array_equal(after[name][field], before[name][field])


@given(st.floats(), st.floats(), st.text())
def test_json_round_trip(first, second, text):
    result = build_result(
        samples.records({"vision": samples.two_ranks()}),
        (samples.job(),),
        samples.fabric(),
        text,
        {},
        Fidelity(verdict="faithful", cpu_busy=first, reasons=(text,)),
    )
    result = msgspec.structs.replace(result, cluster=msgspec.structs.replace(result.cluster, S=second))
    content = to_json(result)
    json.loads(content, parse_constant=pytest.fail)
    read = msgspec.json.decode(content, type=Result)
    assert to_json(read) == content


def test_a_comparison_comes_back_as_it_was(tmp_path, result):
    comparison = compare({"fair": [result]})
    directory = prepare_run_directory(tmp_path / "comparison", None)
    write_comparison(directory, comparison, {"tool": "harmonics-emu"}, None)
    assert read_comparison(directory) == comparison
    found = json.loads((directory / "comparison.json").read_bytes())
    assert {"scenario", "engine", "repeats", "policies", "against_fair"} <= set(found)
    assert set(found["policies"]["fair"]["S"]) == {"median", "ci95"}
