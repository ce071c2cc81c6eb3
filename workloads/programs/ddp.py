"""Data-parallel training without a GPU: compute is slept, gradients are real tensors, all-reduced bucket by bucket.

By hand: torchrun --nproc-per-node 2 -m workloads.programs.ddp --compute 0.05 --bucket-bytes 400000,600000
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from workloads.launch_messages import Ddp
from workloads.pacing import bucket_ready_fractions, compute_times
from workloads.programs.runtime import Runtime, Settings, argument_parser, byte_sizes, gradient_tensor, settings_of

EXACT = 1000
"""Gradients count up to this and start over, so that their sums stay exact in float32."""


def run(params: Ddp, settings: Settings) -> None:
    """Train for `params.iterations` iterations. RuntimeError if the last gradients do not add up."""
    runtime = Runtime(settings)
    buckets = [gradient_tensor(size) for size in params.bucket_bytes]
    fractions = bucket_ready_fractions(len(buckets), params.overlap)
    compute_s = compute_times(
        params.compute_s,
        params.compute_cv,
        params.iterations,
        seed=settings.seed,
        job_index=settings.index,
        rank=runtime.rank,
    )
    runtime.connect()
    runtime.wait_for_start()
    start_ns = runtime.start_ns
    done = 0
    while done < params.iterations and not runtime.should_stop(done):
        compute_ns = int(compute_s[done] * 1e9)
        start_ns = _iterate(runtime, done, start_ns, compute_ns, buckets, fractions)
        done += 1
    if done:
        _check_sums(runtime, done - 1, buckets)
    runtime.finish()


def _iterate(
    runtime: Runtime,
    iteration: int,
    start_ns: int,
    compute_ns: int,
    buckets: list[torch.Tensor],
    fractions: tuple[float, ...],
) -> int:
    """One training step, begun at `start_ns`; returns its end. Only the first bucket waits at the gate."""
    for bucket in buckets:
        bucket.fill_(_gradient(runtime.rank, iteration))
    gate_ns = 0
    sending = []
    for number, (bucket, fraction) in enumerate(zip(buckets, fractions, strict=True)):
        runtime.timer.sleep_until(start_ns + int(fraction * compute_ns))
        if number == 0:
            gate_ns = runtime.wait_at_gate(iteration)
        sending.append(dist.all_reduce(bucket, async_op=True))
    if not buckets:
        runtime.timer.sleep_until(start_ns + compute_ns)
    ready_ns = time.monotonic_ns()
    for work in sending:
        work.wait()
    end_ns = time.monotonic_ns()
    # The backward pass goes on while a gate holds the first bucket, so not all of the wait prolongs it.
    computed_ns = ready_ns - start_ns if gate_ns == 0 else max(compute_ns, ready_ns - start_ns - gate_ns)
    runtime.record(iteration, start_ns, computed_ns, gate_ns, end_ns)
    return end_ns


def _gradient(rank: int, iteration: int) -> int:
    return rank + 1 + iteration % EXACT


def _check_sums(runtime: Runtime, iteration: int, buckets: list[torch.Tensor]) -> None:
    expected = sum(_gradient(rank, iteration) for rank in range(runtime.world_size))
    for number, bucket in enumerate(buckets):
        if not bool((bucket == expected).all()):
            raise RuntimeError(f"rank {runtime.rank}: gradient bucket {number} does not sum to {expected} everywhere")


def main() -> None:
    parser = argument_parser("Data-parallel training with paced compute and real all-reduces.")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--bucket-bytes", type=byte_sizes, default=(2**20,), help="gradient buckets, comma-separated")
    parser.add_argument("--compute", type=float, default=0.1, help="seconds of compute an iteration")
    parser.add_argument("--overlap", type=float, default=0.0, help="part of it in which gradients become ready")
    parser.add_argument("--compute-cv", type=float, default=0.0, help="coefficient of variation of the compute time")
    given = parser.parse_args()
    params = Ddp(given.iterations, given.bucket_bytes, given.compute, given.overlap, given.compute_cv)
    run(params, settings_of(given))


if __name__ == "__main__":
    main()
