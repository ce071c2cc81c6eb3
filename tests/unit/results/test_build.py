"""Records to results: figures by hand, and what is None when something is missing."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from harmonics_emu.errors import HarmonicsError
from harmonics_emu.records import LINK_SAMPLE, JobOutcome
from harmonics_emu.results.build import build_result, isolated_from
from harmonics_emu.results.schema import Isolated, to_json
from tests.unit.results import samples
from tests.unit.results.samples import FAITHFUL, fabric, job, records, rows, steady_rows, two_ranks


def result_of(run, jobs, isolated=None):
    return build_result(run, jobs, fabric(), "two-tenants", isolated or {}, FAITHFUL)


def test_one_job_by_hand():
    alone = Isolated(iteration_s=2.5, communication_s=1.0, training_s=7.0, source="predicted")
    result = result_of(records({"vision": two_ranks()}), (job(),), {"vision": alone})
    [found] = result.jobs
    assert (found.training_s, found.slowdown, found.iterations_done) == (10.5, 1.5, 3)
    assert found.iteration_s.mean == 3.125
    assert found.communication_s.mean == 1.625
    assert found.compute_s.mean == 1.25
    assert found.straggler_s.mean == found.gate_s.mean == 0.25
    assert found.steady_iteration_s == 2.25
    assert found.isolated_source == "predicted"
    assert result.cluster.makespan_s == 10.5
    assert result.cluster.S == result.cluster.max_slowdown == 1.5
    assert result.cluster.gpu_utilization == pytest.approx(9 / 21)
    assert result.cluster.network_utilization is None


def test_training_counts_from_submission_and_makespan_from_zero():
    late = two_ranks()
    late["start_s"] += 6.0
    late["end_s"] += 6.0
    result = result_of(records({"vision": late}), (job(start_s=4.0),))
    assert result.jobs[0].training_s == 12.5
    assert result.cluster.makespan_s == 16.5


def test_slowdowns_are_weighted_by_ranks_and_tenants():
    jobs = (job("small"), job("large", hosts=("h0", "h1") * 3, weight=2.0))
    run = records({"small": steady_rows(3, 1.0, 3.0), "large": steady_rows(3, 1.0, 1.0)})
    alone = {name: samples.isolated(3, 1.0, 1.0) for name in ("small", "large")}
    result = result_of(run, jobs, alone)
    assert [found.slowdown for found in result.jobs] == [2.0, 1.0]
    slowdown = result.cluster.S
    assert slowdown == pytest.approx((2 * 2.0 + 12 * 1.0) / 14)
    assert result.cluster.max_slowdown == 2.0
    assert result.cluster.training_s == 9.0
    assert result.cluster.communication_s == 2.0


def test_a_simulated_row_stands_for_all_ranks():
    one_row = steady_rows(3, 1.0, 3.0)
    one_row = one_row[one_row["rank"] == 0]
    every_rank = result_of(records({"vision": steady_rows(3, 1.0, 3.0)}), (job(),))
    simulated = result_of(records({"vision": one_row}, engine="simulate"), (job(),))
    assert simulated.jobs[0].communication_s == every_rank.jobs[0].communication_s
    assert simulated.cluster.gpu_utilization == every_rank.cluster.gpu_utilization == 0.25


def test_network_utilization_is_over_links_that_carried_something():
    def link(*counts):
        return np.array([(time, count, 0, 0, 0.0) for time, count in enumerate(counts)], LINK_SAMPLE)

    # 12 s at 1000 bit/s is 1500 bytes.
    run = records(
        {"vision": steady_rows(3, 1.0, 3.0)},
        links={"h0>leaf0": link(0, 750), "leaf0>h0": link(0, 1500), "h1>leaf0": link(0, 0), "leaf0>h1": link()},
    )
    assert result_of(run, (job(),)).cluster.network_utilization == 0.75


def test_a_job_that_failed_keeps_what_it_did_and_leaves_means_without_a_value():
    run = records({"vision": two_ranks()[:5], "text": two_ranks()})
    run.outcomes["vision"] = JobOutcome("vision", "failed", 0.0, 9.0, "rank 1 exited with status 3")
    alone = {name: samples.isolated(3, 1.0, 1.0) for name in ("vision", "text")}
    result = result_of(run, (job("vision"), job("text")), alone)
    failed, done = result.jobs
    assert (failed.status, failed.error) == ("failed", "rank 1 exited with status 3")
    assert (failed.training_s, failed.slowdown, failed.iterations_done) == (None, None, 2)
    assert failed.iteration_s.mean == 4.0
    assert done.slowdown == 1.75
    cluster = result.cluster
    assert (cluster.training_s, cluster.communication_s, cluster.makespan_s) == (None, None, None)
    assert (cluster.S, cluster.max_slowdown) == (None, None)
    assert cluster.gpu_utilization is not None


def test_a_program_that_reports_no_iterations_has_a_training_time_all_the_same():
    run = records({"vision": two_ranks()})
    run.outcomes["script"] = JobOutcome("script", "done", 2.0, 8.0)
    result = result_of(run, (job("vision"), job("script", program="command", start_s=2.0)))
    script = result.job("script")
    assert script.training_s == 6.0
    assert script.iteration_s is script.communication_s is script.steady_iteration_s is None
    assert result.cluster.training_s == (10.5 + 6.0) / 2
    assert result.cluster.communication_s == result.job("vision").communication_s.mean


def test_only_warm_up_leaves_no_statistics():
    [found] = result_of(records({"vision": two_ranks()[:2]}), (job(iterations=1),)).jobs
    assert found.iteration_s is None
    assert found.training_s == 4.0


def test_nan_is_never_written():
    unknown = two_ranks()
    unknown["compute_s"] = np.nan
    result = result_of(records({"vision": unknown}), (job(),))
    assert result.jobs[0].compute_s is result.jobs[0].communication_s is result.cluster.gpu_utilization is None
    assert result.jobs[0].iteration_s.mean == 3.125
    assert b"NaN" not in to_json(result)
    broken = msgspec.structs.replace(result, jobs=(msgspec.structs.replace(result.jobs[0], end_s=float("nan")),))
    with pytest.raises(ValueError, match=r"jobs\[0\]\.end_s"):
        to_json(broken)


def test_decisions_are_summed_up():
    result = result_of(samples.full_records(), (job("vision"), job('odd, "name"\nof two lines')))
    scheduling = result.scheduling
    assert (scheduling.decisions, scheduling.fallbacks, scheduling.gates_failed_open) == (2, 1, 3)
    assert (scheduling.solve_s.mean, scheduling.solve_s.max, scheduling.solve_s.total) == (0.5, 0.75, 1.0)
    assert scheduling.critical_path_s.total == 0.5
    nothing = result_of(records({"vision": two_ranks()}), (job(),)).scheduling.solve_s
    assert (nothing.mean, nothing.max, nothing.total) == (None, None, 0.0)


def test_broken_records_are_named():
    with pytest.raises(HarmonicsError, match="no outcome for job 'text'"):
        result_of(records({"vision": two_ranks()}), (job("vision"), job("text")))
    with pytest.raises(HarmonicsError, match="'vision' are broken: rank 0 has iteration 0 more than once"):
        result_of(records({"vision": np.concatenate([two_ranks(), two_ranks()])}), (job(),))


def test_isolated_times_come_from_a_run_alone_that_may_be_shorter():
    short = result_of(records({"vision": steady_rows(3, 1.0, 1.0)}), (job(),))
    found = isolated_from(short, job(iterations=10))
    assert found == Isolated(iteration_s=2.0, communication_s=1.0, training_s=20.0, source="measured")
    failed = records({"vision": rows((0, 0, 0.0, 1.0, 0.0, 2.0))})
    failed.outcomes["vision"] = JobOutcome("vision", "killed", 0.0, 2.0, "the run was stopped")
    with pytest.raises(HarmonicsError, match="'vision' did not finish: the run was stopped"):
        isolated_from(result_of(failed, (job(),)), job())
