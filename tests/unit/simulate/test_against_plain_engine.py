"""The engine against a plain second one: when every iteration of whole scenarios ends.

Only the first iterations: where many jobs are entangled, rounding grows from one to the next.
"""

from __future__ import annotations

import pytest

from harmonics_emu.scenario import builtin_names, load_scenario, parse_scenario
from harmonics_emu.scenario.random_scenarios import random_scenario
from harmonics_emu.scenario.scenario import Scenario
from harmonics_emu.schedulers.registry import find_policy
from harmonics_emu.simulate.engine import Options, simulate
from tests.unit.simulate.plain_engine import iteration_ends

DRAWN = [f"random-{number}" for number in range(12)]
SEED = 7

EVERYTHING = """
name: everything
fabric: {kind: rack-spine, racks: 3, hosts_per_rack: 2, spines: 2, host_rate: 100Mbit, uplink_rate: 60Mbit,
         gpus_per_host: 2, intra_host_rate: 300Mbit}
share_gpus: true
seed: 3
offsets: 90ms
jobs:
  - {name: ring, gradients: 600kB, bucket: 150kB, workers: 7, compute: {iteration: 40ms, overlap: 0.6, jitter: 0.2},
     iterations: 30, priority: 2}
  - {name: tree, gradients: 300kB, workers: 5, collective: tree-all-reduce, compute: {iteration: 35ms},
     iterations: 30, priority: 1}
  - {name: exchange, gradients: 200kB, workers: 6, collective: all-to-all, compute: {iteration: 50ms, jitter: 0.1},
     iterations: 30}
  - {name: lone, gradients: 200kB, workers: 1, compute: {iteration: 50ms}, iterations: 10}
background: [{from: r0h0, to: r2h1, rate: 15Mbit}]
events: [{at: 300ms, link: leaf0-spine0, action: down}, {at: 500ms, link: leaf2>spine1, action: rate, rate: 20Mbit},
         {at: 900ms, link: leaf0-spine0, action: up}]
"""


def scenario(name: str) -> Scenario:
    if name == "everything":
        return parse_scenario(EVERYTHING.encode(), "everything.yaml")
    if name in DRAWN:
        return parse_scenario(random_scenario(SEED, DRAWN.index(name)), f"{name}.yaml").short()
    return load_scenario(name).short()


@pytest.mark.parametrize("policy", ["fair", "priority"])
@pytest.mark.parametrize("granularity", ["collective", "flow"])
@pytest.mark.parametrize("name", [*builtin_names(), *DRAWN, "everything"])
def test_every_iteration_ends_when_the_plain_engine_says(name: str, granularity: str, policy: str) -> None:
    drawn = scenario(name)
    records = simulate(
        drawn.fabric(),
        drawn.jobs(),
        find_policy(policy),
        drawn.seed,
        drawn.background(),
        drawn.events(),
        Options(granularity=granularity),  # type: ignore[arg-type]
    )
    expected = iteration_ends(drawn, by_priority=policy == "priority", by_flow=granularity == "flow")
    for job, ends_s in expected.items():
        assert records.iterations[job]["end_s"].tolist() == pytest.approx(ends_s, rel=1e-9), job
