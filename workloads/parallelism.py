"""The programs that train, by how they share the work among ranks: what each sends in an iteration, and when.

    ddp           one collective of the job's choice for each gradient bucket (a ring all-reduce, unless it says)
    ps            a push to and a pull from parameter servers for each gradient bucket (Li et al., OSDI 2014)
    hierarchical  an all-reduce within racks, then across them, for each gradient bucket
    fsdp          an all-gather of each layer's parameters for the forward pass, another one for the backward pass, and
                  a reduce-scatter of its gradients (Rajbhandari et al., SC 2020, ZeRO stage 3)
    tensor        two all-reduces of activations in each layer, forward and backward (Shoeybi et al., 2019, Megatron-LM)
    moe           an all-to-all of tokens to their experts and one back in each layer, forward and backward (Lepikhin et
                  al., ICLR 2021, GShard)
    pipeline      activations from stage to stage and their gradients back, micro-batch by micro-batch, then an
                  all-reduce of the gradients among the ranks of each stage, which are data parallel

What a program sends is cut into buckets: each goes by one collective, in the order in which they are listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from workloads.collectives import (
    ALL_GATHER,
    ALL_TO_ALL,
    HIERARCHICAL_ALL_REDUCE,
    PARAMETER_SERVER,
    PIPELINE,
    REDUCE_SCATTER,
    RING_ALL_REDUCE,
    STAGE_ALL_REDUCE,
)

DDP, FSDP, TENSOR, MOE, PS, HIERARCHICAL = "ddp", "fsdp", "tensor", "moe", "ps", "hierarchical"
PIPELINED = "pipeline"
COLLECTIVE_OF: Mapping[str, str | None] = MappingProxyType(
    {
        DDP: None,
        FSDP: ALL_GATHER,
        PIPELINED: PIPELINE,
        TENSOR: RING_ALL_REDUCE,
        MOE: ALL_TO_ALL,
        PS: PARAMETER_SERVER,
        HIERARCHICAL: HIERARCHICAL_ALL_REDUCE,
    }
)
"""The collective whose flows an iteration of each program has, None where the job chooses. A ring's reduce-scatter has
those of its all-gather, so it stands for all of fsdp."""

IN_EACH_LAYER = 4
"""Collectives of tensor and moe in a layer: two forward and two backward."""
BETWEEN_COMPUTE = frozenset({TENSOR, MOE})
"""Programs whose next stretch of compute needs what the last collective brought."""
ONE_BY_ONE = BETWEEN_COMPUTE | {PIPELINED}
"""Programs that wait for each collective before they go on."""


def layer_buckets(program: str, layers: Sequence[int]) -> tuple[int, ...]:
    """Bytes of each collective of an iteration. layers: of each layer, its parameters' bytes (fsdp), or those of one
    collective in it (tensor, moe).
    """
    if program == FSDP:
        backward = [size for size in reversed(layers) for _ in range(2)]
        return (*layers, *backward)
    return tuple(size for size in layers for _ in range(IN_EACH_LAYER))


def bucket_collectives(program: str, collective: str, buckets: int) -> tuple[str, ...]:
    """The collective of each bucket. collective: the job's own, for ddp. ValueError for a number that can't be."""
    if program == FSDP:
        layers, rest = divmod(buckets, 3)
        if rest:
            raise ValueError(f"fsdp has three collectives a layer, so {buckets} buckets can't be all of its layers'")
        return (ALL_GATHER,) * layers + (ALL_GATHER, REDUCE_SCATTER) * layers
    if program == PIPELINED:
        if buckets > 2:
            raise ValueError(f"a pipeline has a bucket of activations and perhaps one of gradients, not {buckets}")
        return (PIPELINE, STAGE_ALL_REDUCE)[:buckets]
    return (COLLECTIVE_OF[program] or collective,) * buckets
