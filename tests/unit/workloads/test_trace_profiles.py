"""Profiler and execution traces of one rank, and the phases that are derived from them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.collectives import ALL_GATHER, REDUCE_SCATTER, RING_ALL_REDUCE
from workloads.traces.chakra import read_chakra_json, read_chakra_protobuf
from workloads.traces.formats import detect
from workloads.traces.json_stream import MAX_ITEM_CHARS, stream_items
from workloads.traces.kineto import collective_kind, read_kineto
from workloads.traces.phases import Collective, Phases, Recording, Unusable, _union, _without, phases_of
from workloads.traces.source import CHUNK_BYTES, Skipped, TraceError

NONE = np.empty((0, 2))


def iterations(count: int, *each: tuple[float, float, int], period: float = 1.0) -> tuple[Collective, ...]:
    """The same collectives (begin, end, size) in each of `count` iterations."""
    return tuple(
        Collective(RING_ALL_REDUCE, period * step + begin, period * step + end, size)
        for step in range(count)
        for begin, end, size in each
    )


def test_communication_that_nothing_hides() -> None:
    phases = phases_of(Recording(iterations(5, (0.7, 0.8, 3000), (0.8, 1.0, 5000)), NONE, ranks=4))
    assert phases == Phases(
        period_s=pytest.approx(1.0),
        compute_s=pytest.approx(0.7),
        overlap=0.0,
        kind=RING_ALL_REDUCE,
        sizes=(3000, 5000),
        communication_s=pytest.approx(0.3),
        link_Bps=pytest.approx(8000 * 1.5 / 0.3),
        ranks=4,
        iterations=3,
    )


def test_communication_beside_compute_is_overlap() -> None:
    computing = np.array([(step, step + 0.9) for step in range(5)])
    phases = phases_of(Recording(iterations(5, (0.6, 1.0, 100)), computing, ranks=2))
    assert phases.compute_s == pytest.approx(0.9)
    assert phases.overlap == pytest.approx(0.3 / 0.9)


def test_marked_steps_are_iterations_and_the_first_is_warm_up() -> None:
    steps = ((0.0, 9.0), (9.0, 10.0), (10.0, 11.5))
    collectives = [Collective(RING_ALL_REDUCE, begin, begin + 0.5, 7) for begin in (1.0, 9.25, 10.5)]
    phases = phases_of(Recording(tuple(collectives), NONE, steps, ranks=2))
    assert (phases.period_s, phases.iterations, phases.bytes) == (1.25, 2, 7)


def test_a_gather_and_a_scatter_are_an_all_reduce() -> None:
    pair = [Collective(ALL_GATHER, 0, 1, 800), Collective(REDUCE_SCATTER, 1, 2, 800)]
    phases = phases_of(Recording(tuple(pair), NONE, ranks=8))
    assert (phases.kind, phases.bytes) == (RING_ALL_REDUCE, 800)


@pytest.mark.parametrize(
    ("recording", "why"),
    [
        (Recording((), NONE, ranks=2), "no collective"),
        (Recording(iterations(3, (0, 1, 5)), NONE), "how many ranks"),
        (Recording(iterations(3, (0, 1, 5)), NONE, ranks=1), "single rank"),
        (Recording(iterations(3, (0, 0, 5)), NONE, ranks=2), "take no time"),
        (Recording(iterations(3, (0, 1, 5)), NONE, ((50.0, 60.0),), ranks=2), "no collective lies in"),
    ],
)
def test_recordings_without_an_iteration(recording: Recording, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        phases_of(recording)


spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted).map(tuple), max_size=12)


@given(spans, spans)
def test_time_in_one_and_not_the_other(ours: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> None:
    def moments(pieces: Any) -> set[int]:
        return {moment for begin, end in pieces for moment in range(int(begin), int(end))}

    mine, others = (_union(np.array(each, np.float64)) for each in (ours, theirs))
    assert moments(mine) == moments(ours)
    assert (np.diff(mine.ravel()) > 0).all()
    assert moments(_without(mine, others)) == moments(ours) - moments(theirs)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(3, 6))
def test_iterations_are_found_in_what_repeats(sizes: list[int], count: int) -> None:
    step = len(sizes)
    collectives = [
        Collective(RING_ALL_REDUCE, number, number + 0.5, sizes[number % step]) for number in range(step * count)
    ]
    phases = phases_of(Recording(tuple(collectives), NONE, ranks=2))
    assert step % len(phases.sizes) == 0
    assert phases.period_s == len(phases.sizes)
    assert phases.sizes * (step // len(phases.sizes)) == tuple(sizes)


def kineto(events: list[dict[str, Any]], **top: Any) -> str:
    return json.dumps({"schemaVersion": 1, **top, "traceEvents": events, "traceName": "x"})


def event(name: str, category: str, begin_us: float, duration_us: Any, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": begin_us, "dur": duration_us, "args": args}


def gpu_step(begin: float) -> list[dict[str, Any]]:
    message = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "BFloat16", "Group size": 8}
    return [
        event("ProfilerStep#1", "user_annotation", begin, 1000),
        event("ProfilerStep#1", "gpu_user_annotation", begin, 1000),
        event("record_param_comms", "cpu_op", begin + 1, 5, **message),
        event("ampere_gemm", "kernel", begin, 600),
        event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "kernel", begin + 500, 500, **message),
        event("aten::mm", "cpu_op", begin, 1000),
    ]


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "profile"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_profile_of_nccl(tmp_path: Path) -> None:
    path = write(tmp_path, kineto([each for step in range(4) for each in gpu_step(1e9 + 1000 * step)]))
    phases = phases_of(read_kineto(path, Skipped()))
    assert (phases.ranks, phases.sizes, phases.iterations) == (8, (2000,), 3)
    assert phases.period_s == pytest.approx(1e-3)
    assert phases.compute_s == pytest.approx(0.6e-3)
    assert phases.overlap == pytest.approx(1 / 6)


def test_steps_end_where_the_next_one_begins(tmp_path: Path) -> None:
    """A hundredth of each passes between two; where the profiler pauses for long, that is no part of a step."""
    for pause, period_s in ((10, 1.01e-3), (500, 1e-3)):
        steps = [each for step in range(4) for each in gpu_step(1e9 + (1000 + pause) * step)]
        phases = phases_of(read_kineto(write(tmp_path, kineto(steps)), Skipped()))
        assert phases.period_s == pytest.approx(period_s, rel=1e-6)


def test_without_marked_steps_the_optimizer_tells_them(tmp_path: Path) -> None:
    events = [each for step in range(5) for each in gpu_step(1e9 + 1500 * step) if "Step" not in each["name"]]
    events += [event("Optimizer.step#SGD.step", "user_annotation", 1e9 + 1500 * step + 1000, 9) for step in range(5)]
    phases = phases_of(read_kineto(write(tmp_path, kineto(events)), Skipped()))
    assert (phases.iterations, phases.period_s) == (3, pytest.approx(1.5e-3))
    no_steps = [each for each in events if "Optimizer" not in each["name"]]
    assert phases_of(read_kineto(write(tmp_path, kineto(no_steps)), Skipped())).period_s == pytest.approx(1.5e-3)


def test_a_profile_that_is_a_bare_list_of_events(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps([each for step in range(4) for each in gpu_step(1e9 + 1000 * step)]))
    assert detect(path) == "kineto"
    assert phases_of(read_kineto(path, Skipped())).sizes == (2000,)


def test_events_that_make_no_sense_are_counted(tmp_path: Path) -> None:
    bad = [
        7,
        event("a", "cpu_op", 1, -5),
        event("a", "cpu_op", 1, "x"),
        event("a", "cpu_op", float("nan"), 1),
        event("a", "cpu_op", 10**400, 1),
        {"ph": "X", "ts": 1, "dur": 1},
        event("gloo:all_reduce", "user_annotation", 1, 1),
        event("gloo:all_reduce", "user_annotation", 1, 1, **{"Input Dims": [[10**30]], "Input type": ["float"]}),
    ]
    skipped = Skipped()
    events = [*bad, *(each for step in range(4) for each in gpu_step(1000.0 * step))]
    recording = read_kineto(write(tmp_path, kineto(events)), skipped)  # type: ignore[arg-type]
    assert phases_of(recording).sizes == (2000,)
    assert skipped.total == len(bad)


def test_names_of_collectives() -> None:
    for name in ("gloo:all_reduce", "allreduce", "ncclKernel_AllReduce_RING", "nccl:all_reduce_coalesced"):
        assert collective_kind(name) == RING_ALL_REDUCE
    assert collective_kind("_allgather_base") == ALL_GATHER
    assert collective_kind("reduce_scatter_tensor_coalesced") == REDUCE_SCATTER
    assert collective_kind("barrier") is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"traceEvents": [' + "[" * 200_000, "nested too deeply"),
        ('{"traceEvents": [{"a": 1}, {"b": ', "after 1 items"),
        ('{"traceEvents": [{}}', r"after 1 items: ']' is missing, '}' stands there"),
        ('{"traceEvents": []} x', "more follows"),
        ('{"traceEvents": [' + "9" * 5000 + "]}", "after 0 items: not JSON"),
        ("", "'{' is missing: the file ends here"),
        ('{"a": "' + "x" * (MAX_ITEM_CHARS + 2 * CHUNK_BYTES), "no value ends within"),
    ],
)
def test_json_that_cannot_be_read(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(TraceError, match=what):
        read_kineto(write(tmp_path, text), Skipped())


@given(st.lists(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner)), max_size=8))
def test_a_stream_gives_the_items_of_the_document(tmp_path_factory: pytest.TempPathFactory, items: list[Any]) -> None:
    path = write(tmp_path_factory.mktemp("json"), json.dumps({"before": [1], "nodes": items, "after": {}}, indent=1))
    streamed = list(stream_items(path, "nodes"))
    assert streamed == [("before", [1]), *(("nodes", item) for item in items), ("after", {})]


def test_items_across_the_pieces_of_a_large_file(tmp_path: Path) -> None:
    items = [{"n": number, "pad": "é" * 1000} for number in range(3000)]
    path = write(tmp_path, json.dumps(items, ensure_ascii=False))
    assert path.stat().st_size > 4 * CHUNK_BYTES
    assert [item for _, item in stream_items(path, None)] == items


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def chakra_node(number: int, kind: int, begin: int, duration: int, size: int = 0) -> bytes:
    node = field(1, number) + field(2, b"node") + field(3, kind) + field(6, begin) + field(7, duration)
    if size:
        for name, value in ((b"comm_size", size), (b"comm_type", 0), (b"pg_size", 4)):
            node += field(10, field(1, name) + field(9, value))
    node += varint(12 << 3 | 1) + struct.pack("<d", 1.0)  # a field of a newer version
    return varint(len(node)) + node


def chakra(steps: int) -> bytes:
    nodes = [varint(7) + field(1, b"0.0.4")]
    for step in range(steps):
        nodes.append(chakra_node(2 * step, 4, 1000 * step, 700))
        nodes.append(chakra_node(2 * step + 1, 7, 1000 * step + 700, 300, size=6000))
    return b"".join(nodes)


def test_a_chakra_trace(tmp_path: Path) -> None:
    phases = phases_of(read_chakra_protobuf(write(tmp_path, chakra(6)), Skipped()))
    assert (phases.ranks, phases.sizes) == (4, (6000,))
    assert phases.compute_s == pytest.approx(0.7e-3)
    assert phases.communication_s == pytest.approx(0.3e-3)


def test_a_chakra_trace_as_json(tmp_path: Path) -> None:
    nodes = []
    for step in range(6):
        tensor = [1, 2, 0, 1500, 4, "cpu"]
        collective = {"name": "gloo:all_reduce", "inputs": {"values": [tensor]}, "ts": 1000 * step + 700, "dur": 300}
        nodes += [
            {"id": 2 * step, "name": "aten::mm", "ts": 1000 * step, "dur": 700},
            {"id": 2 * step + 1, **collective},
        ]
    document = {"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}
    phases = phases_of(read_chakra_json(write(tmp_path, json.dumps(document)), Skipped()), ranks=2)
    assert (phases.sizes, phases.compute_s) == ((6000,), pytest.approx(0.7e-3))
    for node in nodes:
        node.pop("dur")
    with pytest.raises(TraceError, match="no durations"):
        read_chakra_json(write(tmp_path, json.dumps(document)), Skipped())


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_chakra_traces_that_end_too_early(tmp_path: Path, cut: int) -> None:
    with pytest.raises(TraceError, match=r"after \d+ nodes: the file ends within a message"):
        read_chakra_protobuf(write(tmp_path, chakra(2)[:-cut]), Skipped())


def test_chakra_traces_of_hostile_sizes(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="at most"):
        read_chakra_protobuf(write(tmp_path, varint(2**40) + b"x"), Skipped())
    skipped = Skipped()
    twice = chakra(3) + chakra_node(0, 4, 0, 5) + chakra_node(99, 7, 5, 5, size=2**62)
    assert len(read_chakra_protobuf(write(tmp_path, twice), skipped).collectives) == 3
    assert dict(skipped.counts) == {"id used before": 1, "collective without a kind or size": 1}


@given(st.binary(max_size=300))
def test_no_noise_is_more_than_a_trace_error(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    folder = tmp_path_factory.mktemp("noise")
    starts: Iterator[tuple[Any, bytes]] = iter(
        ((read_kineto, b'{"traceEvents": ['), (read_chakra_json, b'{"nodes": ['), (read_chakra_protobuf, chakra(1)))
    )
    for reader, start in starts:
        for text in (noise, start + noise):
            with suppress(TraceError, Unusable):
                phases_of(reader(write(folder, text), Skipped()))
