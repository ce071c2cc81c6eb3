"""The policy crux: intensity, paths, priorities and levels, on snapshots and on the fluid engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.errors import UsageError
from harmonics_emu.scenario import load_scenario
from harmonics_emu.schedulers.crux import plan_crux, select_paths
from harmonics_emu.schedulers.interface import Snapshot
from harmonics_emu.schedulers.order_levels import MOST_LEVELS
from harmonics_emu.schedulers.registry import find_policy
from harmonics_emu.simulate.predict import predict
from harmonics_emu.simulate.run import simulate_scenario
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import MBIT, UPLINK_BPS, fabric, job
from topologies.dumbbell import dumbbell
from topologies.fabric import Fabric, hashed_path_index
from topologies.fat_tree import fat_tree
from topologies.rack_spine import rack_spine
from workloads.job import Job


def snapshot(on: Fabric, jobs: Sequence[Job], **changes: Any) -> Snapshot:
    return replace(snapshot_of(on, jobs), **changes)


def facts_of(on: Fabric, one: Job) -> dict[str, Any]:
    return plan_crux(snapshot(on, [one])).facts["jobs"][one.name]


def colliding_jobs(on: Fabric) -> list[Job]:
    """Two jobs whose hashed paths from rack 0 to rack 1 take the same one of two spines, under seed 0."""

    def spine(one: Job) -> int:
        return hashed_path_index(0, one.name, *one.hosts, len(on.paths(*one.hosts)))

    jobs = [job(number) for number in range(8)]
    second = next(one for one in jobs[1:] if spine(one) == spine(jobs[0]))
    return [jobs[0], second]


def test_intensity_is_work_over_time_on_the_worst_link() -> None:
    """Two ranks of 3 s; 1 MB at 1 MB/s on the uplink, where host links are faster."""
    facts = facts_of(fabric(), job(compute_s=3.0))
    assert (facts["work"], facts["communication_s"], facts["intensity"]) == pytest.approx((6.0, 1.0, 6.0))


def test_a_job_spreads_its_own_transfers() -> None:
    """Both hops of this ring that leave a rack would take 2 s of one uplink; by two spines each takes 1.5 s of one."""
    ring = job(hosts=("r0h0", "r1h0", "r0h1", "r1h1"))
    assert facts_of(fabric(spines=1), ring)["communication_s"] == pytest.approx(3.0)
    assert facts_of(fabric(spines=2), ring)["communication_s"] == pytest.approx(1.5)


def test_jobs_choose_paths_in_falling_intensity() -> None:
    """Three jobs and two spines: the two that are worth most have a spine each, the third joins the one used less."""
    light, heavy = job(0, compute_s=1.0), job(1, compute_s=5.0, bucket_bytes=(2_000_000,))
    most = job(2, compute_s=9.0)
    chosen = select_paths(snapshot(fabric(spines=2), [light, heavy, most]))
    assert [one.state.job.name for one in chosen] == ["job2", "job1", "job0"]
    spine = {
        one.state.job.name: one.routing.paths["r0h" + one.state.job.name[-1], "r1h" + one.state.job.name[-1]][1]
        for one in chosen
    }
    assert spine["job2"] != spine["job1"]
    assert spine["job0"] == spine["job2"]


def test_priority_goes_to_intensity_below_the_level_of_acknowledgements() -> None:
    plan = plan_crux(snapshot(fabric(), [job(0, compute_s=1.0), job(1, compute_s=5.0)]))
    assert (plan.of("job1").level, plan.of("job0").level) == (1, 2)


def test_levels_keep_apart_what_shares_a_link() -> None:
    """The paper's toy case on a fabric: jobs 0 and 1 share one pair of racks, jobs 2 and 3 another one."""
    racks = rack_spine(4, 2, 1, 1000 * MBIT, UPLINK_BPS)
    jobs = [
        job(number, hosts=(f"r{rack}h{host}", f"r{rack + 1}h{host}"), compute_s=compute_s)
        for number, (rack, host, compute_s) in enumerate([(0, 0, 90.0), (0, 1, 3.0), (2, 0, 60.0), (2, 1, 2.0)])
    ]
    plan = plan_crux(snapshot(racks, jobs, options={"levels": 2}))
    assert [plan.of(one.name).level for one in jobs] == [1, 2, 1, 2]
    assert plan.facts["cut_weight"] == plan.facts["total_weight"]


def test_paths_avoid_links_that_are_down() -> None:
    jobs = [job(number) for number in range(3)]
    plan = plan_crux(snapshot(fabric(spines=2), jobs, links_down=frozenset({"spine0>leaf1"})))
    for one in jobs:
        assert plan.of(one.name).paths[one.hosts][1:3] == ("leaf0>spine1", "spine1>leaf1")


def test_jobs_that_send_nothing_are_left_alone() -> None:
    jobs = [job(0, hosts=("r0h0",)), job(1, bucket_bytes=()), job(2)]
    assert list(plan_crux(snapshot(fabric(), jobs)).jobs) == ["job2"]
    cut_off = frozenset({"leaf0>spine0", "leaf1>spine0"})
    assert not plan_crux(snapshot(fabric(), jobs, links_down=cut_off)).jobs
    assert not plan_crux(snapshot(fabric(), [])).jobs


def test_compute_free_jobs_come_last() -> None:
    plan = plan_crux(snapshot(fabric(), [job(0, compute_s=0.0), job(1, compute_s=0.1)]))
    assert plan.of("job0").level > plan.of("job1").level


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"level": 3}, "no option 'level'; it has: epoch, levels"),
        ({"levels": 8}, "policy.levels is 8 but must be a whole number from 1 to 7"),
        ({"levels": 0}, "policy.levels is 0 but"),
        ({"levels": "3"}, "policy.levels is '3' but"),
        ({"levels": True}, "policy.levels is True but"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        plan_crux(snapshot(fabric(), [job()], options=options))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    on = draw(
        st.one_of(
            st.builds(
                rack_spine,
                st.integers(1, 4),
                st.integers(1, 4),
                st.integers(1, 4),
                st.just(100 * MBIT),
                st.sampled_from([10 * MBIT, 1000 * MBIT]),
            ),
            st.builds(dumbbell, st.integers(1, 4), st.just(100 * MBIT), st.just(10 * MBIT)),
            st.just(fat_tree(4, 100 * MBIT)),
        )
    )
    host = st.sampled_from([one.name for one in on.hosts])
    jobs = [
        job(
            number,
            hosts=tuple(draw(st.lists(host, min_size=1, max_size=6))),
            compute_s=draw(st.floats(0, 10)),
            overlap=draw(st.floats(0, 1)),
            bucket_bytes=tuple(draw(st.lists(st.integers(0, 10**9), max_size=2))),
        )
        for number in range(draw(st.integers(0, 10)))
    ]
    down = draw(st.frozensets(st.sampled_from(sorted(on.links)), max_size=2))
    options = {"levels": draw(st.integers(1, MOST_LEVELS))}
    return snapshot(on, jobs, links_down=down, options=options, seed=draw(st.integers(0, 99)))


@settings(max_examples=60)
@given(snapshots())
def test_plans_are_valid_and_repeatable(drawn: Snapshot) -> None:
    plan = plan_crux(drawn)
    assert plan_crux(drawn) == plan
    for own in plan.jobs.values():
        assert 1 <= own.level <= drawn.options["levels"]
        for (src, dst), path in own.paths.items():
            assert path in drawn.fabric.paths(src, dst)
            assert drawn.links_down.isdisjoint(path)
    priority = {name: facts["priority"] for name, facts in plan.facts.get("jobs", {}).items()}
    users: dict[str, set[str]] = {}
    for one in select_paths(drawn):
        for link in one.routing.link_s:
            users.setdefault(link, set()).add(one.state.job.name)
    for names in users.values():
        for higher in names:
            for lower in names:
                if priority[higher] > priority[lower]:
                    assert plan.of(higher).level <= plan.of(lower).level


def test_path_choice_undoes_a_hash_collision() -> None:
    """Both jobs fill the same spine by hash and take 3 s an iteration; on a spine each they take 2 s, as if alone."""
    on = fabric(spines=2)
    jobs = colliding_jobs(on)
    assert predict(on, jobs)["job0"].iteration_s == pytest.approx(3.0)
    found = predict(on, jobs, find_policy("crux"))
    assert [found[one.name].iteration_s for one in jobs] == pytest.approx([2.0, 2.0])


def test_four_tenants_lose_most_of_their_contention() -> None:
    """Beside fair's S of about 1.77, 1 being no contention."""
    scenario = load_scenario("four-tenants")
    fair, crux = (simulate_scenario(scenario.with_policy(name)).cluster.S for name in ("fair", "crux"))
    assert fair is not None
    assert crux is not None
    assert crux - 1 < 0.3 * (fair - 1)
