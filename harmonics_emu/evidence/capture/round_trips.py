"""Round-trip times of flows, summed up from their histograms."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harmonics_emu.evidence.capture.flow import RTT_BINS_PER_OCTAVE, RTT_LEAST_NS


class RoundTrips(msgspec.Struct, frozen=True):
    """From the capture point to the receiver and back, seconds. median and p99 are within 5 %, the others exact."""

    samples: int
    least_s: float
    mean_s: float
    median_s: float
    p99_s: float
    most_s: float


def round_trips(flows: NDArray[Any], bins: NDArray[Any]) -> RoundTrips | None:
    """Of some flows together (rows of FLOW, and (flows, RTT_BINS) counts); None without samples."""
    sampled = flows[flows["rtt_samples"] > 0]
    samples = int(sampled["rtt_samples"].sum())
    if samples == 0:
        return None
    least, most = int(sampled["rtt_least_ns"].min()), int(sampled["rtt_most_ns"].max())
    so_far = np.cumsum(bins.sum(axis=0, dtype=np.int64))

    def quantile_s(fraction: float) -> float:
        place = int(np.searchsorted(so_far, fraction * samples))
        middle_ns = RTT_LEAST_NS * 2 ** ((place + 0.5) / RTT_BINS_PER_OCTAVE)
        return float(min(max(middle_ns, least), most)) * 1e-9

    return RoundTrips(
        samples=samples,
        least_s=least * 1e-9,
        mean_s=float(sampled["rtt_sum_ns"].sum()) / samples * 1e-9,
        median_s=quantile_s(0.5),
        p99_s=quantile_s(0.99),
        most_s=most * 1e-9,
    )
