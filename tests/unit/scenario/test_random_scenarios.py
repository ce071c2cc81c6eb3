"""Random scenarios: valid, the same for the same seed, and drawn from what the module says."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.scenario import parse_scenario
from harmonics_emu.scenario.estimate import estimate_alone
from harmonics_emu.scenario.random_scenarios import MAX_HOSTS, MAX_ITERATIONS, random_name, random_scenario


@given(st.integers(0, 2**63), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_each_is_a_valid_scenario(seed: int, number: int) -> None:
    raw = random_scenario(seed, number)
    assert raw == random_scenario(seed, number)
    scenario = parse_scenario(raw, "random.yaml")
    assert scenario.name == random_name(seed, number)
    fabric, jobs = scenario.fabric(), scenario.jobs()
    assert len(fabric.hosts) <= MAX_HOSTS
    assert 2 <= len(jobs) <= 8
    assert all(job.ranks >= 2 for job in jobs)
    assert all(100 <= job.iterations <= MAX_ITERATIONS for job in jobs)
    assert min(job.start_s for job in jobs) == 0
    assert len({job.compute_cv > 0 for job in jobs}) == 1
    assert parse_scenario(scenario.resolved_yaml().encode(), "resolved.yaml") == scenario


def test_no_two_are_alike() -> None:
    files = [random_scenario(seed, number) for seed in range(3) for number in range(20)]
    assert len(set(files)) == 60


def test_many_together_cover_what_is_promised() -> None:
    drawn = [parse_scenario(random_scenario(0, number), "random.yaml") for number in range(100)]
    assert {len(scenario.fabric().leaves) for scenario in drawn} == {2, 4, 8, 16}
    assert {scenario.fabric().gpus_per_host for scenario in drawn} == {1, 2}
    jobs = [job for scenario in drawn for job in scenario.jobs()]
    assert 0.45 < sum(job.model is not None for job in jobs) / len(jobs) < 0.75
    assert 0.13 < sum(job.overlap > 0 for job in jobs) / len(jobs) < 0.37
    assert 0.3 < sum(scenario.jobs()[0].compute_cv > 0 for scenario in drawn) / len(drawn) < 0.7
    alone = [estimate_alone(scenario.fabric(), job) for scenario in drawn for job in scenario.jobs()]
    duties = sorted(estimate.duty_cycle for estimate in alone)
    tenths = duties[:: len(duties) // 10]
    assert all(later > earlier for earlier, later in pairwise(tenths[2:]))
    assert tenths[-2] - tenths[2] > 0.3
