"""The catalogue's totals and buckets, against published parameter counts and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.models import DEFAULT_BUCKET_CAP, MIB, Model, find_model, model_names

PUBLISHED = {
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet50": 25_557_032,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2": 124_439_808,
}


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_parameters_equal_the_published_count(name: str, parameters: int) -> None:
    assert find_model(name).parameters == parameters
    assert sum(find_model(name).bucket_bytes("fp32")) == 4 * parameters
    assert sum(find_model(name).bucket_bytes("fp16")) == 2 * parameters


def test_every_model_has_a_source_and_its_default_compute_time() -> None:
    assert set(PUBLISHED) <= set(model_names())
    for name in model_names():
        model = find_model(name)
        assert model.source
        assert model.default_compute is None or model.compute_s[model.default_compute] > 0
    assert find_model("vgg16").compute_s["v100-batch16"] == pytest.approx(0.075)


def test_unknown_model_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        find_model("vgg17")


def test_buckets_of_vgg16_by_hand() -> None:
    """The last layer's 4,096,000 weights close the small first bucket; the two huge layers have one each."""
    buckets = find_model("vgg16").bucket_bytes("fp32")
    assert buckets[0] == 4 * (1000 + 4096 * 1000)
    assert buckets[1] == 4 * (4096 + 4096 * 4096)
    assert buckets[2] == 4 * (4096 + 25088 * 4096)


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=40),
    st.integers(1, 2 * DEFAULT_BUCKET_CAP),
    st.sampled_from(["fp32", "fp16"]),
)
def test_buckets_hold_all_bytes_and_close_at_their_cap(tensors: list[int], cap: int, precision: str) -> None:
    size = {"fp32": 4, "fp16": 2}[precision]
    buckets = Model("any", "test", tuple(tensors)).bucket_bytes(precision, cap)  # type: ignore[arg-type]
    assert sum(buckets) == size * sum(tensors)
    assert all(bucket >= min(cap, MIB) for bucket in buckets[:-1])
    assert all(bucket < cap + size * max(tensors) for bucket in buckets)


def test_a_cap_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        find_model("gpt2").bucket_bytes("fp32", 0)
