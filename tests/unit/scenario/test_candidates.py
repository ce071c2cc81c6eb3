"""Candidate placements: as many as there are GPUs for, and never a GPU twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.scenario import Scenario, parse_scenario
from harmonics_emu.scenario.candidates import candidate_placements

COMPUTE = {"iteration": "75ms"}


def scenario(racks: int, hosts: int, gpus: int, jobs: list[dict[str, Any]], **more: Any) -> Scenario:
    fabric = {"kind": "rack-spine", "racks": racks, "hosts_per_rack": hosts, "spines": 1}
    fabric |= {"host_rate": "1Gbit", "uplink_rate": "1Gbit", "gpus_per_host": gpus}
    fabric |= {"intra_host_rate": "9Gbit"} if gpus > 1 else {}
    base = {"gradients": "1MB", "compute": COMPUTE, "iterations": 9}
    named = [base | job | {"name": f"job{number}"} for number, job in enumerate(jobs)]
    return parse_scenario(json.dumps({"name": "demo", "fabric": fabric, "jobs": named, **more}).encode(), "demo.yaml")


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    racks, hosts, gpus = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    share, left = draw(st.booleans()), racks * hosts * gpus
    jobs = []
    while len(jobs) < 5 and left:
        workers = draw(st.integers(1, left))
        left = left if share else left - workers
        rule = draw(st.sampled_from(["spread", "packed"]))
        jobs.append({"workers": workers, "placement": rule, "movable": draw(st.booleans())})
    return scenario(racks, hosts, gpus, jobs, share_gpus=share, seed=draw(st.integers(0, 99)))


@given(scenarios())
@settings(max_examples=80, deadline=None)
def test_candidates_are_placements_that_the_scenario_could_have(drawn: Scenario) -> None:
    found = candidate_placements(drawn, 10)
    assert found == candidate_placements(drawn, 10)
    assert found[0] == {job.name: job.hosts for job in drawn.jobs() if job.name in drawn.movable}
    assert len(found) <= (10 if drawn.movable else 1)
    assert all(first != second for index, first in enumerate(found) for second in found[:index])
    for hosts in found:
        placed = drawn.with_placement(hosts)
        # What is loaded is checked: hosts that exist, GPUs that are free, one rank a GPU.
        assert parse_scenario(placed.resolved_yaml().encode(), "placed.yaml") == placed
        assert placed.movable == ()
        for before, after in zip(drawn.jobs(), placed.jobs(), strict=True):
            assert after.ranks == before.ranks
            assert after.hosts == hosts.get(before.name, before.hosts)


def test_another_seed_draws_others() -> None:
    jobs = [{"workers": 4, "movable": True}] * 3
    first, second = (candidate_placements(scenario(4, 4, 1, jobs, seed=seed), 10) for seed in (0, 1))
    assert len(first) == len(second) == 10
    assert first[0] == second[0]
    assert first[1:] != second[1:]


def test_a_collective_that_cannot_join_its_ranks_is_not_put_there() -> None:
    """Two ranks in each of some racks, or all in one."""
    jobs = [{"workers": 4, "movable": True, "collective": "hierarchical-all-reduce"}]
    on = scenario(4, 4, 1, jobs)
    found = candidate_placements(on, 10)
    assert len(found) > 1
    for hosts in found:
        assert len(set(Counter(on.fabric().rack_of[host] for host in hosts["job0"]).values())) == 1
