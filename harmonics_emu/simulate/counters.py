"""Link byte counters, sampled at an interval, in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.records import LINK_SAMPLE
from harmonics_emu.simulate.kernel.sharing import Floats

MAX_SAMPLES = 10_000
MAX_CELLS = 4_000_000
"""Beyond so many samples, or samples times links, the interval doubles and every second sample goes: all stay exact."""


class LinkCounters:
    """Samples of the bytes that links have carried. `due_s`: when the next one is wanted; infinity if sampling is off.

    The first sample is at time zero.
    """

    def __init__(self, interval_s: float | None) -> None:
        self.interval_s = interval_s
        self._times: list[float] = []
        self._samples: list[Floats] = []
        self._taken = 0

    @property
    def due_s(self) -> float:
        return np.inf if self.interval_s is None else self._taken * self.interval_s

    def take(self, now: float, carried: Floats) -> None:
        """Keep a sample: bytes of each link since time zero; links seen later are appended to later samples."""
        if self._times and self._times[-1] == now:
            return
        self._times.append(now)
        self._samples.append(carried)
        self._taken += 1
        if self.interval_s is not None and len(self._times) > min(MAX_SAMPLES, MAX_CELLS // max(1, len(carried))):
            self._times, self._samples = self._times[::2], self._samples[::2]
            self.interval_s *= 2
            self._taken = len(self._times)

    def rows(self, links: dict[str, int]) -> dict[str, NDArray[Any]]:
        """Rows of records.LINK_SAMPLE for each named link that carried anything."""
        table = np.zeros((len(self._times), len(self._samples[-1]) if self._samples else 0))
        for row, sample in zip(table, self._samples, strict=True):
            row[: len(sample)] = sample
        found: dict[str, NDArray[Any]] = {}
        for name, index in links.items():
            if index < table.shape[1] and table[-1, index] > 0:
                rows = np.zeros(len(self._times), LINK_SAMPLE)
                rows["time_s"] = self._times
                rows["bytes"] = np.rint(table[:, index])
                found[name] = rows
        return found
