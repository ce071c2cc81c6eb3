"""Traces of PyTorch's profiler (Kineto's Chrome JSON) of one rank: its collectives, its compute, its steps."""

from __future__ import annotations

import math
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from workloads.collectives import ALL_GATHER, ALL_TO_ALL, BROADCAST, REDUCE_SCATTER, RING_ALL_REDUCE
from workloads.traces.json_stream import stream_items
from workloads.traces.phases import Collective, Recording
from workloads.traces.source import Skipped, TraceError, head

MAX_EVENTS = 20_000_000
MAX_SIZE = 10**13
MAX_RANKS = 10**6
MAX_GAP = 0.1
"""Of a step: a longer pause between two is none of theirs, as when the profiler skips some."""
_US = 1e-6
_ELEMENT_BYTES = {
    **dict.fromkeys(("double", "int64", "long", "long int", "float64"), 8),
    **dict.fromkeys(("float", "int", "int32", "float32"), 4),
    **dict.fromkeys(("half", "bfloat16", "c10::half", "c10::bfloat16", "short", "float16"), 2),
    **dict.fromkeys(("char", "signed char", "unsigned char", "byte", "bool", "int8", "uint8"), 1),
}
_KINDS = {
    "allreduce": RING_ALL_REDUCE,
    "allgather": ALL_GATHER,
    "reducescatter": REDUCE_SCATTER,
    "alltoall": ALL_TO_ALL,
    "broadcast": BROADCAST,
}
_NO_COMPUTE = ("c10d::", "gloo:", "nccl:", "record_param_comms", "torch.distributed")
"""Beginnings of the names of operations that only hand on or await communication."""


def collective_kind(name: str) -> str | None:
    """Which of the collectives a name speaks of: 'gloo:all_reduce', '_allgather_base', 'reduce_scatter_tensor'."""
    plain = name.lower().replace("_", "").replace("-", "")
    return next((kind for word, kind in _KINDS.items() if word in plain), None)


def element_bytes(dtype: str) -> int | None:
    """Bytes of an element of torch's type 'float' or 'BFloat16'; None for one that is not known."""
    return _ELEMENT_BYTES.get(dtype.lower())


def read_kineto(path: Path, skipped: Skipped) -> Recording:
    """What a profile says. Events without a usable time or size are skipped; TraceError for what is no profile.

    Collectives are the kernels that name one (NCCL), else gloo's annotations, else `record_param_comms`. Compute is
    what ran on the GPU besides, or, without a GPU, every CPU operation that is no communication.
    """
    events = _Events(skipped)
    # Chrome's format may also be the bare list of events.
    listed = None if head(path).lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"[") else "traceEvents"
    try:
        for row, (key, item) in enumerate(stream_items(path, listed), start=1):
            if key == (listed or ""):
                events.take(item, row)
            elif key == "distributedInfo" and isinstance(item, dict):
                events.note_ranks(item.get("world_size"))
            if row > MAX_EVENTS:
                raise TraceError(path, f"has more than {MAX_EVENTS:,} events; record fewer steps")
    except RecursionError:
        raise TraceError(path, "is nested too deeply") from None
    return events.recording()


class _Events:
    def __init__(self, skipped: Skipped) -> None:
        self._skipped = skipped
        self._collectives: dict[str, list[Collective]] = {"kernel": [], "gloo": [], "params": []}
        self._kernels, self._operations = array("d"), array("d")
        self._steps: list[tuple[float, float]] = []
        self._optimizer: list[tuple[float, float]] = []
        self._ranks: int | None = None
        self._group = 0

    def note_ranks(self, value: Any) -> None:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_RANKS:
            self._ranks = value

    def take(self, event: Any, row: int) -> None:
        if not isinstance(event, dict):
            self._skipped.add("event is no object", row)
            return
        if event.get("ph") != "X":
            return
        name, category = event.get("name"), event.get("cat")
        span = _span(event)
        if not isinstance(name, str) or span is None:
            self._skipped.add("event without a name or usable times", row)
            return
        source = _source(name, category)
        if source is not None:
            self._take_collective(source, name, event.get("args"), span, row)
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            self._kernels.extend(span)
        elif category == "cpu_op" and not name.startswith(_NO_COMPUTE):
            self._operations.extend(span)
        elif category == "user_annotation" and name.startswith("ProfilerStep"):
            self._steps.append(span)
        elif category == "user_annotation" and name.startswith("Optimizer.step"):
            self._optimizer.append(span)

    def _take_collective(self, source: str, name: str, args: Any, span: tuple[float, float], row: int) -> None:
        args = args if isinstance(args, dict) else {}
        kind = collective_kind(str(args.get("Collective name", name)))
        if kind is None:
            return  # barriers, waits, and sends to one rank
        size = _message_bytes(args) or _input_bytes(args)
        if size is None:
            self._skipped.add("collective without a size (record_shapes=True gives it)", row)
            return
        group = args.get("Group size")
        if isinstance(group, int) and not isinstance(group, bool) and 1 <= group <= MAX_RANKS:
            self._group = max(self._group, group)
        self._collectives[source].append(Collective(kind, *span, size))

    def recording(self) -> Recording:
        found = next((each for each in self._collectives.values() if each), [])
        busy = self._kernels or self._operations
        steps = _joined(sorted(self._steps)) or list(pairwise(sorted(end for _, end in self._optimizer)))
        return Recording(
            collectives=tuple(found),
            computing=np.array(busy, np.float64).reshape(-1, 2),
            steps=tuple(steps),
            ranks=self._group or self._ranks,
        )


def _joined(steps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Steps up to the next one's begin where that comes at once: the profiler's own work between two belongs to one."""
    joined = [
        (begin, following if following - end < MAX_GAP * (end - begin) else end)
        for (begin, end), (following, _) in pairwise(steps)
    ]
    return joined + steps[-1:]


def _source(name: str, category: Any) -> str | None:
    """Where an event's word on a collective comes from, None if it speaks of none."""
    if category == "kernel" and name.startswith("nccl"):
        return "kernel"
    if name.startswith("gloo:"):
        return "gloo"
    return "params" if name == "record_param_comms" else None


def _span(event: dict[str, Any]) -> tuple[float, float] | None:
    """Begin and end in seconds; None unless both are finite and the duration is not negative."""
    begin, duration = event.get("ts"), event.get("dur")
    for value in (begin, duration):
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return None
        if not abs(value) < 1e18 or math.isnan(value):
            return None
    assert begin is not None
    assert duration is not None
    return (begin * _US, (begin + duration) * _US) if duration >= 0 and begin >= 0 else None


def _message_bytes(args: dict[str, Any]) -> int | None:
    """What record_param_comms says: elements in and out (an all-gather has more out) of a type."""
    width = element_bytes(str(args.get("dtype", "")))
    counts = [args.get(key) for key in ("In msg nelems", "Out msg nelems")]
    known = [count for count in counts if isinstance(count, int) and not isinstance(count, bool) and count > 0]
    return _size(max(known) * width) if width and known else None


def _input_bytes(args: dict[str, Any]) -> int | None:
    """From the shapes and types of the inputs, which profiles with record_shapes=True have."""
    shapes, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list):
        return None
    total = 0
    for shape, dtype in zip(shapes, types, strict=False):
        width = element_bytes(str(dtype))
        if width and isinstance(shape, list) and shape and all(isinstance(n, int) and 0 < n < MAX_SIZE for n in shape):
            elements = 1
            for count in shape[:16]:
                elements = min(elements * count, MAX_SIZE)
            total += elements * width
    return _size(total)


def _size(value: int) -> int | None:
    return value if 0 < value <= MAX_SIZE else None
