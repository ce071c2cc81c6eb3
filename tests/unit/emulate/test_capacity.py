"""Which path is tried before a run with fast links."""

from __future__ import annotations

from harmonics_emu.emulate.capacity import fastest_pair, require_capacity
from topologies.rack_spine import rack_spine


def test_the_fastest_and_then_the_longest_path_is_tried():
    within = rack_spine(2, 2, 1, host_rate_bps=10**10, uplink_rate_bps=10**9)
    assert fastest_pair(within) == ("r0h0", "r0h1", 10**10)
    across = rack_spine(2, 2, 1, host_rate_bps=10**9, uplink_rate_bps=10**10)
    assert fastest_pair(across) == ("r0h0", "r1h0", 10**9)


def test_one_host_a_rack_is_tried_across_racks():
    assert fastest_pair(rack_spine(3, 1, 2, 10**9, 10**9))[:2] == ("r0h0", "r1h0")


def test_modest_rates_are_not_tried():
    assert require_capacity(rack_spine(2, 2, 1, 4 * 10**8, 2 * 10**8)) is None
