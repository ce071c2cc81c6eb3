"""Samples what the fabric's links carry and how busy the machine is, while a run goes on.

A directed link's bytes are read where they are cheapest: what a switch port sent or, for a host's own link, what the
leaf received; both stand in one small file of the sandbox. Queues and drops come from tc, less often.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from harmonics_emu.emulate import tc
from harmonics_emu.records import LINK_SAMPLE, LinkBytes
from topologies.addressing import port_name
from topologies.fabric import Fabric

FINE_S = 0.010
"""Between readings of the byte counters: short against a collective, whose bursts decide how busy a link was."""
COARSE_S = 0.2
"""Between rows of links.csv."""
MOST_VALUES = 2**20
"""Of the finer readings that are kept: 8 MiB, and a file of some 9 MB."""
BUSY = 0.5
"""A link is busy in an interval in which it, and both intervals beside it, carried more than this share of its rate.
The neighbours are asked so that the first and last moments of a burst, partly idle, don't count."""


@dataclass
class BusyMeter:
    """Adds up, per link, the time and bytes of busy intervals."""

    rates_bps: NDArray[np.float64]
    seconds: NDArray[np.float64] = field(init=False)
    bytes: NDArray[np.float64] = field(init=False)
    _before: NDArray[np.bool_] = field(init=False)
    _last: NDArray[np.bool_] = field(init=False)
    _last_bytes: NDArray[np.float64] = field(init=False)
    _last_seconds: float = 0.0

    def __post_init__(self) -> None:
        count = len(self.rates_bps)
        self.seconds, self.bytes, self._last_bytes = np.zeros(count), np.zeros(count), np.zeros(count)
        self._before, self._last = np.zeros(count, bool), np.zeros(count, bool)

    def add(self, carried: NDArray[np.float64], seconds: float) -> None:
        """Take one more interval: bytes carried on each link in `seconds`."""
        now = carried * 8 > BUSY * self.rates_bps * seconds
        inside = self._before & self._last & now
        self.seconds[inside] += self._last_seconds
        self.bytes[inside] += self._last_bytes[inside]
        self._before, self._last = self._last, now
        self._last_bytes, self._last_seconds = carried, seconds

    def goodput_bps(self) -> NDArray[np.float64]:
        """Bits per second while busy, NaN where a link never was."""
        with np.errstate(invalid="ignore", divide="ignore"):
            rate: NDArray[np.float64] = np.where(self.seconds > 0, self.bytes * 8 / self.seconds, np.nan)
        return rate


@dataclass
class ByteCounts:
    """Keeps readings of the byte counters, every second one only each time that they become more than `most` values.

    The counters only grow, so a reading left out makes the times coarser and loses no byte.
    """

    links: tuple[str, ...]
    most: int = MOST_VALUES
    _times: list[float] = field(default_factory=list)
    _rows: list[NDArray[np.int64]] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0

    def add(self, time_s: float, carried: NDArray[np.int64]) -> None:
        if self._seen % self._every == 0:
            self._times.append(time_s)
            self._rows.append(carried)
            if len(self._rows) * len(self.links) > self.most:
                del self._times[1::2], self._rows[1::2]
                self._every *= 2
        self._seen += 1

    def table(self) -> LinkBytes:
        rows = np.array(self._rows, np.int64).reshape(len(self._rows), len(self.links))
        return LinkBytes(self.links, np.array(self._times), rows)


class Sampler(threading.Thread):
    """Reads counters until `stop`. Times count from `start_ns` (CLOCK_MONOTONIC), before which only idling is seen."""

    def __init__(self, fabric: Fabric, vswitch_cpu_s: Any, start_ns: int) -> None:
        super().__init__(name="sampler", daemon=True)
        self._links = tuple(fabric.links)
        self._columns = [_counter_of(fabric, name) for name in self._links]
        self._rates = np.array([fabric.links[name].rate_bps for name in self._links], float)
        self._switch_ports = {
            port_name(link.src, link.dst): name
            for name, link in fabric.links.items()
            if link.src not in fabric.host_index
        }
        self._vswitch_cpu_s = vswitch_cpu_s
        self._start_ns = start_ns
        self._ended = threading.Event()
        self._rows: list[tuple[float, NDArray[np.int64], dict[str, tc.PortCounters]]] = []
        self.meter = BusyMeter(self._rates)
        self.counts = ByteCounts(self._links)
        self.use: dict[str, float] = {}
        self.cpu_busy: float | None = None
        self.datapath_busy: float | None = None
        self.error: str | None = None

    def run(self) -> None:
        try:
            self._sample()
        except Exception as error:
            self.error = f"links were not sampled to the end: {error}"

    def stop(self) -> None:
        self._ended.set()
        self.join(timeout=5)

    def _sample(self) -> None:
        first_cpu, first_datapath, began = psutil.cpu_times(), self._vswitch_cpu_s(), time.monotonic()
        origin = last = self._read()
        last_time = coarse_time = began
        coarse_bytes = last
        while not self._ended.wait(max(FINE_S, len(self._links) * 1e-4)):
            now, current = time.monotonic(), self._read()
            self.meter.add((current - last).astype(float), now - last_time)
            self.counts.add(now - self._start_ns / 1e9, current - origin)
            last, last_time = current, now
            if now - coarse_time >= COARSE_S:
                self._note(now, current - origin)
                carried = (current - coarse_bytes) * 8 / (now - coarse_time) / self._rates
                self.use = dict(zip(self._links, carried.tolist(), strict=True))
                coarse_time, coarse_bytes = now, current
        now = time.monotonic()
        self._note(now, self._read() - origin)
        self.cpu_busy = _busy_share(first_cpu, psutil.cpu_times())
        self.datapath_busy = (self._vswitch_cpu_s() - first_datapath) / (now - began)

    def _note(self, now: float, carried: NDArray[np.int64]) -> None:
        self._rows.append((now - self._start_ns / 1e9, carried, tc.read_counters(None)))

    def _read(self) -> NDArray[np.int64]:
        values = {}
        for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
            name, _, counters = line.partition(":")
            columns = counters.split()
            values[name.strip()] = (int(columns[0]), int(columns[8]))
        return np.array([values[port][column] for port, column in self._columns], np.int64)

    def link_rows(self) -> dict[str, NDArray[Any]]:
        """links.csv's rows of every link. Queue columns of a host's own link stay 0 here: its queue is the host's."""
        tables = {name: np.zeros(len(self._rows), LINK_SAMPLE) for name in self._links}
        port_of = {name: port for port, name in self._switch_ports.items()}
        first = self._rows[0][2] if self._rows else {}
        for row, (time_s, carried, queues) in enumerate(self._rows):
            for column, name in enumerate(self._links):
                queue = queues.get(port_of.get(name, ""))
                backlog = 0 if queue is None else queue.backlog_bytes
                drops = 0 if queue is None else queue.drops - first[port_of[name]].drops
                delay_s = backlog * 8 / self._rates[column]
                tables[name][row] = (time_s, carried[column], drops, backlog, delay_s)
        return tables


def _counter_of(fabric: Fabric, link_name: str) -> tuple[str, int]:
    """Which interface counts a directed link's bytes, and whether as received (0) or sent (1)."""
    link = fabric.links[link_name]
    if link.src in fabric.host_index:
        return port_name(link.dst, link.src), 0
    return port_name(link.src, link.dst), 1


def _busy_share(before: Any, after: Any) -> float:
    """Share of all cores' time that was not idle; time stolen by a hypervisor counts as busy."""
    idle = (after.idle + after.iowait) - (before.idle + before.iowait)
    total = sum(after) - sum(before) - (getattr(after, "guest", 0) - getattr(before, "guest", 0))
    return 1 - idle / total if total > 0 else 0.0
