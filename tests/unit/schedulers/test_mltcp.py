"""mltcp: shares grow as jobs send, and jobs that are out of step come to take turns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from harmonics_emu.emulate.run import refuse_what_is_simulated_only
from harmonics_emu.errors import UsageError
from harmonics_emu.schedulers.interface import Plan, Snapshot
from harmonics_emu.schedulers.mltcp import policy as mltcp
from harmonics_emu.simulate.engine import Options, simulate
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import communication_s, fabric, iteration_s, job
from workloads.job import Background, LinkEvent


@dataclass(frozen=True)
class Halves:
    """Weight 1 in the first half of an iteration's bytes, 3 in the second."""

    name: str = "halves"
    summary: str = "two weights"
    later: float = 3.0

    def plan(self, snapshot: Snapshot) -> Plan:
        return Plan("halves")

    def weight(self, sent: float) -> float:
        return 1.0 if sent < 0.5 else self.later


def test_shares_follow_the_weights_by_hand() -> None:
    """Both send 1 MB over 1 MB/s, job1 from 0.5 s on. Until then job0 has sent half and weighs 3 from then on: it has
    3/4 of the link, and its other half takes 2/3 s. job1 has sent 1/6 MB then, and 5/6 s more to go alone.
    """
    jobs = [job(0, compute_s=0.0, iterations=1), job(1, compute_s=0.0, iterations=1, start_s=0.5)]
    records = simulate(fabric(), jobs, Halves())
    assert records.outcomes["job0"].end_s == pytest.approx(0.5 + 2 / 3)
    assert records.outcomes["job1"].end_s == pytest.approx(2.0)


def test_weights_outlive_a_new_layout() -> None:
    """A link event lays entities out anew in the midst of it: on half the link from 0.75 s on."""
    jobs = [job(0, compute_s=0.0, iterations=1), job(1, compute_s=0.0, iterations=1, start_s=0.5)]
    slower = LinkEvent(0.75, "leaf0-spine0", "rate", 4_000_000)
    records = simulate(fabric(), jobs, Halves(), events=[slower])
    # At 0.75 s job0 has 0.5 - 0.25 * 3/4 = 0.3125 MB left, of which 3/4 of 0.5 MB/s is its share now.
    assert records.outcomes["job0"].end_s == pytest.approx(0.75 + 0.3125 / 0.375)


def test_a_job_alone_is_not_changed() -> None:
    overlapping = job(overlap=0.5, bucket_bytes=(250_000, 7, 300_001))
    for one in (job(), overlapping, job(compute_s=0.0)):
        assert iteration_s(simulate(fabric(), [one], mltcp)) == pytest.approx(iteration_s(simulate(fabric(), [one])))


def test_rate_limits_hold_whatever_the_weight() -> None:
    """Background traffic keeps within its rate beside a job whose weight changes, and the job gets all of the rest."""
    records = simulate(fabric(), [job()], mltcp, background=[Background("r0h7", "r1h7", 2_000_000)])
    assert communication_s(records) == pytest.approx([4 / 3] * 4)
    assert records.links["r0h7>leaf0"]["bytes"][-1] <= 250_000 * records.outcomes["job0"].end_s + 1


def test_jobs_out_of_step_come_to_take_turns() -> None:
    """Two equal jobs, one 5 % behind: under fair each collision lasts for ever; here they drift apart."""
    jobs = [job(0, iterations=60), job(1, iterations=60, start_s=0.1)]
    fairly, weighted = (simulate(fabric(), jobs, *policy, options=Options(sample_s=None)) for policy in ((), (mltcp,)))
    for one in jobs:
        assert np.mean(communication_s(fairly, one.name)[-10:]) > 1.8
        assert np.mean(communication_s(weighted, one.name)[-10:]) == pytest.approx(1.0, abs=0.02)
    assert weighted.links["leaf0>spine0"]["bytes"][-1] == pytest.approx(120 * 1_000_000)


def test_jobs_in_step_stay_so() -> None:
    jobs = [job(0, iterations=20), job(1, iterations=20)]
    assert iteration_s(simulate(fabric(), jobs, mltcp)) == pytest.approx([3.0] * 20)


def test_what_it_can_not_do_is_refused() -> None:
    with pytest.raises(UsageError, match="no option 'levels'"):
        mltcp.plan(snapshot_of(fabric(), [job()], levels=3))
    with pytest.raises(UsageError, match="only the simulator can do"):
        refuse_what_is_simulated_only(mltcp)
    with pytest.raises(UsageError, match="weights must be above zero"):
        simulate(fabric(), [job()], Halves(later=0.0))
    with pytest.raises(UsageError, match="simulate it with whole collectives"):
        simulate(fabric(), [replace(job(), iterations=1)], mltcp, options=Options(granularity="flow"))
