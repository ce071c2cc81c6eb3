"""Sleeping until an absolute time, and keeping account of how late the machine woke the sleeper."""

from __future__ import annotations

import ctypes
import json
import math
import time
from array import array
from pathlib import Path

PR_SET_TIMERSLACK = 29
KEPT = 100_000
"""Sleeps whose lateness is kept, the latest ones: enough for a 99th percentile, and bounded."""


class Timeout(Exception):
    """Something that was waited for did not come in time."""


class Timer:
    """Sleeps to absolute CLOCK_MONOTONIC times, so that errors do not add up over a run.

    Making one asks the kernel to wake this thread as exactly as it can (the default slack is 50 us).
    """

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        self._lateness_ns = array("q")
        self._count = 0
        self._gates_ns = array("q")

    def sleep_until(self, when_ns: int, spin_ns: int = 0) -> int:
        """Wait until `when_ns` and return how late it is then, ns; at once if that time has passed.

        The last `spin_ns` are waited out on the CPU, which makes up for a late wake-up: keep them to 100 us or so,
        and for moments that matter.
        """
        now_ns = time.monotonic_ns()
        wake_ns = when_ns - spin_ns
        if now_ns < wake_ns:
            time.sleep((wake_ns - now_ns) / 1e9)
            now_ns = time.monotonic_ns()
            self._keep(now_ns - wake_ns)
        while now_ns < when_ns:
            now_ns = time.monotonic_ns()
        return now_ns - when_ns

    def _keep(self, lateness_ns: int) -> None:
        if self._count < KEPT:
            self._lateness_ns.append(lateness_ns)
        else:
            self._lateness_ns[self._count % KEPT] = lateness_ns
        self._count += 1

    def keep_gate(self, lateness_ns: int) -> None:
        """Note how late a gate opened, after any spinning."""
        if len(self._gates_ns) < KEPT:
            self._gates_ns.append(lateness_ns)

    def lateness(self) -> dict[str, float]:
        """How late sleeps woke, before any spinning: count, and median, 99th percentile and maximum in seconds."""
        return {"sleeps": self._count, **_figures(self._lateness_ns)}

    def gate_lateness(self) -> dict[str, float]:
        """How late gates opened that were waited for: count, and median, 99th percentile and maximum in seconds."""
        return {"gates": len(self._gates_ns), **_figures(self._gates_ns)}

    def save(self, path: Path) -> None:
        """Write `lateness`, with `gate_lateness` under "gates", as JSON."""
        path.write_text(json.dumps({**self.lateness(), "gates": self.gate_lateness()}) + "\n")


def _figures(lateness_ns: array[int]) -> dict[str, float]:
    if not lateness_ns:
        return {"median_s": 0.0, "p99_s": 0.0, "max_s": 0.0}
    # Only here, since a user's script may run without numpy. np.percentile would import numpy.ma, at a time when a rank
    # may be unable to read it.
    import numpy as np

    late_s = np.sort(np.frombuffer(lateness_ns, np.int64)) / 1e9
    last = len(late_s) - 1
    return {
        "median_s": float(late_s[last // 2]),
        "p99_s": float(late_s[math.ceil(0.99 * last)]),
        "max_s": float(late_s[last]),
    }
