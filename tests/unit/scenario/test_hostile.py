"""Files from strangers: whatever the bytes, the answer is a scenario or a ScenarioError, and soon."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.scenario import ScenarioError, builtin_names, composer, parse_scenario
from harmonics_emu.scenario.loader import builtin_text
from harmonics_emu.scenario.schema import ScenarioFile

fuzz = settings(max_examples=60, deadline=None)

HEAD = "name: x\njobs: [{name: a, gradients: 1MB, compute: {iteration: 1s}, workers: 2, iterations: 9}]\n"


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Whatever happens inside must take no more processor time than this."""
    begin = time.process_time()
    yield
    assert time.process_time() - begin < seconds


def read(raw: bytes) -> None:
    with contextlib.suppress(ScenarioError):
        parse_scenario(raw, "fuzz.yaml")


@given(st.binary(max_size=400))
@fuzz
def test_random_bytes(raw: bytes) -> None:
    read(raw)


@given(st.text("\n\t -?:,[]{}#&*!|>'\"%@`abc1<~.", max_size=120), st.sampled_from([composer.PARSER, yaml.SafeLoader]))
@fuzz
def test_random_punctuation(text: str, parser: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composer, "PARSER", parser)
        read(text.encode())


def keys(model: Any) -> set[str]:
    """All keys that a scenario file may hold anywhere."""
    schema = model.model_json_schema(by_alias=True)
    return {key for part in (schema, *schema["$defs"].values()) for key in part.get("properties", ())}


KNOWN = """rack-spine dumbbell fat-tree custom spread packed vgg16 fair r0h0 leaf0-spine0 down 1Gbit 75ms 4MB 1/100
0.1% -1s 1e9Mbit \0 \U0001f600"""
words = st.sampled_from(KNOWN.split())
leaves = words | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(sorted(keys(ScenarioFile))), inner),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(sorted(ScenarioFile.model_fields)), trees))
@fuzz
def test_random_trees(tree: dict[str, Any]) -> None:
    read(yaml.dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass"))


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A good file in which one value is replaced by something else."""
    data = yaml.safe_load(builtin_text(draw(st.sampled_from(builtin_names()))))
    data["fabric"]["intra_host_rate"] = "1Gbit"
    place = data
    while True:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if isinstance(place[key], (dict, list)) and place[key] and draw(st.booleans()):
            place = place[key]
            continue
        place[key] = draw(trees)
        return yaml.dump(data).encode("utf-8", "surrogatepass")


@given(mutations())
@fuzz
def test_good_files_with_one_value_gone_wrong(raw: bytes) -> None:
    read(raw)


@pytest.mark.parametrize(
    "unit",
    ["[", "{", "{a: ", "- ", "? ", "? a\n", "&a ", "!", "*a,", "'", '"', "|\n", "k: v\n", "- 1\n", "a: [\n", "\\", "9"],
)
def test_a_megabyte_of_one_thing_is_refused_quickly(unit: str) -> None:
    with within(5), pytest.raises(ScenarioError):
        parse_scenario((unit * 10**6)[:999_999].encode(), "big.yaml")


def test_thousands_of_mistakes_take_seconds() -> None:
    with within(10), pytest.raises(ScenarioError):
        parse_scenario((HEAD + "capture: [" + "x, " * 90_000 + "]").encode(), "big.yaml")
    with within(10), pytest.raises(ScenarioError):
        parse_scenario(("jobs:\n" + "- {a: 1, b: 2}\n" * 30_000).encode(), "big.yaml")


def custom(links: list[tuple[str, str]]) -> bytes:
    text = ", ".join(f"{{between: [{a}, {b}], rate: 1Gbit}}" for a, b in links)
    return f"{HEAD}fabric: {{kind: custom, hosts: [a, b], links: [{text}]}}\n".encode()


def test_a_fabric_with_too_many_paths_is_refused_before_anyone_lists_them() -> None:
    layers = [(f"s{layer}x{i}", f"s{layer + 1}x{j}") for layer in range(40) for i in range(2) for j in range(2)]
    with within(5), pytest.raises(ScenarioError, match="are joined by more than 1024 paths"):
        parse_scenario(custom([("a", "s0x0"), ("b", "s40x0"), *layers]), "maze.yaml")


def test_a_fabric_of_one_long_chain_is_refused() -> None:
    chain = [(f"s{i}", f"s{i + 1}") for i in range(1500)]
    with within(5), pytest.raises(ScenarioError, match="are more than 64 hops apart"):
        parse_scenario(custom([("a", "s0"), ("b", "s1500"), *chain]), "chain.yaml")


def test_a_huge_fabric_and_many_jobs_load_in_seconds() -> None:
    jobs = "".join(
        f"- {{name: j{i}, gradients: 1MB, compute: {{iteration: 1s}}, workers: 20, iterations: 9}}\n"
        for i in range(500)
    )
    fabric = "{kind: rack-spine, racks: 625, hosts_per_rack: 16, spines: 8, host_rate: 1Gbit, uplink_rate: 1Gbit}"
    with within(10):
        loaded = parse_scenario(f"name: x\nfabric: {fabric}\njobs:\n{jobs}".encode(), "big.yaml")
    assert len({host for job in loaded.jobs() for host in job.hosts}) == 10_000
