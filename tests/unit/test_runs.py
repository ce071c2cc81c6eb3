"""The library call: what it refuses before anything runs, and that calls do not get in each other's way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import harmonics_emu
from harmonics_emu.errors import UsageError


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"engine": "magic"}, "no engine is called 'magic'; there are: emulate, simulate"),
        ({"policy": "magic"}, "no policy is called 'magic'"),
        ({"policy": "crux:levels=9"}, "policy.levels is 9"),
        ({"seed": -1}, "a seed is a number from 0"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        harmonics_emu.run("two-tenants", **arguments)
    assert complaint in str(raised.value)


def test_threads_give_what_one_after_the_other_gives() -> None:
    def slowdown(seed: int) -> float | None:
        return harmonics_emu.run("jitter", policy="crux", seed=seed).cluster.S

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(slowdown, range(6))) == [slowdown(seed) for seed in range(6)]
