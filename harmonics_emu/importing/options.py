"""What a trace does not say and a scenario needs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

DEFAULT_HOST_RATE_BPS = 100 * 10**9
INTRA_HOST_BPS = 2400 * 10**9
"""Between the GPUs of one host: NVLink of a V100 (NVIDIA: 300 GB/s)."""
DRAWN_MODELS = ("bert-base", "bert-large", "gpt2", "resnet50", "vgg16", "vgg19")
"""For logs that tell no model: those of the catalogue with a measured compute time that fit any GPU."""


@dataclass(frozen=True)
class ImportOptions:
    """How to make a scenario of a trace.

    jobs: the most that are taken, the first submitted ones. shrink: iterations and submission times are divided by it,
    which leaves the load as it is. iterations, workers: of jobs of which the trace does not tell them. models: one is
    drawn for each job of a log that tells none. host_rate_bps: None for the trace's own rate, or DEFAULT_HOST_RATE_BPS
    where it has none. oversubscription: what a rack's hosts can send over what its uplinks carry. queue: in which order
    jobs wait for GPUs, 'none' for leaving out those that would have to wait. scale: emulated over real rates.
    """

    jobs: int = 60
    shrink: float = 1.0
    iterations: int = 100
    workers: int | None = None
    models: tuple[str, ...] = DRAWN_MODELS
    racks: int = 4
    hosts_per_rack: int = 8
    gpus_per_host: int = 1
    spines: int = 2
    host_rate_bps: int | None = None
    oversubscription: float = 2.0
    placement: str = "packed"
    queue: str = "fifo"
    scale: Fraction = Fraction(1)
