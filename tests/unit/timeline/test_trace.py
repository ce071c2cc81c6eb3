"""Traces, read back with the classes that Perfetto generates from its own definition of the format."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, Trace, TrackEvent

from harmonics_emu.cli.main import main
from harmonics_emu.evidence.recorded_run import load_recorded_run
from harmonics_emu.runs import run
from harmonics_emu.timeline.protobuf import field, message, varint
from harmonics_emu.timeline.trace import trace


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("trace") / "run"
    run("four-tenants", policy="priority", out=where)
    return where


def read(directory: Path) -> tuple[Trace, dict[str, list[TrackEvent]], dict[int, str]]:
    """The trace, its events with their times by the path of their track, and those paths."""
    found = Trace()
    found.ParseFromString(b"".join(trace(load_recorded_run(directory))))
    paths: dict[int, str] = {}
    events: dict[str, list[TrackEvent]] = defaultdict(list)
    for packet in found.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            above = f"{paths[track.parent_uuid]}/" if track.HasField("parent_uuid") else ""
            paths[track.uuid] = above + track.name
        else:
            events[paths[packet.track_event.track_uuid]].append((packet.timestamp, packet.track_event))
    return found, events, paths


def test_there_is_a_track_for_each_job_link_and_the_scheduler(directory: Path) -> None:
    found, events, paths = read(directory)
    assert {packet.trusted_packet_sequence_id for packet in found.packet} == {1}
    assert [packet.sequence_flags for packet in found.packet[:2]] == [1, 0]
    for path in ("scheduler", "vgg16", "vgg16/all 4 ranks", "links", "links/leaf0>spine0 Mbit/s"):
        assert path in paths.values()
    ((at_ns, first), *_) = events["scheduler"]
    assert (at_ns, first.name, first.type) == (0, "priority", TrackEvent.TYPE_INSTANT)
    notes = {note.name: note for note in first.debug_annotations}
    assert notes["level of bert"].int_value == 2
    assert notes["solve_s"].double_value > 0


def test_slices_are_nested_and_as_long_as_the_iterations(directory: Path) -> None:
    _, events, _ = read(directory)
    rows = load_recorded_run(directory).run.records.iterations["bert"]
    total: dict[str, float] = defaultdict(float)
    open_slices: list[tuple[int, str]] = []
    for at_ns, event in events["bert/all 4 ranks"]:
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert not open_slices or at_ns >= open_slices[-1][0]
            open_slices.append((at_ns, event.name.split()[0]))
        else:
            start_ns, name = open_slices.pop()
            total[name] += (at_ns - start_ns) * 1e-9
    assert open_slices == []
    assert total["iteration"] == pytest.approx((rows["end_s"] - rows["start_s"]).sum(), abs=1e-6)
    assert total["compute"] == pytest.approx(rows["compute_s"].sum(), abs=1e-6)
    assert total["iteration"] == pytest.approx(total["compute"] + total["gate"] + total["communication"], abs=1e-6)


def test_counters_carry_every_byte(directory: Path) -> None:
    found, events, _ = read(directory)
    rows = load_recorded_run(directory).run.records.links["leaf0>spine0"]
    readings = events["links/leaf0>spine0 Mbit/s"]
    times = np.array([at_ns for at_ns, _ in readings]) * 1e-9
    rates = np.array([event.double_counter_value for _, event in readings])
    assert (np.diff(times) * rates[:-1]).sum() * 1e6 / 8 == pytest.approx(
        rows["bytes"][-1] - rows["bytes"][0], rel=1e-6
    )
    units = {
        packet.track_descriptor.counter.unit_name for packet in found.packet if packet.HasField("track_descriptor")
    }
    assert units == {"", "Mbit/s"}


def test_the_command_writes_the_trace(directory: Path) -> None:
    told = CliRunner().invoke(main, ["timeline", str(directory)])
    assert told.exit_code == 0, told.output
    written = Trace()
    written.ParseFromString((directory / "trace.perfetto-trace").read_bytes())
    assert len(written.packet) > 1000


@given(st.integers(0, 2**31 - 1), st.text(), st.floats(allow_nan=False))
def test_fields_read_back(whole: int, text: str, real: float) -> None:
    made = CounterDescriptor()
    made.ParseFromString(message((4, whole), (6, text.encode(errors="ignore").decode()), (1, None)))
    assert (made.unit_multiplier, made.unit_name) == (whole, text.encode(errors="ignore").decode())
    event = TrackEvent()
    event.ParseFromString(field(44, real))
    assert event.double_counter_value == real


def test_numbers_that_do_not_fit_are_refused() -> None:
    for value in (-1, 2**64):
        with pytest.raises(ValueError, match="64 bits"):
            varint(value)
