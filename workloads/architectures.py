"""Architectures as the parameter tensors of their layers, in the order in which these run.

Each tensor knows how often a forward pass uses it, so that totals of parameters and of arithmetic are both exact sums.
Generators are named after the family; shapes come from its paper or its reference implementation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple


class Tensor(NamedTuple):
    """A parameter tensor. uses: multiply-accumulates of each element in the forward pass of one sample.

    A sample is an image for convolutional networks, a token for language models, a record for DLRM. Biases,
    normalisations and look-ups count as no arithmetic.
    """

    elements: int
    uses: int = 0


def linear(inputs: int, outputs: int, uses: int = 1) -> tuple[Tensor, Tensor]:
    """Weight and bias."""
    return (Tensor(inputs * outputs, uses), Tensor(outputs))


def norm(width: int) -> tuple[Tensor, Tensor]:
    """Scale and shift of a batch or layer normalisation."""
    return (Tensor(width), Tensor(width))


def vgg(*stages: tuple[int, int]) -> Iterator[Tensor]:
    """VGG from (convolutions, channels) of each stage; 224 x 224 pixels, 1,000 classes."""
    inputs, side = 3, 224
    for convolutions, channels in stages:
        for _ in range(convolutions):
            yield from linear(inputs * 9, channels, side * side)
            inputs = channels
        side //= 2
    yield from linear(inputs * 49, 4096)
    yield from linear(4096, 4096)
    yield from linear(4096, 1000)


def basic_resnet(*blocks: int) -> Iterator[Tensor]:
    """ResNet of basic blocks (two 3 x 3 convolutions), from the number of blocks in each of its four stages."""
    yield from (Tensor(3 * 64 * 49, 112**2), *norm(64))
    inputs = 64
    for stage, count in enumerate(blocks):
        width, positions = 64 << stage, (56 >> stage) ** 2
        for block in range(count):
            yield from (Tensor(inputs * width * 9, positions), *norm(width))
            yield from (Tensor(width * width * 9, positions), *norm(width))
            if block == 0 and inputs != width:
                yield from (Tensor(inputs * width, positions), *norm(width))
            inputs = width
    yield from linear(inputs, 1000)


def bottleneck_resnet(*blocks: int, widening: int = 1) -> Iterator[Tensor]:
    """ResNet of bottleneck blocks, from the number of blocks in each of its four stages; convolutions have no bias.

    widening: of the 3 x 3 convolutions (2 in Wide ResNet). The second convolution takes the stride, as in torchvision.
    """
    yield from (Tensor(3 * 64 * 49, 112**2), *norm(64))
    inputs = 64
    for stage, count in enumerate(blocks):
        width, outputs, positions = (64 << stage) * widening, 256 << stage, (56 >> stage) ** 2
        for block in range(count):
            before = positions if stage == 0 or block else 4 * positions
            yield from (Tensor(inputs * width, before), *norm(width))
            yield from (Tensor(width * width * 9, positions), *norm(width))
            yield from (Tensor(width * outputs, positions), *norm(outputs))
            if block == 0:
                yield from (Tensor(inputs * outputs, positions), *norm(outputs))
            inputs = outputs
    yield from linear(inputs, 1000)


def bert(layers: int, width: int) -> Iterator[Tensor]:
    """BERT encoder (uncased vocabulary) with its pooler, without the pre-training heads."""
    yield from (Tensor(30522 * width), Tensor(512 * width), Tensor(2 * width), *norm(width))
    for _ in range(layers):
        for _ in ("query", "key", "value", "output"):
            yield from linear(width, width)
        yield from norm(width)
        yield from linear(width, 4 * width)
        yield from linear(4 * width, width)
        yield from norm(width)
    yield from linear(width, width, uses=0)  # the pooler sees one token of a sequence


def gpt2(layers: int, width: int) -> Iterator[Tensor]:
    """GPT-2; the output layer shares the token embedding, whose gradient is therefore ready last."""
    yield from (Tensor(50257 * width, 1), Tensor(1024 * width))
    for _ in range(layers):
        yield from norm(width)
        yield from linear(width, 3 * width)
        yield from linear(width, width)
        yield from norm(width)
        yield from linear(width, 4 * width)
        yield from linear(4 * width, width)
    yield from norm(width)


def pythia(layers: int, width: int, vocabulary: int) -> Iterator[Tensor]:
    """GPT-NeoX as in Pythia: rotary positions, and an output layer of its own."""
    yield Tensor(vocabulary * width)
    for _ in range(layers):
        yield from (*norm(width), *norm(width))
        yield from linear(width, 3 * width)
        yield from linear(width, width)
        yield from linear(width, 4 * width)
        yield from linear(4 * width, width)
    yield from norm(width)
    yield Tensor(vocabulary * width, 1)


def llama(layers: int, width: int, hidden: int, key_value: int | None = None) -> Iterator[Tensor]:
    """LLaMA: no biases, gated feed-forward layers of `hidden` units, keys and values of `key_value` (else `width`)."""
    yield Tensor(32000 * width)
    keys = width if key_value is None else key_value
    for _ in range(layers):
        yield Tensor(width)
        for elements in (width * width, width * keys, width * keys, width * width):
            yield Tensor(elements, 1)
        yield Tensor(width)
        for _ in ("gate", "up", "down"):
            yield Tensor(width * hidden, 1)
    yield from (Tensor(width), Tensor(32000 * width, 1))


def dlrm(bottom: tuple[int, ...], top: tuple[int, ...]) -> Iterator[Tensor]:
    """The dense part of DLRM: bottom and top perceptrons, from their widths. Embedding tables are not all-reduced."""
    for widths in (bottom, top):
        for inputs, outputs in pairwise(widths):
            yield from linear(inputs, outputs)


def attention(layers: int, width: int, context: int) -> int:
    """Multiply-accumulates of a token's scores and mixtures over `context` tokens, which no parameter takes part in."""
    return 2 * layers * width * context
