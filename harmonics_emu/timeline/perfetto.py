"""The packets of a Perfetto trace: tracks, slices, instants and counters.

Field numbers are those of the public protos/perfetto/trace/perfetto_trace.proto; a test reads what is written here with
the classes that Perfetto generates from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harmonics_emu.timeline.protobuf import Value, field, message

SEQUENCE = 1
STATE_CLEARED = 1
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CHRONOLOGICAL, EXPLICIT = 2, 3


class TraceBuilder:
    """Hands out tracks; every call returns bytes to be written one after the other."""

    def __init__(self) -> None:
        self._tracks = 0
        self._begun = False

    def track(self, name: str, parent: int | None = None, *, unit: str | None = None) -> tuple[int, bytes]:
        """A new track and its description. unit: makes it a counter's track. Siblings keep the order of the calls."""
        self._tracks += 1
        descriptor = message(
            (1, self._tracks),
            (2, name),
            (5, parent),
            (8, None if unit is None else message((6, unit))),
            (11, EXPLICIT if unit is None else None),
            (12, self._tracks),
        )
        return self._tracks, self._packet((60, descriptor))

    def slice(
        self, track: int, name: str, start_s: float, end_s: float, notes: Mapping[str, Value] | None = None
    ) -> bytes:
        """Something that lasts; slices of a track must be nested, and be written from the outside in."""
        return self._event(track, BEGIN, start_s, name, notes) + self._event(track, END, end_s)

    def begin(self, track: int, name: str, at_s: float, notes: Mapping[str, Value] | None = None) -> bytes:
        return self._event(track, BEGIN, at_s, name, notes)

    def end(self, track: int, at_s: float) -> bytes:
        return self._event(track, END, at_s)

    def instant(self, track: int, name: str, at_s: float, notes: Mapping[str, Value] | None = None) -> bytes:
        return self._event(track, INSTANT, at_s, name, notes)

    def counter(self, track: int, at_s: float, value: float) -> bytes:
        return self._packet(_time(at_s), (11, message((9, COUNTER), (11, track), (44, float(value)))))

    def _event(
        self, track: int, kind: int, at_s: float, name: str | None = None, notes: Mapping[str, Value] | None = None
    ) -> bytes:
        event = message((9, kind), (11, track), (23, name), *_notes(notes or {}))
        return self._packet(_time(at_s), (11, event))

    def _packet(self, *fields: tuple[int, Value]) -> bytes:
        # Only the first packet of a sequence says that nothing came before it.
        flags = () if self._begun else ((13, STATE_CLEARED),)
        self._begun = True
        return field(1, message(*fields, (10, SEQUENCE), *flags))


def _time(at_s: float) -> tuple[int, int]:
    """Nanoseconds since time zero. The viewer's clock has no negative times."""
    return (8, max(0, round(at_s * 1e9)))


def _notes(notes: Mapping[str, Value]) -> Iterator[tuple[int, bytes]]:
    for name, value in notes.items():
        place = 6 if isinstance(value, str) else 5 if isinstance(value, float) else 4
        yield (4, message((10, name), (place, value)))
