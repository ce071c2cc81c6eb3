"""Chakra execution traces of one rank, as protobuf (.et) or JSON. They need durations: raw ones of PyTorch have none.

The protobuf is a sequence of length-delimited messages, metadata first (mlcommons/chakra, et_def.proto).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from workloads.collectives import ALL_GATHER, ALL_TO_ALL, BROADCAST, REDUCE_SCATTER, RING_ALL_REDUCE
from workloads.traces.json_stream import stream_items
from workloads.traces.kineto import MAX_EVENTS, MAX_SIZE, collective_kind
from workloads.traces.phases import Collective, Recording
from workloads.traces.source import Skipped, TraceError, open_trace

MAX_MESSAGE_BYTES = 16 * 2**20
COMPUTE, COLLECTIVE = 4, 7
"""Node types; those of sends, receives and memory say nothing here."""
_TYPES = {"COMP_NODE": COMPUTE, "COMM_COLL_NODE": COLLECTIVE}
_KINDS = {
    0: RING_ALL_REDUCE,
    2: ALL_GATHER,
    5: BROADCAST,
    6: ALL_TO_ALL,
    7: REDUCE_SCATTER,
    8: REDUCE_SCATTER,
}
_US = 1e-6
_INTEGER_VALUES = {7, 9, 11, 13}
"""Fields of an attribute that hold one int32, int64, uint32 or uint64."""


class _Malformed(ValueError):
    pass


def read_chakra_protobuf(path: Path, skipped: Skipped) -> Recording:
    """The trace in a .et file. Nodes without times or sizes are skipped; TraceError for what is no such file."""
    nodes = _Nodes(skipped)
    number = 0
    with open_trace(path) as file:
        try:
            for number, message in enumerate(_messages(file)):
                if number:  # the first one is the metadata
                    nodes.take(*_node(message), number)
                if number > MAX_EVENTS:
                    raise TraceError(path, f"has more than {MAX_EVENTS:,} nodes")
        except _Malformed as error:
            raise TraceError(path, f"after {number:,} nodes: {error}") from None
    return nodes.recording()


def read_chakra_json(path: Path, skipped: Skipped) -> Recording:
    """The trace in a JSON file with `nodes`: Chakra's own form, or PyTorch's with the times of a profile linked in."""
    nodes = _Nodes(skipped)
    for row, (key, item) in enumerate(stream_items(path, "nodes"), start=1):
        if row > MAX_EVENTS:
            raise TraceError(path, f"has more than {MAX_EVENTS:,} nodes")
        if key == "nodes":
            if isinstance(item, dict):
                nodes.take(*_json_node(item), row)
            else:
                skipped.add("node is no object", row)
    recording = nodes.recording()
    if not recording.collectives and nodes.collectives:
        raise TraceError(
            path,
            "its collectives have no durations, as PyTorch writes it; link it with the profiler's trace of the same "
            "run (chakra_trace_link), or import that trace itself",
        )
    return recording


class _Nodes:
    def __init__(self, skipped: Skipped) -> None:
        self._skipped = skipped
        self._ids: set[int] = set()
        self._found: list[Collective] = []
        self._computing = array("d")
        self._ranks = 0
        self.collectives = 0

    def take(self, node: dict[str, Any], attributes: dict[str, Any], row: int) -> None:
        identity, kind = node.get("id"), node.get("type")
        if kind not in (COMPUTE, COLLECTIVE):
            return
        if isinstance(identity, int):
            if identity in self._ids:
                self._skipped.add("id used before", row)
                return
            self._ids.add(identity)
        self.collectives += kind == COLLECTIVE
        begin, duration = _time(node.get("start")), _time(node.get("duration"))
        if begin is None or duration is None or duration == 0:
            self._skipped.add("node without usable times", row)
            return
        if kind == COMPUTE:
            self._computing.extend((begin, begin + duration))
            return
        collective = _KINDS.get(attributes.get("comm_type", -1)) or collective_kind(str(node.get("name", "")))
        size = attributes.get("comm_size")
        if collective is None or not isinstance(size, int) or not 0 < size <= MAX_SIZE:
            self._skipped.add("collective without a kind or size", row)
            return
        self._found.append(Collective(collective, begin, begin + duration, size))
        group = attributes.get("pg_size", attributes.get("group_size", 0))
        self._ranks = max(self._ranks, group if isinstance(group, int) and 1 < group < 10**6 else 0)

    def recording(self) -> Recording:
        computing = np.array(self._computing, np.float64).reshape(-1, 2)
        return Recording(tuple(self._found), computing, ranks=self._ranks or None)


def _time(value: Any) -> float | None:
    """Seconds of a time in microseconds; None for none."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e18 or math.isnan(value):
        return None
    return value * _US


def _json_node(item: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields and attributes of a node, by the names of either form."""
    listed = item.get("attrs", item.get("attr", []))
    attributes = {
        str(each.get("name")): _json_value(each)
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict)
    }
    name = str(item.get("name", ""))
    kind = item.get("type")
    kind = _TYPES.get(kind, kind) if isinstance(kind, str) else kind
    if kind is None and not name.startswith(("## ", "[pytorch")):
        communicates = name == "record_param_comms" or name.startswith(("gloo:", "nccl"))
        kind = COLLECTIVE if communicates and collective_kind(name) else COMPUTE
    if "comm_size" not in attributes and kind == COLLECTIVE:
        attributes["comm_size"] = _tensor_bytes(item.get("inputs"))
    start, duration = (item.get(a, item.get(b)) for a, b in (("start_time_micros", "ts"), ("duration_micros", "dur")))
    fields = {"id": _integer(item.get("id")), "name": name, "type": kind}
    return fields | {"start": _integer(start), "duration": _integer(duration)}, attributes


def _json_value(attribute: dict[str, Any]) -> Any:
    """Protobuf's JSON writes 64-bit integers as text, under a key that says the type."""
    value = next((value for key, value in attribute.items() if key == "value" or key.endswith(("_val", "Val"))), None)
    return _integer(value)


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else value


def _tensor_bytes(inputs: Any) -> int | None:
    """Of PyTorch's tensors, each [tensor, storage, offset, elements, bytes an element, device], perhaps in lists."""
    total, waiting = 0, [inputs.get("values")] if isinstance(inputs, dict) else []
    while waiting:
        value = waiting.pop()
        if not isinstance(value, list):
            continue
        if len(value) == 6 and isinstance(value[5], str) and all(isinstance(part, int) for part in value[:5]):
            total += max(0, value[3]) * max(0, value[4])
        else:
            waiting += value
    return total or None


def _messages(file: IO[bytes]) -> Iterator[bytes]:
    while True:
        length = 0
        for shift in range(0, 70, 7):
            byte = file.read(1)
            if not byte:
                if shift:
                    raise _Malformed("the file ends within a length")
                return
            length |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                break
        if length > MAX_MESSAGE_BYTES:
            raise _Malformed(f"a message of {length:,} bytes; at most {MAX_MESSAGE_BYTES:,} are read")
        message = file.read(length)
        if len(message) < length:
            raise _Malformed("the file ends within a message")
        yield message


def _node(message: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields and attributes of a Node message. _Malformed where it is none."""
    names = {1: "id", 2: "name", 3: "type", 6: "start", 7: "duration"}
    fields: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for number, value in _fields(message):
        if number == 10 and isinstance(value, bytes):
            name, held = "", None
            for inner, part in _fields(value):
                if inner == 1 and isinstance(part, bytes):
                    name = part.decode("utf-8", "replace")
                elif inner in _INTEGER_VALUES and isinstance(part, int):
                    held = part
            attributes[name] = held
        elif number in names:
            fields[names[number]] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    # proto3 leaves zeros out: an all-reduce has type 0, and a trace may begin at time 0.
    fields.setdefault("start", 0)
    if fields.get("type") == COLLECTIVE:
        attributes.setdefault("comm_type", 0)
    return fields, attributes


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a protobuf message: varints as integers, the other wire types as bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = _varint(message, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise _Malformed(f"no protobuf: wire type {wire}")
        if at + size > len(message):
            raise _Malformed("a field ends after its message")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _Malformed("a number without an end")
