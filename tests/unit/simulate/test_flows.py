"""Plain flows: the oracles, hostile input, and the command."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.cli.main import main
from harmonics_emu.errors import UsageError
from harmonics_emu.simulate.flows import finish_times

FIXTURES = Path(__file__).parent / "fixtures"
ORACLES = Path(__file__).parents[4] / "shared" / "oracles"
FILES = ("maxmin_simgrid.json", "strict_priority.json")


def case(**changes: Any) -> dict[str, Any]:
    """One link of 10 bytes/s; `changes` go into its only flow."""
    flow = {"id": "f", "start": 1.0, "bytes": 20, "links": ["l"]} | changes
    return {"name": "demo", "links": {"l": 10, "dead": 0}, "flows": [flow]}


def assert_equal_to_oracle(path: Path) -> None:
    for one in json.loads(path.read_text())["cases"]:
        assert finish_times(one) == pytest.approx(one["finish"], rel=1e-9), one["name"]


@pytest.mark.parametrize("name", FILES)
def test_equal_to_the_oracle(name: str) -> None:
    assert_equal_to_oracle(FIXTURES / name)


@pytest.mark.skipif(not ORACLES.is_dir(), reason="the folder shared/oracles does not lie beside the project")
@pytest.mark.parametrize("name", FILES)
def test_equal_to_the_whole_oracle(name: str) -> None:
    assert_equal_to_oracle(ORACLES / name)


def test_flow_alone() -> None:
    assert finish_times(case()) == {"f": 3.0}


def test_nothing_to_send_is_finished_at_once_even_over_a_dead_link() -> None:
    assert finish_times(case(bytes=0, links=["dead"])) == {"f": 1.0}


def test_no_flows_no_times() -> None:
    assert finish_times({"links": {}, "flows": []}) == {}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"bytes": math.nan}, "bytes must be zero or more"),
        ({"bytes": -1}, "bytes must be zero or more"),
        ({"bytes": "20"}, "bytes must be zero or more"),
        ({"bytes": 10**400}, "bytes must be zero or more"),
        ({"start": -0.1}, "start must be zero or more"),
        ({"start": math.inf}, "start must be zero or more"),
        ({"start": None}, "start must be zero or more"),
        ({"links": ["nowhere"]}, "link 'nowhere' is none of"),
        ({"links": [["l"]]}, "is none of"),
        ({"links": []}, "crosses no link"),
        ({"links": ["l", "l"]}, "crosses a link twice"),
        ({"links": ["l", "dead"]}, "capacity 0, so it would never finish"),
        ({"priority": -1}, "priority must be a whole number"),
        ({"priority": 1.5}, "priority must be a whole number"),
        ({"priority": True}, "priority must be a whole number"),
        ({"prioritty": 1}, "unknown key 'prioritty'"),
        ({"bytes": 1e300, "start": 1e300}, "later than numbers reach"),
    ],
)
def test_errors_name_case_and_flow(changes: dict[str, Any], complaint: str) -> None:
    one = case(**changes)
    one["links"]["l"] = 1e-10 if "later" in complaint else 10
    with pytest.raises(UsageError, match="case demo: flow f") as raised:
        finish_times(one)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("one", "complaint"),
    [
        ({"name": "x", "links": {"l": math.nan}, "flows": []}, "link l: its capacity"),
        ({"name": "x", "links": {"l": -5}, "flows": []}, "link l: its capacity"),
        ({"name": "x", "links": [], "flows": []}, 'needs "links"'),
        ({"name": "x", "links": {}, "flows": [{"start": 1}]}, 'flows[0] needs an "id"'),
        ({"name": "x", "links": {"l": 1}, "flows": [case()["flows"][0]] * 2}, "used twice"),
    ],
)
def test_errors_name_the_case(one: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match="case x") as raised:
        finish_times(one)
    assert complaint in str(raised.value)


FLOWS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 50), st.integers(0, 2), st.sets(st.integers(0, 2), min_size=1)),
    min_size=1,
    max_size=10,
)


def random_case(flows: list[tuple[int, int, int, set[int]]], capacity: float, links: int = 3) -> dict[str, Any]:
    return {
        "links": {f"l{number}": capacity for number in range(links)},
        "flows": [
            {
                "id": str(number),
                "start": start,
                "bytes": size,
                "priority": priority,
                "links": sorted({f"l{link % links}" for link in crossed}),
            }
            for number, (start, size, priority, crossed) in enumerate(flows)
        ],
    }


@settings(max_examples=50, deadline=None)
@given(FLOWS)
def test_halving_a_single_link_speeds_nothing_up(flows: list[tuple[int, int, int, set[int]]]) -> None:
    whole, half = (finish_times(random_case(flows, capacity, links=1)) for capacity in (4.0, 2.0))
    assert all(half[flow] >= at - 1e-9 for flow, at in whole.items())
    assert max(half.values()) > max(whole.values())


@settings(max_examples=50, deadline=None)
@given(FLOWS)
def test_flows_of_earlier_levels_do_not_notice_later_ones(flows: list[tuple[int, int, int, set[int]]]) -> None:
    both = random_case(flows, 4.0)
    alone = both | {"flows": [flow for flow in both["flows"] if flow["priority"] <= 1]}
    finish = finish_times(both)
    assert finish_times(alone) == pytest.approx({flow["id"]: finish[flow["id"]] for flow in alone["flows"]})


def invoke(path: Path, *arguments: str) -> Any:
    return CliRunner().invoke(main, ["flows", str(path), *arguments])


def test_command_fills_in_finish_of_cases_and_of_one_case(tmp_path: Path) -> None:
    oracle = json.loads((FIXTURES / FILES[1]).read_text())
    path = tmp_path / "flows.json"
    path.write_text(json.dumps(oracle | {"cases": [{**one, "finish": {}} for one in oracle["cases"]]}))
    printed = json.loads(invoke(path, "--json").stdout)
    assert printed["units"] == oracle["units"]
    for filled, one in zip(printed["cases"], oracle["cases"], strict=True):
        assert filled["finish"] == pytest.approx(one["finish"], rel=1e-9)
    path.write_text(json.dumps(case()))
    assert json.loads(invoke(path, "--json").stdout) == case() | {"finish": {"f": 3.0}}
    assert "3 s" in invoke(path).output


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"links": {"l": 1, "l": 2}, "flows": []}', "an object has the key 'l' twice"),
        (b"[1]", "holds no flows"),
        (b'{"cases": 3}', "must be a list"),
        (b'{"cases": [3]}', "it is no object"),
        (
            b'{"name": "a", "links": {"l": 1}, "flows": [{"id": "f", "start": 0, "bytes": NaN, "links": ["l"]}]}',
            "flow f",
        ),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_command_refuses_other_files(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "flows.json"
    path.write_bytes(content)
    result = invoke(path)
    assert (result.exit_code, complaint in result.output) == (2, True), result.output


def test_command_refuses_missing_huge_and_endless_files(tmp_path: Path) -> None:
    assert invoke(tmp_path / "none.json").exit_code == 2
    os.mkfifo(tmp_path / "pipe")
    for endless in (tmp_path / "pipe", Path("/dev/zero")):
        result = invoke(endless)
        assert (result.exit_code, "is no regular file" in result.output) == (2, True)
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(2**40)
    result = invoke(huge)
    assert (result.exit_code, "split its cases" in result.output) == (2, True)
