"""Events that a scenario asks for, on the simulator: what it can play, and what it names as not simulated."""

from __future__ import annotations

import pytest

import harmonics_emu
from harmonics_emu.errors import UsageError
from harmonics_emu.scenario import Scenario, parse_scenario

FILE = """
name: demo
fabric: {{kind: dumbbell, hosts_per_side: 2, host_rate: 400Mbit, uplink_rate: 200Mbit}}
jobs: [{{name: a, gradients: 1MB, workers: 2, compute: {{iteration: 1s}}, iterations: 12}}]
events: [{event}]
"""


def scenario(event: str) -> Scenario:
    return parse_scenario(FILE.format(event=event).encode(), "demo.yaml")


def test_a_straggler_of_the_file() -> None:
    slow = harmonics_emu.run(scenario("{at: 3s, job: a, rank: 1, action: slow, factor: 3, for: 5s}"))
    plain = harmonics_emu.run(scenario("{at: 3s, link: leaf0-leaf1, action: up}"))
    # Of the iterations that begin from 3 to 8 s, two last for 2 s longer.
    assert slow.jobs[0].training_s == pytest.approx(plain.jobs[0].training_s + 4)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("{at: 3s, job: a, action: kill}", "event kill of job a at 3 s: the simulator has no processes"),
        ("{at: 3s, job: a, rank: 0, action: stop}", "event stop of job a at 3 s: the simulator has no processes"),
        ("{at: 3s, daemon: switches, action: restart}", "at 3 s restarts the switches, which the simulator has not"),
    ],
)
def test_what_is_not_simulated_is_refused_by_name(event: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        harmonics_emu.run(scenario(event))
