"""Options that a policy does not have are refused by every policy, and `epoch` is taken by every one."""

from __future__ import annotations

import pytest

from harmonics_emu.errors import UsageError
from harmonics_emu.schedulers.registry import BUILT_IN, find_policy
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import fabric, job


@pytest.mark.parametrize("name", BUILT_IN)
def test_options(name: str) -> None:
    policy, jobs = find_policy(name), [job(0), job(1)]
    assert policy.plan(snapshot_of(fabric(), jobs, epoch="2s")).policy == name
    with pytest.raises(UsageError, match=f"policy {name} has no option 'epcoh'; it has: epoch"):
        policy.plan(snapshot_of(fabric(), jobs, epcoh="2s"))
    with pytest.raises(UsageError, match=r"policy\.epoch: 2 has no unit"):
        policy.plan(snapshot_of(fabric(), jobs, epoch=2))
