"""Quantities: what is written parses to the number it says, and formats back to the same number."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.scenario import quantities as q


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (q.parse_rate, "500Mbit", 500_000_000),
        (q.parse_rate, "1.5Gbit", 1_500_000_000),
        (q.parse_rate, "8kbit", 8_000),
        (q.parse_rate, " 10 Gbit ", 10**10),
        (q.parse_time, "75ms", 0.075),
        (q.parse_time, "2s", 2.0),
        (q.parse_time, "5us", 5e-6),
        (q.parse_time, "3min", 180.0),
        (q.parse_time, "0s", 0.0),
        (q.parse_size, "4MB", 4_000_000),
        (q.parse_size, "4MiB", 4 * 2**20),
        (q.parse_size, "512B", 512),
        (q.parse_percent, "0.1%", 0.001),
        (q.parse_scale, "1/100", Fraction(1, 100)),
        (q.parse_scale, 0.01, Fraction(1, 100)),
        (q.parse_scale, 1, Fraction(1)),
    ],
)
def test_parsing(parse: Callable[[object], object], text: object, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "hint"),
    [
        (q.parse_rate, "100mbit", "did you mean 100Mbit?"),
        (q.parse_rate, "1.5Gbps", "did you mean 1.5Gbit?"),
        (q.parse_rate, "10Mb/s", "did you mean 10Mbit?"),
        (q.parse_rate, "5M", "did you mean 5Mbit?"),
        (q.parse_rate, "1MiB", "rates are in bits: 1 MiB is 8.388608Mbit"),
        (q.parse_rate, "12MBps", "rates are in bits: 12 MBps is 96Mbit"),
        (q.parse_rate, "3parsec", "units of rate are bit, kbit, Mbit, Gbit, Tbit"),
        (q.parse_rate, "99999Tbps", "units of rate are bit, kbit, Mbit, Gbit, Tbit"),
        (q.parse_time, "5sec", "did you mean 5s?"),
        (q.parse_time, "5ns", "units of time are us, ms, s, min, h"),
        (q.parse_size, "25mib", "did you mean 25MiB?"),
        (q.parse_size, "4Mbit", "sizes are in bytes: 4 Mbit is 500kB"),
        (q.parse_size, "4G", "did you mean 4GB?"),
        (q.parse_percent, "0.1", "write a percentage, as 0.1%"),
        (q.parse_scale, "1e-999999999", "write a scale as 1/100 or 0.01"),
        (q.parse_scale, "1/0", "write a scale as 1/100 or 0.01"),
    ],
)
def test_mix_ups_get_a_hint(parse: Callable[[object], object], text: object, hint: str) -> None:
    with pytest.raises(q.InvalidQuantity) as caught:
        parse(text)
    assert caught.value.hint == hint


@given(st.integers(1, q.MAX_RATE_BPS))
@settings(deadline=None)
def test_rates_round_trip(rate: int) -> None:
    assert q.parse_rate(q.format_rate(rate)) == rate
    assert re.fullmatch(q.RATE_PATTERN, q.format_rate(rate))


@given(st.just(0.0) | st.floats(1e-9, q.MAX_TIME_S))
@settings(deadline=None)
def test_times_round_trip(seconds: float) -> None:
    assert q.parse_time(q.format_time(seconds)) == seconds
    assert re.fullmatch(q.TIME_PATTERN, q.format_time(seconds))


@given(st.integers(1, q.MAX_SIZE))
@settings(deadline=None)
def test_sizes_round_trip(size: int) -> None:
    assert q.parse_size(q.format_size(size)) == size
    assert re.fullmatch(q.SIZE_PATTERN, q.format_size(size))


@given(st.decimals(0, 99, places=4).map(lambda percent: float(percent / 100)))
@settings(deadline=None)
def test_percentages_round_trip(fraction: float) -> None:
    assert q.parse_percent(q.format_percent(fraction)) == fraction


@given(st.fractions(Fraction(1, 10**9), 1, max_denominator=10**9))
@settings(deadline=None)
def test_scales_round_trip(scale: Fraction) -> None:
    assert q.parse_scale(q.format_scale(scale)) == scale


@given(st.text() | st.integers() | st.floats() | st.none() | st.booleans() | st.lists(st.text()))
@settings(deadline=None)
def test_anything_else_is_refused_with_a_sentence(value: object) -> None:
    for parse in (q.parse_rate, q.parse_time, q.parse_positive_time, q.parse_size, q.parse_percent, q.parse_scale):
        message = ""
        try:
            parse(value)
        except q.InvalidQuantity as error:
            message = str(error)
        assert message.isprintable()
