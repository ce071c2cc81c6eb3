"""The busy meter counts what a link carried in the middle of its bursts, and nothing of their ragged ends."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.emulate.sampling import BusyMeter

RATE = 8_000_000.0
FULL = RATE / 8 * 0.01
"""Bytes that the link carries in an interval of 10 ms."""


def meter_of(shares: list[float]) -> BusyMeter:
    meter = BusyMeter(np.array([RATE]))
    for share in shares:
        meter.add(np.array([share * FULL]), 0.01)
    return meter


def test_the_ends_of_a_burst_are_left_out():
    meter = meter_of([0, 0.6, 0.9, 0.95, 0.9, 0.6, 0])
    np.testing.assert_allclose(meter.seconds, [0.03])
    np.testing.assert_allclose(meter.goodput_bps(), [RATE * (0.9 + 0.95 + 0.9) / 3])


def test_a_link_that_was_never_busy_has_no_goodput():
    assert np.isnan(meter_of([0.4] * 50 + [0.9, 0.9]).goodput_bps()).all()


@given(st.lists(st.floats(0, 1), max_size=200))
def test_goodput_lies_between_half_and_all_of_the_rate(shares):
    meter = meter_of(shares)
    goodput = meter.goodput_bps()[0]
    assert np.isnan(goodput) or 0.5 * RATE <= goodput <= RATE * (1 + 1e-9)
    assert meter.seconds[0] <= 0.01 * len(shares) + 1e-9
