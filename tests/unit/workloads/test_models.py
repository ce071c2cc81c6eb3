"""The catalogue's totals and buckets, against published parameter counts and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.compute_estimates import (
    CONVOLUTION_UTILIZATION,
    TRANSFORMER_UTILIZATION,
    estimated_seconds,
    is_estimate,
)
from workloads.models import DEFAULT_BUCKET_CAP, MIB, Model, custom_model, even_tensors, find_model, model_names

PUBLISHED = {
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet50": 25_557_032,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2": 124_439_808,
    "resnet18": 11_689_512,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "wideresnet101": 126_886_696,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "pythia-70m": 70_426_624,
    "pythia-160m": 162_322_944,
    "pythia-410m": 405_334_016,
    "pythia-1b": 1_011_781_632,
    "pythia-1.4b": 1_414_647_808,
    "pythia-2.8b": 2_775_208_960,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-33b": 32_528_943_616,
    "llama-65b": 65_285_660_672,
    "llama2-70b": 68_976_648_192,
}
GIGA_MACS = {
    "resnet18": 1.814,
    "resnet50": 4.089,
    "resnet101": 7.801,
    "resnet152": 11.514,
    "wideresnet101": 22.753,
    "vgg16": 15.470,
    "vgg19": 19.632,
}
"""Of one image, as torchvision's table of models gives them."""


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_parameters_equal_the_published_count(name: str, parameters: int) -> None:
    assert find_model(name).parameters == parameters
    assert sum(find_model(name).bucket_bytes("fp32")) == 4 * parameters
    assert sum(find_model(name).bucket_bytes("fp16")) == 2 * parameters


@pytest.mark.parametrize(("name", "giga_macs"), GIGA_MACS.items())
def test_arithmetic_equals_the_published_count(name: str, giga_macs: float) -> None:
    macs = find_model(name).macs
    assert macs is not None
    assert macs / 1e9 == pytest.approx(giga_macs, abs=6e-4)


@pytest.mark.parametrize(
    ("name", "setting", "samples", "utilization"),
    [
        ("resnet50", "a100-amp-batch256", 256, CONVOLUTION_UTILIZATION),
        ("bert-large", "a100-amp-seq128-batch256", 256 * 128, TRANSFORMER_UTILIZATION),
        ("bert-large", "a100-amp-seq512-batch32", 32 * 512, TRANSFORMER_UTILIZATION),
        ("llama2-70b", "a100-seq4096-batch1", 4096, TRANSFORMER_UTILIZATION),
    ],
)
def test_estimates_lie_within_a_factor_of_what_was_measured(
    name: str, setting: str, samples: int, utilization: float
) -> None:
    model = find_model(name)
    assert model.macs is not None
    estimate = estimated_seconds(model.macs, samples, "a100", utilization)
    assert 1 / 1.7 < estimate / model.compute_s[setting] < 1.7


def test_estimates_are_marked_and_never_the_default() -> None:
    for model in map(find_model, model_names()):
        estimates = set(model.compute_s) - set(model.measured)
        assert all(is_estimate(setting) for setting in estimates)
        assert model.default_compute is None or model.default_compute in model.measured
        measured_on = {setting.split("-")[0] for setting in model.measured}
        assert not measured_on & {setting.split("-")[0] for setting in estimates}
        assert model.compute_s
    assert find_model("resnet152").default_compute is None


def test_a_model_of_ones_own() -> None:
    model = custom_model("mine", [100, 10**7], {"a100": 0.12, "v100": 0.3}, "my measurements")
    assert (model.parameters, model.default_compute, model.measured) == (10**7 + 100, "a100", ("a100", "v100"))
    assert model.bucket_bytes("fp16") == (2 * 10**7, 200)


@given(st.integers(1, 10**12))
def test_even_tensors_come_to_all_parameters(parameters: int) -> None:
    tensors = even_tensors(parameters)
    assert sum(tensors) == parameters
    assert len(tensors) <= 10_000
    assert max(tensors) >= min(parameters, 2**18)


def test_every_model_has_a_source_and_its_default_compute_time() -> None:
    assert {*PUBLISHED, "dlrm"} == set(model_names())
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
