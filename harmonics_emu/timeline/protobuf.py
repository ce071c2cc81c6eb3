"""Protocol buffers, as much of them as a trace needs: fields of whole numbers, doubles, text and messages."""

from __future__ import annotations

import struct

VARINT, EIGHT_BYTES, LENGTH_DELIMITED = 0, 1, 2
Value = int | float | str | bytes


def varint(value: int) -> bytes:
    """A whole number of at most 64 bits; ValueError for one below zero or larger."""
    if not 0 <= value < 2**64:
        raise ValueError(f"{value} does not fit in 64 bits without a sign")
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def field(number: int, value: Value) -> bytes:
    """One field. int: a varint (of types without zigzag); float: a double; str, bytes: text, or a message's fields."""
    if isinstance(value, float):
        return varint(number << 3 | EIGHT_BYTES) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    content = value.encode(errors="replace") if isinstance(value, str) else value
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(content)) + content


def message(*fields: tuple[int, Value | None]) -> bytes:
    """A message of fields by number; those of None are left out."""
    return b"".join(field(number, value) for number, value in fields if value is not None)
