"""What of a run speaks for or against the machine it was made on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harmonics_emu.emulate.conclude import bottlenecks, isolated_pairs
from harmonics_emu.results.schema import Isolated
from harmonics_emu.schedulers.interface import JobPlan
from topologies.rack_spine import rack_spine
from workloads.collectives import COLLECTIVES, IN_PHASES
from workloads.job import Job

JOB = Job("one", 0, "ddp", ("r0h0", "r1h0"), 10, compute_s=0.1, bucket_bytes=(1_000_000,))


def alone(iteration_s: float | None) -> Isolated:
    return Isolated(iteration_s=iteration_s, communication_s=None, training_s=None, source="measured")


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_long_time_alone_speaks_against_the_machine_unless_the_collective_goes_in_phases(collective: str) -> None:
    job = replace(JOB, collective=collective)
    pairs = isolated_pairs([job], {"one": alone(0.3)}, {"one": alone(0.2)})
    assert pairs == ({} if collective in IN_PHASES else {"one": (0.3, 0.2)})


def test_some_collectives_go_in_phases_and_the_ring_does_not() -> None:
    assert {"tree-all-reduce", "hierarchical-all-reduce", "parameter-server"} <= set(IN_PHASES) <= set(COLLECTIVES)
    assert "ring-all-reduce" not in IN_PHASES


def test_a_job_of_which_nothing_is_known_alone_is_not_judged() -> None:
    assert isolated_pairs([JOB], {}, {"one": alone(0.2)}) == {}
    assert isolated_pairs([JOB], {"one": alone(None)}, {"one": alone(0.2)}) == {}
    assert isolated_pairs([JOB], {"one": alone(0.2)}, {"one": None}) == {}


def test_bottlenecks_are_those_of_the_paths_in_force() -> None:
    fabric = rack_spine(2, 2, 2, 2 * 10**8, 10**8)
    pairs = (("r0h0", "r1h0"), ("r1h0", "r0h0"))
    plan = JobPlan(paths={pair: fabric.paths(*pair)[1] for pair in pairs})
    assert bottlenecks(fabric, [JOB], {"one": plan}, seed=0) == {
        "leaf0>spine1",
        "spine1>leaf1",
        "leaf1>spine1",
        "spine1>leaf0",
    }
