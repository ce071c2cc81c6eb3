"""The verdict: each reason alone tips it, in the right degree, and says what it is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harmonics_emu.emulate.fidelity import Evidence, JobTimers, LinkUse, exit_code_of, judge

LINK = LinkUse("leaf0>spine0", 100e6, 95.6e6, 94e6, busy_s=5.0, packets=10_000, drops=0, bottleneck=True)
CLEAN = Evidence(
    cpu_busy=0.5,
    datapath_busy=0.3,
    links=[LINK],
    timers=[JobTimers("a", 0.1, 0.0005)],
    timeouts=0,
    isolated={"a": (0.105, 0.1)},
)


def test_a_clean_run_is_faithful_and_keeps_its_links():
    fidelity = judge(CLEAN)
    assert (fidelity.verdict, fidelity.reasons) == ("faithful", ())
    assert fidelity.links[0].busy_goodput_bps == 94e6
    assert exit_code_of(fidelity.verdict) == 0


@pytest.mark.parametrize(
    ("change", "verdict", "about"),
    [
        ({"cpu_busy": 0.90}, "degraded", "CPU"),
        ({"cpu_busy": 0.99}, "not faithful", "CPU"),
        ({"datapath_busy": 0.94}, "degraded", "switch daemon"),
        ({"datapath_busy": 0.99}, "not faithful", "switch daemon"),
        ({"timers": [JobTimers("slow", 0.1, 0.015)]}, "degraded", "job slow"),
        ({"timers": [JobTimers("slow", 0.1, 0.040)]}, "not faithful", "job slow"),
        ({"links": [replace(LINK, drops=1)]}, "degraded", "leaf0>spine0"),
        ({"links": [replace(LINK, drops=100)]}, "not faithful", "leaf0>spine0"),
        ({"links": [replace(LINK, busy_goodput_bps=65e6)]}, "degraded", "leaf0>spine0"),
        ({"links": [replace(LINK, busy_goodput_bps=50e6)]}, "not faithful", "leaf0>spine0"),
        ({"timeouts": 1}, "degraded", "retransmission timeout"),
        ({"timeouts": 50}, "not faithful", "retransmission timeout"),
        ({"isolated": {"a": (0.13, 0.1)}}, "degraded", "job a alone"),
        ({"isolated": {"a": (0.15, 0.1)}}, "not faithful", "job a alone"),
        ({"faults": ["the controller died"]}, "degraded", "controller"),
        ({"violations": ["3 packets met no rule"]}, "not faithful", "no rule"),
    ],
)
def test_one_reason_is_enough_and_is_named(change, verdict, about):
    fidelity = judge(replace(CLEAN, **change))
    assert fidelity.verdict == verdict
    (reason,) = fidelity.reasons
    assert about in reason
    assert exit_code_of(verdict) == (3 if verdict == "not faithful" else 0)


def test_what_says_nothing_does_not_speak_against_a_run():
    idle = replace(LINK, busy_goodput_bps=None, busy_s=0.0)
    brief = replace(LINK, busy_goodput_bps=50e6, busy_s=0.1)
    elsewhere = replace(LINK, busy_goodput_bps=50e6, bottleneck=False)
    links = [idle, brief, elsewhere]
    evidence = Evidence(cpu_busy=None, datapath_busy=None, links=links, timers=[], timeouts=0, isolated={})
    assert judge(evidence).verdict == "faithful"


def test_the_worst_reason_comes_first():
    fidelity = judge(replace(CLEAN, cpu_busy=0.9, violations=["3 packets met no rule"]))
    assert fidelity.verdict == "not faithful"
    assert fidelity.reasons[0] == "3 packets met no rule"
    assert len(fidelity.reasons) == 2
