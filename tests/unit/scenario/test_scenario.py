"""What a scenario file comes to: fabric, jobs in emulated bytes, and a resolved file that says the same again."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.errors import UsageError
from harmonics_emu.scenario import Scenario, ScenarioError, load_scenario, parse_scenario
from harmonics_emu.scenario.estimate import estimate_alone
from topologies.rack_spine import rack_spine
from workloads.job import Background, LinkEvent, RankEvent, RestartEvent
from workloads.models import find_model

EXAMPLE = """
name: vision-and-text
fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 4, spines: 1, host_rate: 1Gbit, uplink_rate: 500Mbit}
scale: {rate: 1/100}            # real links are 100x faster
jobs:
  - {name: vision, model: vgg16, workers: 4, placement: spread, program: ddp, compute: {iteration: 75ms}, iterations: 120}
  - {name: text, model: gpt2, workers: 4, placement: [r0h2, r0h3, r1h2, r1h3], program: ddp, compute: {iteration: 420ms}, iterations: 40, start: 2s, weight: 1}
policy: {name: harmonics, epoch: 2s}
background: [{from: r0h0, to: r1h3, rate: 50Mbit}]
capture: [leaf0-spine0]
events: [{at: 14s, link: leaf0-spine0, action: up}, {at: 10s, link: leaf0-spine0, action: down}]
"""  # noqa: E501


def scenario(**changes: Any) -> Scenario:
    """A small scenario with other values for some of its keys, written as JSON, which is YAML too."""
    data = {
        "name": "demo",
        "fabric": {"kind": "dumbbell", "hosts_per_side": 2, "host_rate": "400Mbit", "uplink_rate": "200Mbit"},
        "jobs": [{"name": "a", "model": "vgg16", "workers": 2, "iterations": 9}],
    }
    return parse_scenario(json.dumps(data | changes, ensure_ascii=False).encode(), "demo.yaml")


def test_the_format_that_the_documentation_shows() -> None:
    loaded = parse_scenario(EXAMPLE.encode(), "example.yaml")
    assert loaded.fabric() == rack_spine(2, 4, 1, 10**9, 500 * 10**6)
    vision, text = loaded.jobs()
    assert (vision.name, vision.index, vision.hosts) == ("vision", 0, ("r0h0", "r0h1", "r1h0", "r1h1"))
    assert (text.hosts, text.start_s, text.weight) == (("r0h2", "r0h3", "r1h2", "r1h3"), 2.0, 1.0)
    assert (text.compute_s, text.iterations, text.warmup, text.level) == (0.42, 40, 1, None)
    assert (loaded.policy, loaded.policy_options) == ("harmonics", {"epoch": "2s"})
    assert loaded.background() == (Background("r0h0", "r1h3", 50_000_000),)
    assert loaded.events() == (LinkEvent(10.0, "leaf0-spine0", "down"), LinkEvent(14.0, "leaf0-spine0", "up"))
    assert (loaded.rank_events(), loaded.restarts()) == ((), ())
    assert (loaded.scale, loaded.seed, loaded.capture) == (Fraction(1, 100), 0, ("leaf0-spine0",))


def test_events_of_ranks_and_daemons() -> None:
    events = [
        {"at": "9s", "action": "restart", "daemon": "switches"},
        {"at": "3s", "action": "slow", "job": "a", "factor": 3, "for": "10s"},
        {"at": "4s", "action": "stop", "job": "a", "rank": 1},
        {"at": "1s", "action": "down", "link": "leaf0-leaf1"},
    ]
    loaded = scenario(events=events)
    assert [event.action for event in loaded.events()] == ["down"]
    assert loaded.rank_events() == (
        RankEvent(3.0, "a", "slow", (0, 1), 3.0),
        RankEvent(4.0, "a", "stop", (1,)),
        RankEvent(13.0, "a", "slow", (0, 1), 1.0),
    )
    assert loaded.restarts() == (RestartEvent(9.0, "switches"),)
    assert parse_scenario(loaded.resolved_yaml().encode(), "resolved.yaml") == loaded


def test_bytes_shrink_by_the_scale_bucket_by_bucket() -> None:
    (job,) = scenario(scale={"rate": "1/500"}).jobs()
    real = find_model("vgg16").bucket_bytes("fp32")
    assert job.compute_s == find_model("vgg16").compute_s["v100-batch16"]
    assert len(job.bucket_bytes) == len(real)
    for scaled, size in zip(job.bucket_bytes, real, strict=True):
        assert scaled % 4 == 0
        assert abs(scaled - size / 500) <= 2
    (tiny,) = scenario(
        scale={"rate": "1/1000000"},
        jobs=[{"name": "a", "program": "allreduce", "sizes": ["8B", "1MB", "8MB"], "workers": 2, "iterations": 9}],
    ).jobs()
    assert tiny.bucket_bytes == (4, 4, 8)


def test_gradients_are_cut_into_buckets() -> None:
    job = {"name": "a", "gradients": "60MiB", "workers": 2, "iterations": 9, "compute": {"iteration": "1s"}}
    assert scenario(jobs=[job]).jobs()[0].bucket_bytes == (25 * 2**20, 25 * 2**20, 10 * 2**20)
    assert scenario(jobs=[job | {"bucket": "60MiB"}]).jobs()[0].bucket_bytes == (60 * 2**20,)


def test_gpu_chooses_the_compute_time() -> None:
    job = {"name": "a", "model": "vgg16", "gpu": "p100-batch64", "workers": 2, "iterations": 9}
    assert scenario(jobs=[job]).jobs()[0].compute_s == find_model("vgg16").compute_s["p100-batch64"]


PROGRAMS: list[tuple[dict[str, object], tuple[int, ...], str, float]] = [
    ({"program": "ps", "gradients": "3MB", "servers": 2}, (3_000_000,), "parameter-server", 0.0),
    ({"program": "hierarchical", "gradients": "3MB"}, (3_000_000,), "hierarchical-all-reduce", 0.0),
    ({"program": "fsdp", "gradients": "30MB", "layers": 3}, (10_000_000,) * 9, "all-gather", 0.0),
    ({"program": "fsdp", "gradients": "30MB", "bucket": "20MB"}, (20, 10, 10, 10, 20, 20), "all-gather", 0.0),
    ({"program": "tensor", "activations": "2MB", "layers": 3}, (2_000_000,) * 12, "ring-all-reduce", 0.0),
    ({"program": "moe", "activations": "2MB", "layers": 1}, (2_000_000,) * 4, "all-to-all", 0.0),
    ({"program": "pipeline", "activations": "2MB"}, (2_000_000,), "pipeline", 0.0),
    ({"program": "pipeline", "activations": "2MB", "gradients": "12MB"}, (2_000_000,), "pipeline", 0.0),
    (
        {"program": "pipeline", "activations": "2MB", "gradients": "12MB", "stages": 2},
        (2_000_000, 6_000_000),
        "pipeline",
        0.75,
    ),
]


@pytest.mark.parametrize(("fields", "buckets", "collective", "in_stages"), PROGRAMS)
def test_what_each_program_sends(
    fields: dict[str, object], buckets: tuple[int, ...], collective: str, in_stages: float
) -> None:
    loaded = scenario(jobs=[{"name": "a", "workers": 4, "iterations": 9, "compute": {"iteration": "1s"}} | fields])
    (job,) = loaded.jobs()
    if buckets[0] < 1000:
        buckets = tuple(size * 10**6 for size in buckets)
    assert (job.bucket_bytes, job.collective, job.in_stages) == (buckets, collective, in_stages)
    assert (job.overlap, job.between_compute) == (fields["program"] == "fsdp", fields["program"] in ("tensor", "moe"))
    assert parse_scenario(loaded.resolved_yaml().encode(), "again.yaml") == loaded


def test_command_jobs() -> None:
    job = {"name": "a", "program": {"command": ["python", "train.py"]}, "placement": ["r1h0", "r0h0"], "iterations": 9}
    (loaded,) = scenario(jobs=[job]).jobs()
    assert (loaded.program, loaded.command, loaded.hosts) == ("command", ("python", "train.py"), ("r1h0", "r0h0"))


@pytest.mark.parametrize(
    "fabric",
    [
        {
            "kind": "rack-spine",
            "racks": 2,
            "hosts_per_rack": 4,
            "spines": 2,
            "host_rate": "1Gbit",
            "oversubscription": 4,
        },
        {"kind": "fat-tree", "k": 4, "rate": "1Gbit", "gpus_per_host": 2, "intra_host_rate": "10Gbit"},
        {
            "kind": "custom",
            "hosts": ["a", "b"],
            "links": [
                {"between": ["a", "s"], "rate": "1Gbit", "delay": "1ms", "loss": "0.1%"},
                {"between": ["b", "s"], "rate": "2Gbit"},
            ],
        },
    ],
)
def test_fabrics_round_trip(fabric: dict[str, Any]) -> None:
    loaded = scenario(fabric=fabric)
    again = parse_scenario(loaded.resolved_yaml().encode(), "resolved.yaml")
    assert again == loaded
    assert again.fabric() == loaded.fabric()
    if fabric["kind"] == "rack-spine":
        assert loaded.fabric().links["leaf0>spine0"].rate_bps == 500_000_000
    if fabric["kind"] == "custom":
        assert (loaded.fabric().links["a>s"].delay_s, loaded.fabric().links["s>a"].loss) == (0.001, 0.001)


text = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1)
names = text.filter(lambda name: name == name.strip() and name.isprintable())
options = st.recursive(
    st.booleans() | st.integers(-(10**17), 10**17) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    jobs = []
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        payload = draw(
            st.sampled_from([{"model": "vgg16"}, {"model": "gpt2", "precision": "fp16"}, {"gradients": "7MB"}])
        )
        start_us = draw(st.integers(0, 10**9))
        jobs.append(
            {
                "name": name,
                **payload,
                "workers": draw(st.integers(1, 4)),
                "placement": draw(st.sampled_from(["spread", "packed"])),
                "compute": {"iteration": f"{draw(st.integers(1, 10**6))}us", "overlap": draw(st.floats(0, 1))},
                "iterations": draw(st.integers(2, 10**6)),
                "start": f"{start_us}us",
                "weight": draw(st.floats(1e-3, 1e3)),
            }
        )
    return {
        "name": draw(names),
        "description": draw(text),
        "jobs": jobs,
        "share_gpus": True,
        "scale": {"rate": f"1/{draw(st.integers(1, 1000))}"},
        "policy": {
            "name": "fair",
            **draw(st.dictionaries(text.filter(lambda key: key != "name"), options, max_size=3)),
        },
        "seed": draw(st.integers(0, 2**59)),
    }


@given(files())
@settings(max_examples=50, deadline=None)
def test_resolved_files_load_to_equal_scenarios(data: dict[str, Any]) -> None:
    loaded = scenario(**data)
    again = parse_scenario(loaded.resolved_yaml().encode(), "resolved.yaml")
    assert again == loaded
    assert again.jobs() == loaded.jobs()
    assert again.resolved_yaml() == loaded.resolved_yaml()


def test_variants_change_what_they_say_and_nothing_else() -> None:
    loaded = parse_scenario(EXAMPLE.encode(), "example.yaml")
    assert loaded.with_policy("harmonics") is loaded
    assert (loaded.with_policy("fair").policy, loaded.with_policy("fair").policy_options) == ("fair", {})
    assert loaded.with_policy("fair").jobs() == loaded.jobs()
    assert loaded.with_policy("crux:levels=4").policy_options == {"levels": 4}
    assert loaded.with_policy("harmonics:levels=4").policy_options == {"epoch": "2s", "levels": 4}
    assert loaded.with_policy("harmonics:epoch=1s").policy_options == {"epoch": "1s"}
    with pytest.raises(UsageError, match="no policy is called 'unfair'; there are: fair, priority"):
        loaded.with_policy("unfair")
    assert loaded.with_seed(7).seed == 7
    with pytest.raises(UsageError, match="a seed is a number from 0 to 999999999999999999, not -1"):
        loaded.with_seed(-1)
    assert [job.iterations for job in loaded.short().jobs()] == [4, 4]
    (alone,) = loaded.alone("text", 10).jobs()
    assert (alone.name, alone.hosts, alone.iterations, alone.start_s) == ("text", loaded.jobs()[1].hosts, 10, 0.0)
    assert loaded.alone("text").jobs()[0].iterations == 40
    assert loaded.alone("text").events() == ()


def test_a_file_wins_over_a_built_in_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "four-tenants").mkdir()
    assert load_scenario("four-tenants").name == "four-tenants"
    (tmp_path / "two-tenants").write_text(EXAMPLE)
    assert load_scenario("two-tenants").name == "vision-and-text"
    assert load_scenario(tmp_path / "two-tenants").name == "vision-and-text"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("two-tenant", "'two-tenant' is neither a file nor a built-in scenario; hint: did you mean 'two-tenants'?"),
        ("/", "/ is a directory; hint: name a scenario file or a built-in scenario"),
        ("/dev/zero", "/dev/zero is no regular file; hint: name a scenario file or a built-in scenario"),
        ("a\0b", r"'a\\x00b' is neither a file nor a built-in scenario"),
        ("x" * 300, r"x\.\.\. can't be read: File name too long"),
    ],
)
def test_what_is_no_scenario_file(path: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        load_scenario(path)


ALONE = {
    "two-tenants": [(0.0664, 0.470), (0.0664, 0.470)],
    "vision-and-text": [(0.1328, 0.639), (0.1195, 0.222)],
    "four-tenants": [(0.1328, 0.639), (0.1379, 0.610), (0.1051, 0.386), (0.1195, 0.222)],
}
"""Seconds of communication and duty cycle, by hand: 1.5 times the gradients over an uplink, compute from the trace."""


@pytest.mark.parametrize("name", sorted(ALONE))
def test_built_in_scenarios(name: str) -> None:
    loaded = load_scenario(name)
    assert loaded.name == name
    assert parse_scenario(loaded.resolved_yaml().encode(), "resolved.yaml") == loaded
    fabric = loaded.fabric()
    for job, (communication_s, duty_cycle) in zip(loaded.jobs(), ALONE[name], strict=True):
        alone = estimate_alone(fabric, job)
        assert alone.communication_s == pytest.approx(communication_s, rel=2e-3)
        assert alone.duty_cycle == pytest.approx(duty_cycle, abs=2e-3)
        assert alone.bottleneck is not None
        assert "spine" in alone.bottleneck
        assert {fabric.rack_of[host] for host in job.hosts} == set(range(len(fabric.leaves)))


def offset_jobs(*starts: str) -> list[dict[str, Any]]:
    job = {"gradients": "1MB", "compute": {"iteration": "100ms"}, "workers": 1, "iterations": 9}
    return [job | {"name": f"job{index}", "start": start} for index, start in enumerate(starts)]


@given(st.integers(0, 10**6), st.lists(st.sampled_from(["0s", "2s", "5s"]), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_offsets_are_drawn_by_seed(seed: int, starts: list[str]) -> None:
    loaded = scenario(jobs=offset_jobs(*starts), offsets="1.5s", seed=seed)
    wanted = [float(start[:-1]) for start in starts]
    found = [job.start_s for job in loaded.jobs()]
    assert all(start <= drawn < start + 1.5 for start, drawn in zip(wanted, found, strict=True))
    assert min(found) == min(wanted)
    assert parse_scenario(loaded.resolved_yaml().encode(), "resolved.yaml").jobs() == loaded.jobs()
    again = loaded.with_seed(seed + 1).with_seed(seed)
    assert again.jobs() == loaded.jobs()
    assert loaded.alone(loaded.jobs()[-1].name).jobs()[0].start_s == 0


def test_another_seed_draws_other_offsets() -> None:
    loaded = scenario(jobs=offset_jobs("0s", "0s"), offsets="1s")
    starts = [[job.start_s for job in loaded.with_seed(seed).jobs()] for seed in range(400)]
    gaps = [second - first for first, second in starts]
    assert len(set(gaps)) == 400
    assert abs(sum(gaps) / 400) < 0.1
    assert {0.0} == {job.start_s for job in scenario(jobs=offset_jobs("0s", "0s")).jobs()}


def test_offsets_contradict_a_worst_case() -> None:
    with pytest.raises(ScenarioError, match="offsets: given, but worst_case says that jobs start in step"):
        scenario(offsets="1s", worst_case=True)
    assert scenario(offsets="0s", worst_case=True).worst_case


OWN_MODELS = """
name: own
fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 1, host_rate: 1Gbit, uplink_rate: 500Mbit}
models:
- {name: mine, tensors: [1000, 2000000, 300], compute: {a100: 120ms, v100: 300ms}, source: measured on my desk}
- {name: sized, parameters: 30000000}
jobs:
- {name: a, model: mine, workers: 2, iterations: 10}
- {name: b, model: mine, gpu: v100, precision: fp16, workers: 1, iterations: 10}
- {name: c, model: sized, compute: {iteration: 50ms}, workers: 1, iterations: 10}
"""


def test_models_of_the_scenarios_own() -> None:
    scenario = parse_scenario(OWN_MODELS.encode(), "own.yaml")
    a, b, c = scenario.jobs()
    assert (a.bucket_bytes, a.compute_s, a.model) == ((8_001_200, 4000), 0.12, "mine")
    assert (b.bytes, b.compute_s) == (2 * 2_001_300, 0.3)
    assert c.bytes == 4 * 30_000_000
    assert len(c.bucket_bytes) == 6
    assert parse_scenario(scenario.resolved_yaml().encode(), "again.yaml") == scenario


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("name: mine", "name: vgg16"), r"models\[0\].name: there is a model 'vgg16' already"),
        (("name: sized", "name: mine"), r"models\[1\].name: there is a model 'mine' already"),
        (
            ("parameters: 30000000", "parameters: 3, tensors: [3]"),
            r"models\[1\].parameters: given together with tensors",
        ),
        ((", parameters: 30000000", ""), r"models\[1\].parameters: missing"),
        (("[1000,", "[0,"), r"models\[0\].tensors\[0\]: must be at least 1, not 0"),
        (("a100: 120ms", "a100: 120"), r"models\[0\].compute.a100: 120 has no unit"),
        (("source:", "sauce:"), r"models\[0\].sauce: unknown key; hint: did you mean 'source'"),
        (("gpu: v100", "gpu: v10"), r"jobs\[1\].gpu: the catalogue has no compute time of mine on 'v10'"),
        (("model: sized, compute: {iteration: 50ms}", "model: sized"), r"jobs\[2\].compute: has no iteration time"),
        (("model: sized", "model: size"), r"jobs\[2\].model: the catalogue has no model 'size'; hint: .* 'sized'"),
    ],
)
def test_mistakes_in_models_of_the_scenarios_own(change: tuple[str, str], why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        parse_scenario(OWN_MODELS.replace(*change).encode(), "own.yaml")


def test_a_model_with_estimates_alone_asks_for_one_of_them() -> None:
    text = OWN_MODELS.replace("model: sized, compute: {iteration: 50ms}", "model: resnet152")
    with pytest.raises(
        ScenarioError, match=r"only estimates; hint: .* take an estimate, as gpu: v100-batch32-estimate"
    ):
        parse_scenario(text.encode(), "own.yaml")
    chosen = parse_scenario(text.replace("resnet152", "resnet152, gpu: a100-batch32-estimate").encode(), "own.yaml")
    assert 0.01 < chosen.jobs()[2].compute_s < 0.1
