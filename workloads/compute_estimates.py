"""Compute times from arithmetic alone, for models and GPUs that nobody measured together. Rough, and marked as such.

seconds = 6 x multiply-accumulates of a forward pass x samples / (peak of the GPU x the part of it that is reached):
two operations each, and a backward pass of twice the forward pass (Kaplan et al. 2020, section 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PEAK_FLOPS: Mapping[str, float] = MappingProxyType({"v100": 125e12, "a100": 312e12, "h100": 989e12})
"""Dense 16-bit tensor operations a second, from NVIDIA's data sheets (V100 SXM2, A100 and H100 SXM)."""

TRANSFORMER_UTILIZATION = 0.4
"""Part of the peak that large transformers reach in training: the Llama-2 model card's A100 hours give 0.39 to 0.43."""
CONVOLUTION_UTILIZATION = 0.2
"""The same for convolutional networks: ResNet-50 in mixed precision reaches 0.19 on an A100 and 0.24 on a V100."""
SUFFIX = "-estimate"
"""Ends the name of every setting whose time is an estimate."""


def estimated_seconds(macs: float, samples: int, gpu: str, utilization: float) -> float:
    """Seconds of one iteration. macs: of a sample's forward pass; samples: of one GPU. KeyError for an unknown GPU."""
    return 6 * macs * samples / (PEAK_FLOPS[gpu] * utilization)


def is_estimate(setting: str) -> bool:
    """Whether a setting's compute time ('a100-batch32-estimate') comes from here."""
    return setting.endswith(SUFFIX)
