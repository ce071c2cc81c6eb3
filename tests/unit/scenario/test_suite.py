"""The built-in scenarios: what each of them says it shows is there, and all of them fit both engines."""

from __future__ import annotations

from collections import defaultdict

import pytest

from harmonics_emu.scenario import Scenario, builtin_names, load_scenario, parse_scenario
from harmonics_emu.scenario.estimate import estimate_alone
from harmonics_emu.simulate.entities import job_flows
from harmonics_emu.simulate.routing import Router
from workloads.collectives import job_transfers

IN_STEP_UNLABELLED = {"two-tenants", "vision-and-text", "four-tenants"}
"""Short ones for first steps, whose jobs all come at time zero."""
SUITE = sorted(set(builtin_names()) - IN_STEP_UNLABELLED)


def users(scenario: Scenario) -> dict[str, set[str]]:
    """The jobs on each link of the fabric, on hashed paths."""
    fabric = scenario.fabric()
    router = Router(fabric, scenario.seed)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for job in scenario.jobs():
        for flow in job_flows(job, fabric):
            if flow.src != flow.dst:
                for link in router.path(job.name, flow.src, flow.dst):
                    found[link].add(job.name)
    return found


def duties(name: str) -> list[float]:
    """The part of its time that each job of a scenario, alone, keeps its bottleneck busy."""
    scenario = load_scenario(name)
    alone = [estimate_alone(scenario.fabric(), job) for job in scenario.jobs()]
    return [estimate.communication_s / estimate.iteration_s for estimate in alone]


def test_there_are_enough() -> None:
    assert len(builtin_names()) >= 14


@pytest.mark.parametrize("name", SUITE)
def test_every_scenario_of_the_suite(name: str) -> None:
    scenario = load_scenario(name)
    fabric, jobs = scenario.fabric(), scenario.jobs()
    assert scenario.name == name
    assert parse_scenario(scenario.resolved_yaml().encode(), "resolved.yaml") == scenario
    assert len(scenario.description.splitlines()) >= 2
    alone = {job: estimate_alone(fabric, job).iteration_s for job in jobs}
    slowest = max(jobs, key=lambda job: alone[job])
    assert slowest.iterations >= 100
    assert all(job.level is not None for job in jobs)
    # The emulator's limits: ranks and links that one machine can carry.
    assert len(fabric.hosts) <= 64
    uplinks = [link.rate_bps for link in fabric.links.values() if "spine" in link.name]
    assert all(100e6 <= rate <= 200e6 for rate in uplinks)
    shared = [link for link, sharing in users(scenario).items() if len(sharing) > 1]
    assert shared or name == "link-failure"


@pytest.mark.parametrize("name", SUITE)
def test_offsets_are_drawn_unless_the_worst_case_is_meant(name: str) -> None:
    scenario = load_scenario(name)
    draws = {tuple(job.start_s for job in scenario.with_seed(seed).jobs()) for seed in range(5)}
    assert len(draws) == (1 if scenario.worst_case else 5)


def test_four_in_step_has_room_for_all() -> None:
    scenario = load_scenario("four-in-step")
    assert scenario.worst_case
    assert {job.start_s for job in scenario.jobs()} == {0.0}
    assert sum(duties("four-in-step")) < 1
    assert len(users(scenario)["leaf0>spine0"]) == 4


def test_duty_cycles_are_those_that_the_files_name() -> None:
    assert duties("three-on-one-link") == pytest.approx([0.44, 0.24, 0.125], abs=0.006)
    assert duties("overloaded-link") == pytest.approx([0.64, 0.61, 0.39], abs=0.006)
    assert duties("shared-nics") == pytest.approx([0.47, 0.44], abs=0.006)
    assert sum(duties("arrivals-and-departures")) == pytest.approx(1.39, abs=0.006)


def test_nics_are_shared_and_uplinks_have_room() -> None:
    scenario = load_scenario("shared-nics")
    fabric, found = scenario.fabric(), users(scenario)
    for host in fabric.hosts:
        assert found[f"{host.name}>{fabric.leaf_of(host.name)}"] == {"vgg16", "vgg19"}
    assert fabric.links["leaf0>spine0"].rate_bps == 2 * fabric.links["r0h0>leaf0"].rate_bps


def test_local_jobs_meet_crossing_ones_on_host_links_only() -> None:
    found = users(load_scenario("local-and-crossing"))
    assert found["leaf0>spine0"] == {"crossing-a", "crossing-b"}
    assert found["r0h0>leaf0"] == {"local-left", "crossing-a"}
    assert found["r1h3>leaf1"] == {"local-right", "crossing-b"}


def test_hashes_collide_as_often_as_the_file_says() -> None:
    scenario = load_scenario("hash-collision")
    collide = [max(map(len, users(scenario.with_seed(seed)).values())) == 2 for seed in range(160)]
    assert sum(collide) == pytest.approx(150, abs=8)


def test_a_job_without_overlap_beside_one_with_it() -> None:
    overlapped, plain = load_scenario("overlap").jobs()
    assert (overlapped.overlap > 0.5, plain.overlap) == (True, 0.0)
    assert len(overlapped.bucket_bytes) > 2


def test_jobs_come_and_go() -> None:
    for seed in range(3):
        starts = [job.start_s for job in load_scenario("arrivals-and-departures").with_seed(seed).jobs()]
        assert starts[0] == 0
        assert all(6 * place <= start < 6 * place + 1 for place, start in enumerate(starts))


def test_jitter_is_in_each_job() -> None:
    assert [job.compute_cv for job in load_scenario("jitter").jobs()] == [0.05, 0.05]


def test_sixteen_racks_hang_together() -> None:
    scenario = load_scenario("sixteen-racks")
    fabric = scenario.fabric()
    present = [{fabric.rack_of[host] for host in job.hosts} for job in scenario.jobs()]
    assert all(len(racks) == 4 for racks in present)
    assert [sum(rack in racks for racks in present) for rack in range(16)] == [3] * 16
    together = present[0]
    for _ in present:
        together = together.union(*(racks for racks in present if racks & together))
    assert together == set(range(16))


def test_a_pipeline_loads_its_middle_twice_as_much_as_its_ends() -> None:
    scenario = load_scenario("pipeline-and-data-parallel")
    assert [job.collective for job in scenario.jobs()] == ["pipeline", "ring-all-reduce", "ring-all-reduce"]
    sent = job_transfers(scenario.jobs()[0], scenario.fabric().rack_of)
    by_rack = [sum(size for (src, _), size in sent.items() if src == f"r{rack}h0") for rack in range(4)]
    assert by_rack == [by_rack[0], 2 * by_rack[0], 2 * by_rack[0], by_rack[0]]


def test_an_all_to_all_joins_all_pairs() -> None:
    scenario = load_scenario("all-to-all")
    dlrm = scenario.jobs()[0]
    assert len(job_transfers(dlrm, scenario.fabric().rack_of)) == 12
    assert len(dlrm.bucket_bytes) == 1
    assert duties("all-to-all") == pytest.approx([0.62, 0.28], abs=0.006)
