"""What is put into force when: a fake controller and fake hosts stand in for the fabric."""

from __future__ import annotations

import pytest

from harmonics_emu.emulate import decisions
from harmonics_emu.emulate.decisions import Decider
from harmonics_emu.errors import RunFailed
from harmonics_emu.schedulers.interface import FunctionPolicy, JobPlan, Plan
from harmonics_emu.schedulers.priority import policy as priority
from topologies.rack_spine import rack_spine
from workloads.job import DEFAULT_LEVEL, Job

FABRIC = rack_spine(2, 2, 1, 10**8, 10**8)
ONE = Job(name="one", index=0, program="ddp", hosts=("r0h0", "r1h0"), iterations=5, bucket_bytes=(1000,), level=1)
TWO = Job(name="two", index=1, program="ddp", hosts=("r0h0", "r1h1"), iterations=5, bucket_bytes=(1000,), level=2)


class Controller:
    """Remembers what it was asked to install."""

    def __init__(self) -> None:
        self.states = []

    def install(self, state, timeout_s):
        self.states.append(state)
        return []


@pytest.fixture
def host_levels(monkeypatch):
    changes: list[tuple[str, dict[int, int]]] = []
    monkeypatch.setattr(decisions.tc, "set_host_levels", lambda netns, levels: changes.append((netns, dict(levels))))
    return changes


def decider(policy) -> Decider:
    return Decider(FABRIC, (ONE, TWO), (), policy, {}, seed=0, controller=Controller())


def test_levels_reach_switches_and_only_the_hosts_concerned(host_levels):
    decide = decider(priority)
    decide.decide(0.0, [ONE, TWO], {})
    (state,) = decide.controller.states
    assert [(job.name, job.level) for job in state.jobs] == [("one", 1), ("two", 2)]
    assert sorted(host_levels) == [("r0h0", {0: 1, 1: 2}), ("r1h0", {0: 1}), ("r1h1", {1: 2})]


def test_the_same_plan_again_changes_nothing(host_levels):
    decide = decider(priority)
    for time_s in (0.0, 1.0):
        decide.decide(time_s, [ONE, TWO], {})
    assert len(decide.controller.states) == 1
    assert len(decide.decisions) == 2


def test_a_job_that_ended_keeps_its_rules_and_one_to_come_has_the_default_level(host_levels):
    decide = decider(priority)
    decide.decide(0.0, [ONE], {})
    assert [job.level for job in decide.controller.states[-1].jobs] == [1, DEFAULT_LEVEL]
    decide.decide(1.0, [TWO], {})
    assert [job.level for job in decide.controller.states[-1].jobs] == [1, 2]


def test_a_link_that_goes_down_is_told_to_the_switches(host_levels):
    decide = decider(priority)
    decide.decide(0.0, [ONE, TWO], {})
    decide.links_down = frozenset({"leaf0>spine0"})
    decide.decide(1.0, [ONE, TWO], {})
    assert decide.controller.states[-1].links_down == {"leaf0>spine0"}


def test_reinstalling_sends_the_same_again(host_levels):
    decide = decider(priority)
    decide.decide(0.0, [ONE, TWO], {})
    decide.reinstall()
    first, second = decide.controller.states
    assert first == second


@pytest.mark.parametrize(
    ("plan", "lever"), [(JobPlan(rate_bps=1), "a rate"), (JobPlan(starts_s=(1.0,)), "start times")]
)
def test_a_lever_that_is_not_carried_out_is_refused(plan, lever, host_levels):
    policy = FunctionPolicy("mine", "", lambda snapshot: Plan("mine", {"one": plan}))
    with pytest.raises(RunFailed, match=f"policy mine gives job 'one' {lever}"):
        decider(policy).decide(0.0, [ONE], {})
