"""Compute jitter: log-normal factors around 1, of which the slowest rank's counts, since a collective waits for it."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from harmonics_emu.simulate.kernel.sharing import Floats
from workloads.job import Job


class SlowestRank:
    """Draws a job's compute factors in iteration order, from its own stream of (seed, job name).

    So they are the same under every policy, and do not change when other jobs come or go.
    """

    def __init__(self, job: Job, seed: int) -> None:
        digest = hashlib.blake2b(f"{seed}\0{job.name}".encode(), digest_size=16).digest()
        self._random = np.random.default_rng(int.from_bytes(digest, "big"))
        self._sigma = math.sqrt(math.log1p(job.compute_cv**2))
        self._ranks = job.ranks

    def draw(self, iterations: int) -> Floats:
        """Factors of the next iterations, float64 [iterations]: the largest of the ranks' draws, each of mean 1."""
        slowest = self._random.standard_normal((iterations, self._ranks)).max(axis=1)
        factors: Floats = np.exp(self._sigma * slowest - self._sigma**2 / 2)
        return factors
