"""The models that come with the package. To add one: a generator in workloads.architectures, and an entry here.

Compute times are milliseconds of one iteration on one GPU, the setting that is used by default first. A GPU on which
nobody measured a model gets an estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workloads.architectures import (
    Tensor,
    attention,
    basic_resnet,
    bert,
    bottleneck_resnet,
    dlrm,
    gpt2,
    llama,
    pythia,
    vgg,
)
from workloads.compute_estimates import (
    CONVOLUTION_UTILIZATION,
    PEAK_FLOPS,
    SUFFIX,
    TRANSFORMER_UTILIZATION,
    estimated_seconds,
)
from workloads.models import Model

_TORCHVISION = "torchvision's definition"
_MURI = "compute: Muri cluster trace (SIGCOMM 2022), GPU stage of its 8-GPU rows"
_MCCS = "RTX 3090: MCCS workloads (batch not stated)"
_TF_BENCHMARKS = "TensorFlow benchmarks 2017"
_NVIDIA = "NVIDIA DeepLearningExamples"
_GPT2 = "GPT-2 (2019)"
_PYTHIA = "Pythia (2023), GPT-NeoX architecture"
_LLAMA = "LLaMA (2023)"


@dataclass(frozen=True)
class _Estimate:
    """What an estimate is for: `samples` of one kind on a GPU, called `setting`, at a part of the GPU's peak."""

    sample: str
    samples: int
    setting: str
    utilization: float
    extra_macs: int = 0


def _images() -> _Estimate:
    return _Estimate("image", 32, "batch32", CONVOLUTION_UTILIZATION)


def _tokens(layers: int, width: int, context: int) -> _Estimate:
    """Four sequences of `context` tokens."""
    macs = attention(layers, width, context)
    return _Estimate("token", 4 * context, f"seq{context}-batch4", TRANSFORMER_UTILIZATION, macs)


def _model(name: str, source: str, tensors: Iterable[Tensor], estimate: _Estimate | None, **compute_ms: float) -> Model:
    """An entry. Compute times by GPU and setting, '_' standing for '-'."""
    listed = tuple(tensors)
    compute_s = {setting.replace("_", "-"): milliseconds / 1000 for setting, milliseconds in compute_ms.items()}
    default = next(iter(compute_s), None)
    macs = sum(tensor.elements * tensor.uses for tensor in listed) + (estimate.extra_macs if estimate else 0)
    if estimate is not None:
        compute_s |= _estimates(estimate, macs, compute_s)
    counts = tuple(tensor.elements for tensor in listed)
    sample = estimate.sample if estimate else "record"
    return Model(name, source, counts, MappingProxyType(compute_s), default, sample, macs)


def _estimates(estimate: _Estimate, macs: int, measured: Mapping[str, float]) -> dict[str, float]:
    return {
        f"{gpu}-{estimate.setting}{SUFFIX}": estimated_seconds(macs, estimate.samples, gpu, estimate.utilization)
        for gpu in PEAK_FLOPS
        if not any(setting.startswith(gpu) for setting in measured)
    }


def _gpt2_models() -> Iterator[Model]:
    yield _model("gpt2", f"{_GPT2}, 124M; {_MURI}", gpt2(12, 768), _tokens(12, 768, 1024), v100_batch4=419)
    for name, size, layers, width in (
        ("gpt2-medium", "355M", 24, 1024),
        ("gpt2-large", "774M", 36, 1280),
        ("gpt2-xl", "1558M", 48, 1600),
    ):
        yield _model(name, f"{_GPT2}, {size}", gpt2(layers, width), _tokens(layers, width, 1024))


def _pythia_models() -> Iterator[Model]:
    for size, layers, width, vocabulary in (
        ("70m", 6, 512, 50304),
        ("160m", 12, 768, 50304),
        ("410m", 24, 1024, 50304),
        ("1b", 16, 2048, 50304),
        ("1.4b", 24, 2048, 50304),
        ("2.8b", 32, 2560, 50304),
        ("6.9b", 32, 4096, 50432),
        ("12b", 36, 5120, 50688),
    ):
        yield _model(f"pythia-{size}", _PYTHIA, pythia(layers, width, vocabulary), _tokens(layers, width, 2048))


def _llama_models() -> Iterator[Model]:
    for size, layers, width, hidden in (
        ("7b", 32, 4096, 11008),
        ("13b", 40, 5120, 13824),
        ("33b", 60, 6656, 17920),
        ("65b", 80, 8192, 22016),
    ):
        yield _model(f"llama-{size}", _LLAMA, llama(layers, width, hidden), _tokens(layers, width, 2048))
    yield _model(
        "llama2-70b",
        "Llama 2 (2023), grouped-query attention; compute: from the model card's GPU hours (A100-80GB, 2 T tokens, "
        "4,096 tokens a GPU and step), so it includes communication",
        llama(80, 8192, 28672, key_value=1024),
        _tokens(80, 8192, 4096),
        a100_seq4096_batch1=1000 * 4096 / 323,
    )


MODELS: tuple[Model, ...] = (
    _model(
        "vgg16",
        f"{_TORCHVISION}; {_MURI}; P100 and K80: {_TF_BENCHMARKS}",
        vgg((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)),
        _images(),
        v100_batch16=75,
        p100_batch64=416,
        k80_batch32=904,
    ),
    _model(
        "vgg19",
        f"{_TORCHVISION}; {_MURI}; {_MCCS}",
        vgg((2, 64), (2, 128), (4, 256), (4, 512), (4, 512)),
        _images(),
        v100_batch16=88,
        rtx3090=310,
    ),
    _model(
        "resnet18",
        f"{_TORCHVISION}; {_MURI}",
        basic_resnet(2, 2, 2, 2),
        _images(),
        v100_batch128=117,
    ),
    _model(
        "resnet50",
        f"{_TORCHVISION}; A100: {_NVIDIA} (TF32 and mixed precision); V100: Gavel, one GPU with data loading; "
        f"P100 and K80: {_TF_BENCHMARKS}",
        bottleneck_resnet(3, 4, 6, 3),
        _images(),
        v100_batch64=1000 / 4.39,
        a100_tf32_batch256=273,
        a100_amp_batch256=104,
        p100_batch64=292,
        k80_batch64=1230,
    ),
    _model("resnet101", f"{_TORCHVISION}; {_MCCS}", bottleneck_resnet(3, 4, 23, 3), _images(), rtx3090=230),
    _model("resnet152", _TORCHVISION, bottleneck_resnet(3, 8, 36, 3), _images()),
    _model(
        "wideresnet101", f"{_TORCHVISION} (wide_resnet101_2)", bottleneck_resnet(3, 4, 23, 3, widening=2), _images()
    ),
    _model(
        "bert-base",
        f"BERT (2018), base, uncased; {_MURI} (it says only 'bert': reading that as bert-base is ours)",
        bert(12, 768),
        _tokens(12, 768, 128),
        v100_batch4=167,
    ),
    _model(
        "bert-large",
        f"BERT (2018), large, uncased; compute: {_NVIDIA}, pre-training with mixed precision",
        bert(24, 1024),
        _tokens(24, 1024, 128),
        a100_amp_seq128_batch256=441,
        a100_amp_seq512_batch32=152,
    ),
    *_gpt2_models(),
    *_pythia_models(),
    *_llama_models(),
    _model(
        "dlrm",
        "DLRM, dense part (perceptrons 13-512-256-128 and 480-1024-1024-512-256-1: the widths of NVIDIA's example, "
        f"from memory); compute: {_NVIDIA}, its large model on 8 GPUs, so with the exchange of embeddings",
        dlrm((13, 512, 256, 128), (480, 1024, 1024, 512, 256, 1)),
        None,
        a100_amp_batch8192=4.0,
        a100_tf32_batch8192=5.7,
    ),
)
