"""Models to train: parameter tensors, the gradient buckets they are sent in, and compute times.

`find_model` looks in the catalogue (workloads.catalogue); `custom_model` makes one of a user's own figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Literal

from workloads.compute_estimates import is_estimate

Precision = Literal["fp32", "fp16"]

MIB = 2**20
FIRST_BUCKET_CAP = MIB
"""DistributedDataParallel keeps its first bucket small, so that communication starts early."""
DEFAULT_BUCKET_CAP = 25 * MIB
MAX_EVEN_TENSORS = 10_000
ELEMENT_BYTES: Mapping[Precision, int] = MappingProxyType({"fp32": 4, "fp16": 2})
"""bf16 takes as much as fp16."""


@dataclass(frozen=True)
class Model:
    """A network to train, with real (unscaled) figures.

    tensors: element count of each parameter tensor, in forward order. parameters: their sum.
    source: where the architecture and the compute times come from.
    compute_s: seconds of compute of one iteration on one GPU, by GPU and setting ('v100-batch16'); those that were
    estimated from arithmetic, not measured, end in '-estimate'.
    default_compute: the key of `compute_s` to use where a scenario names none, None where nothing was measured.
    sample, macs: what a forward pass takes in ('image', 'token'), and its multiply-accumulates; None where not known.
    """

    name: str
    source: str
    tensors: tuple[int, ...] = field(repr=False)
    compute_s: Mapping[str, float] = field(default_factory=dict)
    default_compute: str | None = None
    sample: str | None = None
    macs: int | None = None

    @property
    def parameters(self) -> int:
        return sum(self.tensors)

    @property
    def measured(self) -> tuple[str, ...]:
        """The settings whose compute time is no estimate."""
        return tuple(setting for setting in self.compute_s if not is_estimate(setting))

    def gradient_bytes(self, precision: Precision) -> int:
        return self.parameters * ELEMENT_BYTES[precision]

    def bucket_bytes(self, precision: Precision, bucket_cap: int = DEFAULT_BUCKET_CAP) -> tuple[int, ...]:
        """Bytes of the gradient buckets that DistributedDataParallel sends, in the order in which they become ready.

        Gradients are taken in reverse parameter order and never split; a bucket closes once it has reached its cap,
        which is `bucket_cap` bytes, and 1 MiB for the first bucket where the cap is the default. These are the
        buckets that DDP settles on after its first iteration. ValueError if the cap is not positive.
        """
        if bucket_cap <= 0:
            raise ValueError(f"a bucket's cap is a positive number of bytes, not {bucket_cap}")
        cap = FIRST_BUCKET_CAP if bucket_cap == DEFAULT_BUCKET_CAP else bucket_cap
        buckets: list[int] = []
        filled = 0
        for elements in reversed(self.tensors):
            filled += elements * ELEMENT_BYTES[precision]
            if filled >= cap:
                buckets.append(filled)
                filled, cap = 0, bucket_cap
        if filled:
            buckets.append(filled)
        return tuple(buckets)


def even_tensors(parameters: int) -> tuple[int, ...]:
    """Tensors of 1 MiB in fp32 that come to `parameters`; of more where there were over MAX_EVEN_TENSORS of them."""
    size = max(MIB // ELEMENT_BYTES["fp32"], -(-parameters // MAX_EVEN_TENSORS))
    whole, rest = divmod(parameters, size)
    return (rest,) * bool(rest) + (size,) * whole


def custom_model(name: str, tensors: Sequence[int], compute_s: Mapping[str, float], source: str) -> Model:
    """A model of a user's own: element counts of its tensors in forward order, and compute times, the default first."""
    return Model(name, source, tuple(tensors), MappingProxyType(dict(compute_s)), next(iter(compute_s), None))


def find_model(name: str) -> Model:
    """The model called `name`. KeyError if the catalogue has none."""
    return _catalogue()[name]


def model_names() -> tuple[str, ...]:
    """Names of all models, in alphabetical order."""
    return tuple(sorted(_catalogue()))


@cache
def _catalogue() -> Mapping[str, Model]:
    # The catalogue's entries are Models, so it imports this module.
    from workloads.catalogue import MODELS

    return MappingProxyType({model.name: model for model in MODELS})
