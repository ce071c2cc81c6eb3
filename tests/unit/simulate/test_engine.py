"""The engine on cases that can be worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.errors import RunFailed, UsageError
from harmonics_emu.records import Records
from harmonics_emu.scenario.estimate import estimate_alone
from harmonics_emu.schedulers.fair import policy as fair
from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan, Snapshot
from harmonics_emu.simulate.engine import Options, simulate
from tests.unit.simulate.cases import (
    always,
    communication_s,
    fabric,
    iteration_s,
    job,
    levels,
    watching,
)
from topologies.rack_spine import rack_spine
from workloads.job import Background, Event, LinkEvent, RankEvent


def test_a_job_alone_computes_then_sends() -> None:
    records = simulate(fabric(), [job()])
    assert iteration_s(records) == pytest.approx([2.0] * 4)
    assert records.iterations["job0"]["start_s"].tolist() == pytest.approx([0, 2, 4, 6])
    assert (records.outcomes["job0"].status, records.outcomes["job0"].end_s) == ("done", pytest.approx(8))


def test_compute_between_buckets_stands_still_while_one_is_sent() -> None:
    """Four stretches of 0.25 s, each with 0.25 MB after it: alone 2 s. In step with its like, the links are halved
    while both send: 0.25 s of compute and 0.5 s of sending four times over. A gate holds the first bucket, and all
    that comes after it.
    """
    parts = {"bucket_bytes": (250_000,) * 4, "between_compute": True}
    alone = simulate(fabric(), [job(**parts)])
    assert iteration_s(alone) == pytest.approx([2.0] * 4)
    assert alone.iterations["job0"]["compute_s"] == pytest.approx([1.0] * 4)
    assert estimate_alone(fabric(), job(**parts)).iteration_s == pytest.approx(2.0)
    both = simulate(fabric(), [job(0, **parts), job(1, **parts)])
    assert iteration_s(both, "job1") == pytest.approx([3.0] * 4)
    gated = simulate(fabric(), [job(**parts, iterations=1)], always(job0=JobPlan(starts_s=(0.75,))))
    (row,) = gated.iterations["job0"]
    assert (row["gate_s"], row["compute_s"], row["end_s"]) == pytest.approx((0.5, 1.0, 2.5))


def test_buckets_between_compute_leave_the_link_to_others_meanwhile() -> None:
    """Two jobs, one of which comes 0.25 s later: each sends while the other computes, so neither waits."""
    parts = {"bucket_bytes": (250_000,) * 4, "between_compute": True}
    apart = simulate(fabric(), [job(0, **parts), job(1, **parts, start_s=0.25)])
    assert iteration_s(apart, "job0") == pytest.approx([2.0] * 4)
    assert iteration_s(apart, "job1") == pytest.approx([2.0] * 4)


@pytest.mark.parametrize(("n", "training", "communication"), [(2, 33, 50), (3, 40, 67), (4, 43, 75), (8, 47, 88)])
def test_equal_jobs_in_step_gain_what_can_be_gained(n: int, training: int, communication: int) -> None:
    """n jobs with d = c / (n - 1): under priorities they end up one after the other and nobody waits any more."""
    jobs = [job(number, compute_s=n - 1.0, iterations=300) for number in range(n)]
    unsampled = Options(sample_s=None)
    together, apart = (simulate(fabric(), jobs, policy, options=unsampled) for policy in (fair, levels(jobs)))
    for one in jobs:
        fair_s, planned_s = (records.outcomes[one.name].end_s for records in (together, apart))
        assert 1 - planned_s / fair_s == pytest.approx(training / 100, abs=0.01)
        waits = [np.mean(communication_s(records, one.name)[1:]) for records in (together, apart)]
        assert 1 - waits[1] / waits[0] == pytest.approx(communication / 100, abs=0.01)


def test_two_tenants() -> None:
    """Two VGG-16 over a shared 100 Gbit/s uplink, in step: S is 1.47 under fair and 1.00 under priority."""
    wide = rack_spine(2, 4, 1, host_rate_bps=400 * 10**9, uplink_rate_bps=100 * 10**9)
    jobs = [
        job(
            number,
            hosts=tuple(f"r{rack}h{2 * number + side}" for rack in (0, 1) for side in (0, 1)),
            compute_s=0.075,
            bucket_bytes=(553_430_176,),
            iterations=200,
        )
        for number in (0, 1)
    ]
    alone = simulate(wide, jobs[:1])
    assert communication_s(alone) == pytest.approx([0.0664] * 200, abs=5e-5)
    for policy, slowdown in ((fair, 1.47), (levels(jobs), 1.0)):
        records = simulate(wide, jobs, policy)
        ends = [records.outcomes[one.name].end_s for one in jobs]
        assert np.mean(ends) / alone.outcomes["job0"].end_s == pytest.approx(slowdown, abs=0.005)


@pytest.mark.parametrize(
    ("policy", "vision", "text"),
    [(fair, 1.12, 1.14), (always(job0=JobPlan(level=1), job1=JobPlan(level=0)), 1.19, 1.0)],
)
@pytest.mark.parametrize("granularity", ["collective", "flow"])
def test_vision_and_text(policy: Any, vision: float, text: float, granularity: Any) -> None:
    """VGG-16 and GPT-2 over a shared 50 Gbit/s uplink."""
    wide = rack_spine(2, 4, 1, host_rate_bps=400 * 10**9, uplink_rate_bps=50 * 10**9)
    hosts = [tuple(f"r{rack}h{2 * number + side}" for rack in (0, 1) for side in (0, 1)) for number in (0, 1)]
    jobs = [
        job(0, hosts=hosts[0], compute_s=0.075, bucket_bytes=(553_430_176,), iterations=120),
        job(1, hosts=hosts[1], compute_s=0.419, bucket_bytes=(4 * 124_439_808,), iterations=40),
    ]
    records = simulate(wide, jobs, policy, options=Options(granularity=granularity))
    for one, slowdown in zip(jobs, (vision, text), strict=True):
        alone = simulate(wide, [one]).outcomes[one.name].end_s
        assert records.outcomes[one.name].end_s / alone == pytest.approx(slowdown, abs=0.005)


def test_overlap_hides_buckets_behind_compute() -> None:
    """Buckets of 0.25 s ready at 0.5, 0.75 and 1 s: two are sent by the time the last is ready."""
    records = simulate(fabric(), [job(overlap=0.5, bucket_bytes=(250_000,) * 3)])
    assert iteration_s(records) == pytest.approx([1.25] * 4)


def test_buckets_queue_behind_a_slow_network() -> None:
    """Buckets of 1 s ready at 0, 0.5 and 1 s: the network never pauses."""
    records = simulate(fabric(), [job(overlap=1.0, bucket_bytes=(1_000_000,) * 3)])
    assert iteration_s(records) == pytest.approx([3.0] * 4)


def test_gates_hold_collectives_until_their_start_times() -> None:
    """Ready at 1 s, held to 1.5 s; ready at 3.5 s, after its start time; then ungated."""
    records = simulate(fabric(), [job(iterations=3)], always(job0=JobPlan(starts_s=(1.5, 2.0))))
    rows = records.iterations["job0"]
    assert rows["gate_s"].tolist() == pytest.approx([0.5, 0, 0])
    assert rows["end_s"].tolist() == pytest.approx([2.5, 4.5, 6.5])


def test_start_times_that_can_hold_nobody_are_left_out_of_the_plan() -> None:
    policy = always(job0=JobPlan(starts_s=(0.0, 4.5, 0.0, -1.0)), job1=JobPlan(starts_s=(0.0, 1.0)))
    records = simulate(fabric(), [job(), job(1, start_s=2.0)], policy)
    first, later = (decision.plan["jobs"] for decision in records.decisions[:2])
    assert first["job0"]["starts_s"] == [0.0, 4.5]
    assert later["job1"]["starts_s"] == []


def test_a_new_plan_replaces_the_start_that_a_job_waits_for() -> None:
    def plan(snapshot: Snapshot) -> Plan:
        start = 9.0 if snapshot.time_s == 0 else 1.7
        return Plan("p", {state.job.name: JobPlan(starts_s=(start,)) for state in snapshot.jobs})

    records = simulate(fabric(), [job(iterations=1), job(1, start_s=1.5)], watching([], plan))
    assert records.iterations["job0"]["gate_s"].tolist() == pytest.approx([0.7])


def test_rate_caps_are_per_host() -> None:
    """Each host may send 0.5 MB/s, so 1 MB takes 2 s, flow by flow or as a collective."""
    capped = always(job0=JobPlan(rate_bps=4_000_000))
    for granularity in ("collective", "flow"):
        records = simulate(fabric(), [job()], capped, options=Options(granularity=granularity))
        assert communication_s(records) == pytest.approx([2.0] * 4)


def test_planned_paths_keep_jobs_apart() -> None:
    """On two spines, two jobs that are both sent through one get half each; apart, all."""
    two = fabric(spines=2)
    jobs = [job(0), job(1)]
    for spines, expected in (((0, 0), 2.0), ((0, 1), 1.0)):
        plans = {
            one.name: JobPlan(paths={pair: two.paths(*pair)[spine] for pair in (one.hosts, one.hosts[::-1])})
            for one, spine in zip(jobs, spines, strict=True)
        }
        assert communication_s(simulate(two, jobs, always(**plans))) == pytest.approx([expected] * 4)


def test_background_takes_its_capped_share() -> None:
    """A quarter of the uplink goes to background traffic one way, so a ring's slower direction has three quarters."""
    records = simulate(fabric(), [job()], background=[Background("r0h7", "r1h7", 2_000_000)])
    assert communication_s(records) == pytest.approx([4 / 3] * 4)
    carried = records.links["r0h7>leaf0"]
    assert carried["bytes"][-1] == pytest.approx(250_000 * carried["time_s"][-1], abs=1)


def test_ranks_of_one_host_meet_on_its_own_link() -> None:
    """A ring of two hosts with two GPUs each: every hop carries 1.5 MB, inside hosts at 0.5 MB/s, between them at 1."""
    small = rack_spine(2, 1, 1, 10**9, 8_000_000, gpus_per_host=2, intra_host_bps=4_000_000)
    hosts = ("r0h0", "r0h0", "r1h0", "r1h0")
    for granularity in ("collective", "flow"):
        records = simulate(small, [job(hosts=hosts)], options=Options(granularity=granularity))
        assert communication_s(records) == pytest.approx([3.0] * 4)
    roomy = replace(small, intra_host_bps=10**12)
    assert communication_s(simulate(roomy, [job(hosts=hosts)])) == pytest.approx([1.5] * 4)


def test_link_counters_are_the_rates_integral() -> None:
    records = simulate(fabric(), [job(iterations=2)], options=Options(sample_s=0.5))
    uplink = records.links["leaf0>spine0"]
    assert uplink["time_s"].tolist() == pytest.approx([0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4])
    assert uplink["bytes"].tolist() == [0, 0, 0, 500_000, 1_000_000, 1_000_000, 1_000_000, 1_500_000, 2_000_000]
    assert not any(":intra" in name for name in records.links)


def test_policy_is_asked_when_jobs_and_links_come_and_go_and_each_epoch() -> None:
    seen: list[Snapshot] = []
    simulate(
        fabric(),
        [job(0, iterations=3), job(1, start_s=2.5, iterations=1)],
        watching(seen),
        events=[LinkEvent(0.5, "r0h7-leaf0", "down")],
        options=Options(epoch_s=2.0),
    )
    assert [snapshot.time_s for snapshot in seen] == pytest.approx([0, 0.5, 2, 2.5, 4, 5, 6])
    assert [len(snapshot.jobs) for snapshot in seen] == [1, 1, 1, 2, 2, 1, 1]
    assert seen[1].links_down == {"r0h7>leaf0", "leaf0>r0h7"}
    first, later = seen[0].jobs[0], seen[2].jobs[0]
    assert (first.communication_s, first.next_start_s) == (None, 0.0)
    assert (later.communication_s, later.iterations_done) == (pytest.approx(1.0), 1)
    assert later.next_start_s == pytest.approx(2.0)


def test_traffic_moves_to_another_path_when_a_link_goes_down_and_back_when_it_is_up() -> None:
    events = [LinkEvent(1.5, "leaf0-spine0", "down"), LinkEvent(3.5, "leaf0-spine0", "up")]
    two = fabric(spines=2)
    through = always(job0=JobPlan(paths={pair: two.paths(*pair)[0] for pair in (job().hosts, job().hosts[::-1])}))
    records = simulate(two, [job(iterations=2)], through, events=events)
    assert iteration_s(records) == pytest.approx([2.0] * 2)
    other_way = {name: int(rows["bytes"][-1]) for name, rows in records.links.items() if "spine" in name}
    assert other_way["leaf0>spine0"] == other_way["leaf0>spine1"] == 1_000_000


def test_a_job_without_a_path_waits_until_the_link_is_up() -> None:
    events = [LinkEvent(1.5, "leaf0-spine0", "down"), LinkEvent(4.5, "leaf0-spine0", "up")]
    assert iteration_s(simulate(fabric(), [job()], events=events)) == pytest.approx([5, 2, 2, 2])


def test_a_link_with_another_rate() -> None:
    events = [LinkEvent(1.5, "leaf0-spine0", "rate", 2_000_000)]
    assert iteration_s(simulate(fabric(), [job()], events=events))[:2] == pytest.approx([3.5, 5.0])


def test_a_straggler_holds_its_job_up_and_the_policy_learns_of_it_from_what_is_measured() -> None:
    """1 s of compute and 1 s of sending; from 1.5 to 7 s rank 1 computes three times as long, from its next one on."""
    seen: list[Snapshot] = []
    events = [RankEvent(1.5, "job0", "slow", (1,), 3.0), RankEvent(7.0, "job0", "slow", (1,), 1.0)]
    records = simulate(fabric(), [job(iterations=5)], watching(seen), events=events, options=Options(epoch_s=4.0))
    assert iteration_s(records) == pytest.approx([2, 4, 4, 2, 2])
    assert records.iterations["job0"]["compute_s"].tolist() == pytest.approx([1, 3, 3, 1, 1])
    assert [snapshot.time_s for snapshot in seen] == pytest.approx([0, 4, 8, 12])
    assert [snapshot.jobs[0].compute_s for snapshot in seen] == pytest.approx([1, 1, 3, 2])


def test_ranks_of_one_job_are_slow_each_for_itself_and_other_jobs_are_not() -> None:
    events = [RankEvent(0.0, "job0", "slow", (0,), 2.0), RankEvent(0.0, "job0", "slow", (1,), 4.0)]
    records = simulate(fabric(), [job(iterations=1), job(1, start_s=10.0, iterations=1)], events=events)
    assert iteration_s(records) == pytest.approx([5])
    assert iteration_s(records, "job1") == pytest.approx([2])


def test_a_dead_end_is_named_and_ends_the_run() -> None:
    events = [LinkEvent(1.5, "leaf0>spine0", "down")]
    near = job(1, hosts=("r0h1", "r0h2"), compute_s=3.0)
    records = simulate(fabric(), [job(), near], events=events, options=Options(epoch_s=1.0))
    failed = records.outcomes["job0"]
    assert failed.status == "failed"
    assert "no path from r0h0 to r1h0 is up (leaf0>spine0 is down)" in str(failed.error)
    assert len(records.iterations["job0"]) == 0
    assert records.outcomes["job1"].status == "done"


def test_starvation_is_named() -> None:
    """Background traffic at the default level takes the whole uplink for good."""
    hog = [Background("r0h7", "r1h7", 8_000_000)]
    records = simulate(fabric(), [job()], always(job0=JobPlan(level=7)), background=hog)
    error = str(records.outcomes["job0"].error)
    assert "starved at level 7 on leaf0>spine0, which background of earlier levels fill" in error


def test_jitter_waits_for_the_slowest_rank_the_same_under_every_policy() -> None:
    jobs = [job(number, compute_cv=0.2, iterations=600) for number in (0, 1)]
    drawn = [simulate(fabric(), jobs, policy).iterations["job0"]["compute_s"] for policy in (fair, levels(jobs))]
    assert drawn[0].tolist() == drawn[1].tolist()
    # The larger of two log-normal draws of mean 1 and this deviation is 1.113 on average.
    assert drawn[0].mean() == pytest.approx(1.113, abs=0.03)
    other_seed = simulate(fabric(), jobs, seed=1).iterations["job0"]["compute_s"]
    assert drawn[0][0] != other_seed[0]


def as_bytes(records: Records) -> list[bytes]:
    tables = [rows.tobytes() for tables in (records.iterations, records.links) for rows in tables.values()]
    plans = [repr((decision.time_s, decision.plan)) for decision in records.decisions]
    return [*tables, repr(records.outcomes).encode(), *(plan.encode() for plan in plans)]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.7]))
def test_same_seed_same_bytes(seed: int, count: int, cv: float, overlap: float) -> None:
    jobs = [
        job(number, compute_cv=cv, overlap=overlap, start_s=number / 3, bucket_bytes=(300_000,) * 3)
        for number in range(count)
    ]
    arguments = (fabric(spines=2), jobs, levels(jobs), seed, [Background("r0h7", "r1h6", 900_000)])
    assert as_bytes(simulate(*arguments)) == as_bytes(simulate(*arguments))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 3_000_000), st.integers(0, 3)), min_size=1, max_size=6))
def test_both_granularities_agree_where_every_flow_meets_the_same(jobs: list[tuple[float, int, int]]) -> None:
    """One spine: the two directions of every ring meet the same other jobs on links of the same rate."""
    specs = [job(n, compute_s=compute, bucket_bytes=(size,)) for n, (compute, size, _) in enumerate(jobs)]
    policy = always(**{f"job{n}": JobPlan(level=level) for n, (_, _, level) in enumerate(jobs)})
    one, other = (
        simulate(fabric(), specs, policy, options=Options(granularity=granularity))
        for granularity in ("collective", "flow")
    )
    for spec in specs:
        assert iteration_s(one, spec.name) == pytest.approx(iteration_s(other, spec.name), abs=1e-9)


def test_a_job_that_sends_nothing_only_computes() -> None:
    quiet = [job(0, bucket_bytes=()), job(1, bucket_bytes=(0, 0)), job(2, hosts=("r0h2",)), job(3, compute_s=0.0)]
    records = simulate(fabric(), quiet)
    for name in ("job0", "job1", "job2"):
        assert iteration_s(records, name) == pytest.approx([1.0] * 4)
    assert iteration_s(simulate(fabric(), [job(compute_s=0.0, bucket_bytes=())])) == [0.0] * 4


def test_a_million_iterations_are_all_recorded() -> None:
    records = simulate(fabric(), [job(iterations=10**6)], options=Options(sample_s=None))
    assert records.iterations["job0"].nbytes == 40 * 10**6
    assert records.outcomes["job0"].end_s == pytest.approx(2e6)


def test_link_counters_thin_out_and_stay_exact() -> None:
    """At 1 ms for 1,000 s there would be a million samples."""
    uplink = simulate(fabric(), [job(iterations=500)], options=Options(sample_s=0.001)).links["leaf0>spine0"]
    assert 5_000 <= len(uplink) <= 10_001
    into = uplink["time_s"] % 2
    expected = 1_000_000 * (uplink["time_s"] // 2 + np.maximum(0, into - 1))
    assert uplink["bytes"].tolist() == pytest.approx(expected.tolist(), abs=1)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"compute_s": math.nan}, "compute_s is nan"),
        ({"compute_s": -1.0}, "compute_s is -1.0"),
        ({"start_s": math.inf}, "start_s is inf"),
        ({"compute_cv": -0.1}, "compute_cv"),
        ({"overlap": 1.5}, "overlap is 1.5"),
        ({"bucket_bytes": (5, -5)}, "a bucket has -5 bytes"),
        ({"bucket_bytes": (math.nan,)}, "a bucket has nan bytes"),
        ({"hosts": ("r0h0", "r9h9")}, "host r9h9 is not in the fabric"),
        ({"hosts": ()}, "no ranks"),
        ({"iterations": 0}, "0 iterations"),
        ({"iterations": 10**9}, "at most 40,000,000"),
        ({"collective": "gossip"}, "no collective 'gossip'"),
    ],
)
def test_jobs_that_can_not_be_simulated(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        simulate(fabric(), [job(**changes)])
    assert complaint in str(raised.value)


def test_no_jobs_two_of_a_name_and_hosts_without_a_path() -> None:
    with pytest.raises(UsageError, match="no jobs"):
        simulate(fabric(), [])
    with pytest.raises(UsageError, match="two jobs are called 'job0'"):
        simulate(fabric(), [job(), job()])
    whole = fabric()
    cut = replace(whole, links={name: link for name, link in whole.links.items() if "spine0>leaf1" not in name})
    with pytest.raises(UsageError, match="job0: the fabric has no path from r0h0 to r1h0"):
        simulate(cut, [job()])


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        (LinkEvent(1.0, "leaf7-spine0", "down"), "no such link or cable"),
        (LinkEvent(math.nan, "leaf0-spine0", "down"), "its time must be"),
        (LinkEvent(1.0, "leaf0-spine0", "explode"), "none of down, up, rate"),
        (LinkEvent(1.0, "leaf0-spine0", "rate"), "a rate above zero"),
        (LinkEvent(1.0, "leaf0-spine0", "rate", 0), "a rate above zero"),
        (RankEvent(1.0, "job0", "kill", (0,)), "no processes that could get a signal"),
        (RankEvent(1.0, "job0", "slow", (2,), 2.0), "no such ranks"),
        (RankEvent(1.0, "job7", "slow", (0,), 2.0), "no such ranks"),
        (RankEvent(1.0, "job0", "slow", (0,), 0.5), "its factor 1 or more"),
    ],
)
def test_events_that_can_not_happen(event: Event, complaint: str) -> None:
    with pytest.raises(UsageError, match="event ") as raised:
        simulate(fabric(), [job()], events=[event])
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("plan", "complaint"),
    [
        (JobPlan(level=8), "level 8"),
        (JobPlan(level=2.5), "level 2.5"),  # type: ignore[arg-type]
        (JobPlan(rate_bps=0), "rate 0"),
        (JobPlan(starts_s=(math.nan,)), "not a finite number"),
        (JobPlan(paths={("r0h0", "r1h0"): ("r0h0>leaf0", "leaf1>r1h0")}), "no chain of links"),
    ],
)
def test_plans_that_can_not_be_carried_out(plan: JobPlan, complaint: str) -> None:
    with pytest.raises(RunFailed, match="policy always, plan at 0 s, job job0") as raised:
        simulate(fabric(), [job()], always(job0=plan))
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (None, "it is no Plan but of type NoneType"),
        (Plan("odd", facts={"model": object()}), "object is no JSON value"),
        (Plan("odd", facts={"critical_path_s": "soon"}), "'soon'"),
    ],
)
def test_answers_of_a_policy_that_are_no_plan_or_can_not_be_recorded(answer: Any, complaint: str) -> None:
    odd = FunctionPolicy("odd", "answers something else", lambda _: answer)
    with pytest.raises(RunFailed, match="policy odd, plan at 0 s: ") as raised:
        simulate(fabric(), [job()], odd)
    assert complaint in str(raised.value)


def test_facts_are_recorded_as_json_values() -> None:
    facts = {"order": np.arange(2), "score": np.float64(0.5), "gap": math.nan}
    records = simulate(fabric(), [job(iterations=1)], FunctionPolicy("f", "facts", lambda _: Plan("f", facts=facts)))
    assert records.decisions[0].plan["facts"] == {"order": [0, 1], "score": 0.5, "gap": None}


def test_background_between_hosts_that_are_not_there() -> None:
    with pytest.raises(UsageError, match="background from r0h0 to r9h0"):
        simulate(fabric(), [job()], background=[Background("r0h0", "r9h0", 1000)])


@pytest.mark.parametrize("options", [{"sample_s": 0.0}, {"epoch_s": -1.0}, {"epoch_s": math.nan}])
def test_intervals_are_above_zero(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="must be above zero"):
        Options(**options)  # type: ignore[arg-type]
