"""Model catalogue: parameter tensors, the gradient buckets they are sent in, and measured compute times.

Tensors are generated from each architecture in the order in which its layers run, so that totals are exact. To add
a model, write a generator of element counts and one entry in `_MODELS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Precision = Literal["fp32", "fp16"]

MIB = 2**20
FIRST_BUCKET_CAP = MIB
"""DistributedDataParallel keeps its first bucket small, so that communication starts early."""
DEFAULT_BUCKET_CAP = 25 * MIB
_ELEMENT_BYTES: Mapping[str, int] = {"fp32": 4, "fp16": 2}

_TORCHVISION = "torchvision's definition"
_MURI = "compute: Muri cluster trace (SIGCOMM 2022), GPU stage of its 8-GPU rows"
_TF_BENCHMARKS = "TensorFlow benchmarks 2017"
_NVIDIA = "NVIDIA DeepLearningExamples"


@dataclass(frozen=True)
class Model:
    """A network to train, with real (unscaled) figures.

    tensors: element count of each parameter tensor, in forward order. parameters: their sum.
    source: where the architecture and the compute times come from.
    compute_s: seconds of compute of one iteration on one GPU, by GPU and setting ('v100-batch16').
    default_compute: the key of `compute_s` to use where a scenario names none, None where nothing was measured.
    """

    name: str
    source: str
    tensors: tuple[int, ...] = field(repr=False)
    compute_s: Mapping[str, float] = field(default_factory=dict)
    default_compute: str | None = None

    @property
    def parameters(self) -> int:
        return sum(self.tensors)

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
            filled += elements * _ELEMENT_BYTES[precision]
            if filled >= cap:
                buckets.append(filled)
                filled, cap = 0, bucket_cap
        if filled:
            buckets.append(filled)
        return tuple(buckets)


def find_model(name: str) -> Model:
    """The model called `name`. KeyError if the catalogue has none."""
    return _CATALOGUE[name]


def model_names() -> tuple[str, ...]:
    """Names of all models, in alphabetical order."""
    return tuple(sorted(_CATALOGUE))


def _linear(inputs: int, outputs: int) -> tuple[int, int]:
    """Weight and bias."""
    return (inputs * outputs, outputs)


def _norm(width: int) -> tuple[int, int]:
    """Scale and shift of a batch or layer normalisation."""
    return (width, width)


def _vgg(*stages: tuple[int, int]) -> Iterator[int]:
    """VGG from (convolutions, channels) of each stage; 224 x 224 pixels, 1,000 classes."""
    inputs = 3
    for convolutions, channels in stages:
        for _ in range(convolutions):
            yield from _linear(inputs * 9, channels)
            inputs = channels
    yield from _linear(inputs * 49, 4096)
    yield from _linear(4096, 4096)
    yield from _linear(4096, 1000)


def _bottleneck_resnet(*blocks: int) -> Iterator[int]:
    """ResNet of bottleneck blocks, from the number of blocks in each of its four stages; convolutions have no bias."""
    yield from (3 * 64 * 49, *_norm(64))
    inputs = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        outputs = 4 * width
        for block in range(count):
            yield from (inputs * width, *_norm(width))
            yield from (width * width * 9, *_norm(width))
            yield from (width * outputs, *_norm(outputs))
            if block == 0:
                yield from (inputs * outputs, *_norm(outputs))
            inputs = outputs
    yield from _linear(inputs, 1000)


def _bert(layers: int, width: int) -> Iterator[int]:
    """BERT encoder (uncased vocabulary) with its pooler, without the pre-training heads."""
    yield from (30522 * width, 512 * width, 2 * width, *_norm(width))
    for _ in range(layers):
        for _ in ("query", "key", "value", "output"):
            yield from _linear(width, width)
        yield from _norm(width)
        yield from _linear(width, 4 * width)
        yield from _linear(4 * width, width)
        yield from _norm(width)
    yield from _linear(width, width)


def _gpt2(layers: int, width: int) -> Iterator[int]:
    """GPT-2; the output layer shares the token embedding, whose gradient is therefore ready last."""
    yield from (50257 * width, 1024 * width)
    for _ in range(layers):
        yield from _norm(width)
        yield from _linear(width, 3 * width)
        yield from _linear(width, width)
        yield from _norm(width)
        yield from _linear(width, 4 * width)
        yield from _linear(4 * width, width)
    yield from _norm(width)


def _model(name: str, source: str, tensors: Iterable[int], **compute_ms: float) -> Model:
    """A catalogue entry. Compute times: milliseconds by GPU and setting ('_' stands for '-'), the default first."""
    compute_s = {setting.replace("_", "-"): milliseconds / 1000 for setting, milliseconds in compute_ms.items()}
    return Model(name, source, tuple(tensors), MappingProxyType(compute_s), next(iter(compute_s), None))


_MODELS = (
    _model(
        "vgg16",
        f"{_TORCHVISION}; {_MURI}; P100 and K80: {_TF_BENCHMARKS}",
        _vgg((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)),
        v100_batch16=75,
        p100_batch64=416,
        k80_batch32=904,
    ),
    _model(
        "vgg19",
        f"{_TORCHVISION}; {_MURI}; RTX 3090: MCCS workloads (batch not stated)",
        _vgg((2, 64), (2, 128), (4, 256), (4, 512), (4, 512)),
        v100_batch16=88,
        rtx3090=310,
    ),
    _model(
        "resnet50",
        f"{_TORCHVISION}; A100: {_NVIDIA} (TF32 and mixed precision); V100: Gavel, one GPU with data loading; "
        f"P100 and K80: {_TF_BENCHMARKS}",
        _bottleneck_resnet(3, 4, 6, 3),
        v100_batch64=1000 / 4.39,
        a100_tf32_batch256=273,
        a100_amp_batch256=104,
        p100_batch64=292,
        k80_batch64=1230,
    ),
    _model(
        "bert-base",
        f"BERT (2018), base, uncased; {_MURI} (it says only 'bert': reading that as bert-base is ours)",
        _bert(12, 768),
        v100_batch4=167,
    ),
    _model(
        "bert-large",
        f"BERT (2018), large, uncased; compute: {_NVIDIA}, pre-training with mixed precision",
        _bert(24, 1024),
        a100_amp_seq128_batch256=441,
        a100_amp_seq512_batch32=152,
    ),
    _model("gpt2", f"GPT-2 (2019), 124M; {_MURI}", _gpt2(12, 768), v100_batch4=419),
)
_CATALOGUE = MappingProxyType({model.name: model for model in _MODELS})
