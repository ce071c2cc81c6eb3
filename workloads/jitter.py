"""Compute time that varies from iteration to iteration, drawn by seed."""

from __future__ import annotations

import math

import numpy as np
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
    draws = np.random.default_rng([seed, job_index, rank]).normal(-variance / 2, math.sqrt(variance), iterations)
    return compute_s * np.exp(draws)
