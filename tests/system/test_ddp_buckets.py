"""The catalogue's gradient buckets against the function by which torch cuts them, and against a model in real DDP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workloads.models import DEFAULT_BUCKET_CAP, MIB, find_model, model_names


@pytest.mark.torch
@pytest.mark.parametrize("name", model_names())
@pytest.mark.parametrize("cap_mib", [None, 4, 100])
def test_buckets_equal_those_of_torch(name: str, cap_mib: int | None) -> None:
    """Tensors of the real sizes without memory, and the limits that DistributedDataParallel gives."""
    import torch
    import torch.distributed as dist

    model = find_model(name)
    gradients = [torch.empty(elements, device="meta") for elements in reversed(model.tensors)]
    first = dist._DEFAULT_FIRST_BUCKET_BYTES if cap_mib is None else cap_mib * MIB
    cap = DEFAULT_BUCKET_CAP if cap_mib is None else cap_mib * MIB
    indices, _ = dist._compute_bucket_assignment_by_size(
        gradients, [first, cap], [False] * len(gradients), list(range(len(gradients)))
    )
    expected = tuple(sum(gradients[index].numel() * 4 for index in bucket) for bucket in indices)
    assert model.bucket_bytes("fp32", cap) == expected


@pytest.mark.torch
@pytest.mark.parametrize(("name", "precision"), [("resnet18", "fp32"), ("resnet18", "fp16"), ("pythia-70m", "fp32")])
def test_buckets_equal_those_of_a_model_in_ddp(name: str, precision: Any, tmp_path: Path) -> None:
    """What a communication hook is given once DDP has put its buckets in the order of the backward pass."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    model = find_model(name)
    dtype = {"fp32": torch.float32, "fp16": torch.float16}[precision]

    class Chain(torch.nn.Module):
        """One parameter after another, as many elements in each as the catalogue says."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ParameterList(torch.zeros(count, dtype=dtype) for count in model.tensors)

        def forward(self, value: Any) -> Any:
            for layer in self.layers:
                value = value * (1 + layer[0])
            return value

    def hook(sizes, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations of other types than its own
        sizes.append(bucket.buffer().numel() * bucket.buffer().element_size())
        done: Any = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        trained, sizes = DistributedDataParallel(Chain()), []
        trained.register_comm_hook(sizes, hook)
        for _ in range(2):
            sizes.clear()
            trained(torch.ones(1, dtype=dtype)).sum().backward()
    finally:
        dist.destroy_process_group()
    assert tuple(sizes) == model.bucket_bytes(precision)
