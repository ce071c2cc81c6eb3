"""varys: smallest bottleneck first, and the pace at which a job's flows end together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harmonics_emu.errors import UsageError
from harmonics_emu.schedulers.order_levels import balanced, first_ones_alone
from harmonics_emu.schedulers.registry import find_policy
from harmonics_emu.schedulers.varys import plan_varys
from harmonics_emu.simulate.engine import Options, simulate
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import communication_s, fabric, iteration_s, job


def test_four_jobs_in_two_balanced_levels() -> None:
    """The contention toy of Crux, section 4.3: jobs 1 to 4 in falling priority, two levels."""
    assert balanced(4, 2) == [1, 1, 2, 2]
    jobs = [job(number, bucket_bytes=(size,)) for number, size in enumerate((40, 10, 30, 20))]
    plan = plan_varys(snapshot_of(fabric(), jobs, levels=2))
    assert {name: own.level for name, own in plan.jobs.items()} == {"job1": 1, "job3": 1, "job2": 2, "job0": 2}


@pytest.mark.parametrize("jobs", [0, 1, 3, 7, 8, 20, 500])
@pytest.mark.parametrize("levels", [1, 2, 7])
def test_levels_follow_the_order(jobs: int, levels: int) -> None:
    """Both mappings use min(jobs, levels) levels from 1 on; balanced ones differ by one job at most."""
    for mapping in (balanced, first_ones_alone):
        found = mapping(jobs, levels)
        assert found == sorted(found)
        assert sorted(set(found)) == list(range(1, 1 + min(jobs, levels)))
    sizes = [balanced(jobs, levels).count(level) for level in set(balanced(jobs, levels))]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_the_bottleneck_counts_not_the_bytes() -> None:
    """job0 sends twice the bytes of job1, but stays in its rack, where links are fast."""
    jobs = [job(0, hosts=("r0h0", "r0h1"), bucket_bytes=(2_000_000,)), job(1)]
    plan = plan_varys(snapshot_of(fabric(), jobs))
    assert (plan.of("job0").level, plan.of("job1").level) == (1, 2)
    assert plan.facts["bottleneck_s"] == pytest.approx({"job0": 0.016, "job1": 1.0})


def test_the_rate_is_the_pace_of_the_job_alone() -> None:
    """4 ranks in a ring: 1.5 MB from each over an uplink of 1 MB/s; a parameter server's own host sends most."""
    hosts = ("r0h0", "r0h1", "r1h0", "r1h1")
    served = job(1, hosts=hosts, collective="parameter-server")
    plan = plan_varys(snapshot_of(fabric(), [job(hosts=hosts), served]))
    assert plan.of("job0").rate_bps == 8_000_000
    # 2 MB come to the server's rack and leave it: 2 s in which the server sends 3 MB, one of them within its rack.
    assert plan.of("job1").rate_bps == 12_000_000
    for granularity in ("collective", "flow"):
        for one in (job(hosts=hosts), served):
            alone, paced = (
                simulate(fabric(), [replace(one, iterations=2)], policy, options=Options(granularity=granularity))
                for policy in (find_policy("fair"), find_policy("varys"))
            )
            assert communication_s(paced, one.name) == pytest.approx(communication_s(alone, one.name), rel=1e-6)


def test_two_jobs_take_turns() -> None:
    """The second one sends what the first leaves, so that from the second iteration on neither waits."""
    records = simulate(fabric(), [job(0), job(1)], find_policy("varys"))
    assert iteration_s(records, "job0") == pytest.approx([2, 2, 2, 2])
    assert iteration_s(records, "job1") == pytest.approx([3, 2, 2, 2])


def test_jobs_that_send_nothing_are_left_alone() -> None:
    assert plan_varys(snapshot_of(fabric(), [job(bucket_bytes=())])).jobs == {}


@pytest.mark.parametrize("policy", ["varys", "sincronia", "srpt"])
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"level": 3}, "has no option 'level'; it has: epoch, levels"),
        ({"levels": 8}, "policy.levels is 8 but must be a whole number from 1 to 7"),
        ({"levels": True}, "policy.levels is True but"),
        ({"levels": "2"}, "policy.levels is '2' but"),
    ],
)
def test_options_that_can_not_be(policy: str, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        find_policy(policy).plan(snapshot_of(fabric(), [job()], **options))
    assert find_policy(policy).plan(snapshot_of(fabric(), [job()], epoch="2s", levels=1)).of("job0").level == 1
