"""Quantities with units as scenarios write them: rates, times, sizes, shares, and the scale.

Parsing is exact (decimal, never binary fractions), so what `format_*` writes parses back to the same value.
A bare number is refused: in this field "100" has been read as bits, kilobits and megabits a second too often.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from harmonics_emu.scenario.problems import shown

MAX_TEXT = 40
MAX_RATE_BPS = 10**15
MAX_SIZE = 10**15
MIN_TIME_S = Decimal("1e-9")
MAX_TIME_S = 10**8

RATE_UNITS = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12}
TIME_UNITS = {
    "us": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
}
DECIMAL_SIZE_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BINARY_SIZE_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
SIZE_UNITS = DECIMAL_SIZE_UNITS | BINARY_SIZE_UNITS

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
RATE_PATTERN = rf"^{_NUMBER} ?(?:{'|'.join(RATE_UNITS)})$"
TIME_PATTERN = rf"^{_NUMBER} ?(?:{'|'.join(TIME_UNITS)})$"
SIZE_PATTERN = rf"^{_NUMBER} ?(?:{'|'.join(SIZE_UNITS)})$"
PERCENT_PATTERN = rf"^{_NUMBER} ?%$"
SCALE_PATTERN = rf"^{_NUMBER}(?: ?/ ?{_NUMBER})?$"

_QUANTITY = re.compile(rf"(?P<sign>[-+]?)(?P<number>{_NUMBER})\s*(?P<unit>[A-Za-zµ%/]*)", re.ASCII)
_RATIO = re.compile(rf"(?P<over>{_NUMBER})(?:\s*/\s*(?P<under>{_NUMBER}))?", re.ASCII)
_DATA_UNIT = re.compile(
    r"(?P<prefix>[kmgt]?)(?P<binary>i?)(?P<what>bits?|bytes?|bps|b)?(?P<each>ps|/s|/sec)?", re.ASCII | re.IGNORECASE
)
_TIME_WORDS = {
    "µs": "us",
    "usec": "us",
    "msec": "ms",
    "sec": "s",
    "secs": "s",
    "second": "s",
    "seconds": "s",
    "m": "min",
    "mins": "min",
    "minute": "min",
    "minutes": "min",
    "hour": "h",
    "hours": "h",
}


class InvalidQuantity(ValueError):
    """What is wrong with a value, and in `hint` what to write instead."""

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.hint = hint


def parse_rate(value: object) -> int:
    """Bits per second of `500Mbit`. InvalidQuantity unless it is a whole number of bits above zero."""
    number, unit = _split(value, "rate", "write a rate with its unit, as 100Mbit or 1.5Gbit")
    if unit not in RATE_UNITS:
        raise InvalidQuantity(f"{unit!r} is no unit of rate", _rate_hint(number, unit))
    rate = number * RATE_UNITS[unit]
    if rate <= 0:
        raise InvalidQuantity(f"a rate must be above zero, not {value}", "write a rate as 100Mbit or 1.5Gbit")
    if rate > MAX_RATE_BPS:
        raise InvalidQuantity(f"a rate can be at most {format_rate(MAX_RATE_BPS)}")
    return _whole(value, rate, "bits per second")


def parse_time(value: object) -> float:
    """Seconds of `75ms`, at least zero."""
    number, unit = _split(value, "time", "write a time with its unit, as 75ms or 2s")
    if unit not in TIME_UNITS:
        meant = _TIME_WORDS.get(unit.lower())
        hint = f"did you mean {_plain(number)}{meant}?" if meant else f"units of time are {', '.join(TIME_UNITS)}"
        raise InvalidQuantity(f"{unit!r} is no unit of time", hint)
    seconds = number * TIME_UNITS[unit]
    if seconds < 0:
        raise InvalidQuantity(f"a time can't be below zero, as {value} is")
    if 0 < seconds < MIN_TIME_S:
        raise InvalidQuantity(f"a time above zero must be at least {format_time(float(MIN_TIME_S))}")
    if seconds > MAX_TIME_S:
        raise InvalidQuantity(f"a time can be at most {MAX_TIME_S}s")
    return float(seconds)


def parse_positive_time(value: object) -> float:
    """As `parse_time`, but above zero."""
    seconds = parse_time(value)
    if seconds == 0:
        raise InvalidQuantity(f"this time must be above zero, not {value}")
    return seconds


def parse_size(value: object) -> int:
    """Bytes of `4MB` (decimal) or `4MiB` (binary). InvalidQuantity unless it is a whole number above zero."""
    number, unit = _split(value, "size", "write a size with its unit, as 4MB or 512B")
    if unit not in SIZE_UNITS:
        raise InvalidQuantity(f"{unit!r} is no unit of size", _size_hint(number, unit))
    size = number * SIZE_UNITS[unit]
    if size <= 0:
        raise InvalidQuantity(f"a size must be above zero, not {value}")
    if size > MAX_SIZE:
        raise InvalidQuantity(f"a size can be at most {format_size(MAX_SIZE)}")
    return _whole(value, size, "bytes")


def parse_percent(value: object) -> float:
    """Fraction of `0.1%`: 0 <= fraction < 1."""
    number, unit = _split(value, "share", "write a percentage, as 0.1%")
    if unit != "%":
        raise InvalidQuantity(f"{unit!r} is no percentage", "write a percentage, as 0.1%")
    if not 0 <= number < 100:
        raise InvalidQuantity(f"this share must be at least 0% and below 100%, not {value}")
    return float(number / 100)


def parse_scale(value: object) -> Fraction:
    """The factor `1/100` or `0.01` by which rates and bytes shrink: 0 < factor <= 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InvalidQuantity(f"a scale is expected here, not {shown(value)}", "write a fraction, as 1/100 or 0.01")
    if isinstance(value, str):
        match = _RATIO.fullmatch(value.strip()) if len(value) <= MAX_TEXT else None
        if match is None or Fraction(match["under"] or 1) == 0:
            raise InvalidQuantity(f"{shown(value)} is no fraction", "write a scale as 1/100 or 0.01")
        scale = Fraction(match["over"]) / Fraction(match["under"] or 1)
    else:
        scale = Fraction(str(value)) if 0 < value <= 1 else Fraction(0)  # str: 0.01 is meant as 1/100 exactly
    if not 0 < scale <= 1:
        raise InvalidQuantity(
            f"a scale must be above 0 and at most 1, not {value}",
            "1/100 means that real links are 100 times faster than the emulated ones",
        )
    return scale


def format_rate(rate_bps: int) -> str:
    return _format(Decimal(rate_bps), {unit: Decimal(size) for unit, size in RATE_UNITS.items()})


def format_time(seconds: float) -> str:
    """`seconds` in s, ms or us, whichever is the largest unit not above it."""
    units = {unit: size for unit, size in TIME_UNITS.items() if size <= 1}
    return _format(Decimal(repr(float(seconds))), units) if seconds else "0s"


def format_size(size: int) -> str:
    """`size` in a decimal or a binary unit, whichever writes it shorter."""
    texts = [
        _format(Decimal(size), {unit: Decimal(factor) for unit, factor in units.items()})
        for units in (DECIMAL_SIZE_UNITS, {"B": 1} | BINARY_SIZE_UNITS)
    ]
    return min(texts, key=len)


def format_percent(fraction: float) -> str:
    return f"{_plain(Decimal(repr(float(fraction))) * 100)}%"


def format_scale(scale: Fraction) -> str:
    return f"{scale.numerator}/{scale.denominator}"


def _split(value: object, what: str, hint: str) -> tuple[Decimal, str]:
    """Number and unit of a quantity's text, without judging the unit."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InvalidQuantity(f"a {what} is expected here, not {shown(value)}", hint)
    if not isinstance(value, str):
        raise InvalidQuantity(f"{value} has no unit", hint)
    text = value.strip()
    match = _QUANTITY.fullmatch(text) if len(text) <= MAX_TEXT else None
    if match is None:
        raise InvalidQuantity(f"{shown(value)} is no {what}", hint)
    if not match["unit"]:
        raise InvalidQuantity(f"{text} has no unit", hint)
    return Decimal(match["sign"] + match["number"]), match["unit"]


def _whole(value: object, number: Decimal, of: str) -> int:
    if number != int(number):
        raise InvalidQuantity(f"{value} is not a whole number of {of}")
    return int(number)


def _read_data_unit(unit: str) -> tuple[int, bool] | None:
    """Size of a mistaken data unit and whether it counts bytes: 'MBps' is (10**6, True). None if it is no such unit."""
    match = _DATA_UNIT.fullmatch(unit)
    if match is None or not match[0]:
        return None
    power = "_kmgt".index(match["prefix"].lower() or "_")
    what = match["what"] or "bit"
    return (1024 if match["binary"] else 1000) ** power, what[0] == "B" or what.lower().startswith("byte")


def _rate_hint(number: Decimal, unit: str) -> str:
    read = _read_data_unit(unit)
    if read is None or number <= 0:
        return f"units of rate are {', '.join(RATE_UNITS)}"
    factor, in_bytes = read
    bits = number * factor * (8 if in_bytes else 1)
    if bits > MAX_RATE_BPS or bits != int(bits):
        return f"units of rate are {', '.join(RATE_UNITS)}"
    if in_bytes:
        return f"rates are in bits: {_plain(number)} {unit} is {format_rate(int(bits))}"
    return f"did you mean {format_rate(int(bits))}?"


def _size_hint(number: Decimal, unit: str) -> str:
    if unit.islower() or unit.isupper():
        for right in SIZE_UNITS:
            if right.lower() == unit.lower():
                return f"did you mean {_plain(number)}{right}?"
    read = _read_data_unit(unit)
    if read is None or number <= 0:
        return f"units of size are {', '.join(SIZE_UNITS)}"
    factor, in_bytes = read
    in_bits = not in_bytes and "b" in unit.lower()
    size = number * factor / (8 if in_bits else 1)
    if size > MAX_SIZE or size != int(size):
        return f"units of size are {', '.join(SIZE_UNITS)}"
    if in_bits:
        return f"sizes are in bytes: {_plain(number)} {unit} is {format_size(int(size))}"
    return f"did you mean {format_size(int(size))}?"


def _format(value: Decimal, units: dict[str, Decimal]) -> str:
    """`value` in the largest unit that is not above it; units are in rising order."""
    unit = next((unit for unit in reversed(units) if value >= units[unit]), next(iter(units)))
    return f"{_plain(value / units[unit])}{unit}"


def _plain(number: Decimal) -> str:
    """Without exponent and without trailing zeros."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
