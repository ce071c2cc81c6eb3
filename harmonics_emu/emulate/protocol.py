"""What the supervisor outside a sandbox and the run inside it tell each other: one JSON object a line.

Outside to inside, on standard input: one RunRequest; after it the end of the stream means "stop, keep what there is".
Inside to outside, on standard output: events, in order, the last one Finished.
"""

from __future__ import annotations

import msgspec

from harmonics_emu.ownership import Owner
from harmonics_emu.records import Placing
from harmonics_emu.results.schema import Isolated


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One run to make. The scenario lies, resolved, in `directory`/scenario.yaml.

    owner: as whom ranks run and to whom files belong, None for root. working_directory: where commands start.
    isolated: per job what it does alone, where that was measured before; the rest is predicted. placing: how the
    scenario's movable jobs were placed.
    """

    directory: str
    working_directory: str
    policy: str
    seed: int
    owner: Owner | None
    isolated: dict[str, Isolated] = {}
    placing: Placing | None = None


class Phase(msgspec.Struct, tag=True, frozen=True):
    """The run entered a new phase; `text` says which, for people."""

    text: str


class JobProgress(msgspec.Struct, frozen=True):
    """Iterations that every rank of a job has finished, of how many, how it stands, and the band it sends in."""

    name: str
    done: int
    total: int
    state: str
    level: int | None = None


class Progress(msgspec.Struct, tag=True, frozen=True):
    """How far a run is. links: use (0 to 1) of the busiest directed links over the last moment, busiest first."""

    time_s: float
    jobs: tuple[JobProgress, ...]
    links: tuple[tuple[str, float], ...]


class Notice(msgspec.Struct, tag=True, frozen=True):
    """Something a reader of the result should know, as it happens."""

    text: str


class Finished(msgspec.Struct, tag=True, frozen=True):
    """The run is over. error: one line, None where the run directory holds a result. exit_code: DESIGN's statuses."""

    exit_code: int
    error: str | None = None


Event = Phase | Progress | Notice | Finished

encode_line = msgspec.json.encode
decode_event: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
decode_request: msgspec.json.Decoder[RunRequest] = msgspec.json.Decoder(RunRequest)
