"""The built-in scenarios, whole: S of fair, of the best other policy and of optimal, and the bound, as a table (-s)."""

from __future__ import annotations

import pytest

from harmonics_emu.scenario import builtin_names, load_scenario
from harmonics_emu.schedulers.exact.bound import lower_bound
from harmonics_emu.schedulers.optimal import SEEDS
from harmonics_emu.simulate.run import simulate_scenario

SURPRISE = 0.002
"""What later arrivals and link events may cost a plan that does not know of them, or jitter that it can't foresee."""


@pytest.mark.slow
@pytest.mark.parametrize("name", builtin_names())
def test_bound(name: str) -> None:
    scenario = load_scenario(name)
    bound = lower_bound(scenario.fabric(), scenario.jobs(), scenario.seed, scenario.events(), time_limit_s=5.0)
    reached = {}
    for policy in (*SEEDS, "optimal:time_limit=2s"):
        result = simulate_scenario(scenario.with_policy(policy))
        assert result.cluster.S is not None
        reached[result.policy] = result.cluster.S
    optimal = reached.pop("optimal")
    best = min(reached, key=reached.__getitem__)
    print(f"\n{name:27} fair {reached['fair']:.4f}  {best} {reached[best]:.4f}  optimal {optimal:.4f}  {bound}")
    assert bound.value <= min(*reached.values(), optimal)
    assert optimal <= reached[best] + SURPRISE
