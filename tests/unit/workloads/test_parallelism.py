"""What an iteration of each program puts on the wire, against formulas."""

from __future__ import annotations

import pytest

from workloads.collectives import job_transfers
from workloads.job import Job
from workloads.pacing import ready_fractions
from workloads.parallelism import COLLECTIVE_OF, bucket_collectives, layer_buckets

HOSTS = ("r0h0", "r0h1", "r1h0", "r1h1")
RACK_OF = {host: int(host[1]) for host in HOSTS}


def sent(program: str, buckets: tuple[int, ...], **more: object) -> dict[tuple[str, str], float]:
    collective = COLLECTIVE_OF[program]
    assert collective is not None
    job = Job("job", 0, program, HOSTS, 1, bucket_bytes=buckets, collective=collective, **more)  # type: ignore[arg-type]
    return job_transfers(job, RACK_OF)


def test_fsdp_sends_its_parameters_around_the_ring_three_times() -> None:
    buckets = layer_buckets("fsdp", (400, 800))
    assert buckets == (400, 800, 800, 800, 400, 400)
    ring = {(HOSTS[rank], HOSTS[(rank + 1) % 4]): 3 * 3 / 4 * 1200 for rank in range(4)}
    assert sent("fsdp", buckets) == pytest.approx(ring)
    kinds = bucket_collectives("fsdp", "ring-all-reduce", 6)
    assert kinds == ("all-gather", "all-gather", "all-gather", "reduce-scatter", "all-gather", "reduce-scatter")
    with pytest.raises(ValueError, match="three collectives a layer, so 5 buckets"):
        bucket_collectives("fsdp", "ring-all-reduce", 5)


def test_tensor_and_moe_send_four_times_a_layer() -> None:
    buckets = layer_buckets("tensor", (1000, 1000))
    ring = {(HOSTS[rank], HOSTS[(rank + 1) % 4]): 8 * 2 * 3 / 4 * 1000 for rank in range(4)}
    assert sent("tensor", buckets) == pytest.approx(ring)
    everyone = {(src, dst): 8 * 1000 / 4 for src in HOSTS for dst in HOSTS if src != dst}
    assert sent("moe", layer_buckets("moe", (1000, 1000))) == pytest.approx(everyone)


def test_a_pipeline_hands_on_activations_and_reduces_gradients_in_stages() -> None:
    """Two stages of two ranks: r0h0 and r0h1, then r1h0 and r1h1."""
    between = {(HOSTS[rank], HOSTS[other]): 1000.0 for rank, other in ((0, 2), (2, 0), (1, 3), (3, 1))}
    within = {(HOSTS[rank], HOSTS[other]): 3000.0 for rank, other in ((0, 1), (1, 0), (2, 3), (3, 2))}
    assert sent("pipeline", (1000, 3000), stages=2, in_stages=0.75) == pytest.approx(between | within)
    assert bucket_collectives("pipeline", "ring-all-reduce", 2) == ("pipeline", "stage-all-reduce")
    with pytest.raises(ValueError, match="not 3"):
        bucket_collectives("pipeline", "ring-all-reduce", 3)


def test_compute_is_cut_evenly_between_buckets() -> None:
    assert ready_fractions(4, 0.0, between_compute=True) == (0.25, 0.5, 0.75, 1.0)
    assert ready_fractions(3, 0.5, between_compute=False) == (0.5, 0.75, 1.0)
