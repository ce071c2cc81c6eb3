"""The catalogue's gradient buckets against the function by which torch cuts them."""

from __future__ import annotations

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
