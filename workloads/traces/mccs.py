"""Workload files of MCCS (TOML): the collectives of one iteration, each after some compute."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.collectives import ALL_GATHER, RING_ALL_REDUCE
from workloads.traces.source import TraceError, open_trace

MAX_BYTES = 2**20
MAX_SIZE = 10**13
MAX_INTERVAL_US = 10**12
MAX_RANKS = 10**5
COLLECTIVES = {"all_reduce": RING_ALL_REDUCE, "all_gather": ALL_GATHER}


@dataclass(frozen=True)
class MccsJob:
    """compute_s, bytes: of one iteration, summed over its collectives, which are all of one kind."""

    name: str
    ranks: int
    compute_s: float
    bytes: int
    collective: str


def read_mccs(path: Path) -> MccsJob:
    """The job in a file: a rank for each entry of cuda_devices. TraceError for what is no such file."""
    with open_trace(path) as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise TraceError(path, f"is larger than {MAX_BYTES:,} bytes")
    try:
        document = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise TraceError(path, f"not TOML: {error}") from None
    traces, devices = document.get("traces"), document.get("cuda_devices")
    if not isinstance(devices, list) or not 1 <= len(devices) <= MAX_RANKS:
        raise TraceError(path, "cuda_devices must list the device of each rank")
    if not isinstance(traces, list) or not traces:
        raise TraceError(path, "holds no [[traces]]")
    kinds = set()
    size = interval_us = 0
    for index, trace in enumerate(traces):
        where = f"traces[{index}]"
        if not isinstance(trace, dict):
            raise TraceError(path, f"{where} is no table")
        kind = trace.get("type")
        if kind not in COLLECTIVES:
            raise TraceError(path, f"{where}: type must be {' or '.join(COLLECTIVES)}, not {kind!r}")
        kinds.add(COLLECTIVES[kind])
        size += _whole(path, where, "size", trace.get("size"), 1, MAX_SIZE)
        interval_us += _whole(path, where, "compute_interval", trace.get("compute_interval"), 0, MAX_INTERVAL_US)
    if len(kinds) > 1:
        raise TraceError(path, "mixes kinds of collectives, but a job has one")
    return MccsJob(path.name.split(".")[0], len(devices), interval_us * 1e-6, size, kinds.pop())


def _whole(path: Path, where: str, key: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise TraceError(path, f"{where}: {key} must be a whole number from {least} to {most:,}, not {value!r}")
    return value
