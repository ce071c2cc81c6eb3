"""When a rank's gradients become ready: compute times that vary by seed, and the backward pass bucket by bucket."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray


def compute_times(
    compute_s: float, cv: float, iterations: int, *, seed: int, job_index: int, rank: int
) -> NDArray[np.float64]:
    """Seconds of compute of each iteration of one rank: log-normal, mean `compute_s`, coefficient of variation `cv`.

    Each rank of each job has draws of its own, which depend on nothing but the arguments.
    """
    if cv == 0:
        return np.full(iterations, compute_s)
    variance = math.log1p(cv * cv)
    draws = default_rng([seed, job_index, rank]).normal(-variance / 2, math.sqrt(variance), iterations)
    return compute_s * np.exp(draws)


def bucket_ready_fractions(buckets: int, overlap: float) -> tuple[float, ...]:
    """When each gradient bucket is ready, as a fraction of the compute time.

    The first at 1 - overlap, the last at 1, the others evenly between; a single bucket at 1.
    """
    if buckets <= 1:
        return (1.0,) * buckets
    return tuple(1 - overlap * (buckets - 1 - bucket) / (buckets - 1) for bucket in range(buckets))


def ready_fractions(buckets: int, overlap: float, between_compute: bool) -> tuple[float, ...]:
    """After which fraction of the compute time each bucket is ready.

    between_compute: equal stretches of compute, each followed by a bucket that the next stretch waits for.
    """
    if between_compute:
        return tuple((bucket + 1) / buckets for bucket in range(buckets))
    return bucket_ready_fractions(buckets, overlap)
