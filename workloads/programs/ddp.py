"""Training without a GPU: compute is slept, gradients are real tensors, exchanged bucket by bucket.

By default they are all-reduced in a ring, as DistributedDataParallel does over gloo; `exchange` has the other
collectives. In each of them every rank computes first, parameter servers and stages of a pipeline too.

By hand: torchrun --nproc-per-node 2 -m workloads.programs.ddp --compute 0.05 --bucket-bytes 400000,600000
"""

from __future__ import annotations

import time

import torch

from workloads.collectives import COLLECTIVES, RING_ALL_REDUCE
from workloads.launch_messages import Ddp
from workloads.pacing import bucket_ready_fractions, compute_times
from workloads.programs.algorithms import Place
from workloads.programs.exchange import Exchange, expected_pieces
from workloads.programs.runtime import Runtime, Settings, argument_parser, byte_sizes, gradient_tensor, settings_of

EXACT = 1000
"""Gradients count up to this and start over, so that their sums stay exact in float32."""


def run(params: Ddp, settings: Settings) -> None:
    """Train for `params.iterations` iterations.

    RuntimeError if the last gradients are not what the collective makes of them, ValueError if it can't join the ranks.
    """
    runtime = Runtime(settings)
    ranks = runtime.world_size
    place = Place(runtime.rank, ranks, params.racks or (0,) * ranks, params.servers, params.stages or ranks)
    exchange = Exchange(params.collective, place)
    buckets = [gradient_tensor(size, pieces=ranks) for size in params.bucket_bytes]
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
        compute_ns = int(compute_s[done] * 1e9 * runtime.compute_factor)
        start_ns = _iterate(runtime, exchange, done, start_ns, compute_ns, buckets, fractions)
        done += 1
    if done:
        check_result(params.collective, place, done - 1, buckets)
    runtime.finish()


def _iterate(
    runtime: Runtime,
    exchange: Exchange,
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
    waits = []
    for number, (bucket, fraction) in enumerate(zip(buckets, fractions, strict=True)):
        runtime.timer.sleep_until(start_ns + int(fraction * compute_ns))
        if number == 0:
            gate_ns = runtime.wait_at_gate(iteration)
        waits.append(exchange.start(bucket))
    if not buckets:
        runtime.timer.sleep_until(start_ns + compute_ns)
    ready_ns = time.monotonic_ns()
    for wait in waits:
        wait()
    end_ns = time.monotonic_ns()
    # The backward pass goes on while a gate holds the first bucket, so not all of the wait prolongs it.
    computed_ns = ready_ns - start_ns if gate_ns == 0 else max(compute_ns, ready_ns - start_ns - gate_ns)
    sent = sum(bucket.nbytes for bucket in buckets)
    runtime.record(iteration, start_ns, computed_ns, gate_ns, end_ns, sent)
    return end_ns


def _gradient(rank: int, iteration: int) -> int:
    return rank + 1 + iteration % EXACT


def check_result(collective: str, place: Place, iteration: int, buckets: list[torch.Tensor]) -> None:
    """RuntimeError, naming the bucket, if buckets do not hold what the collective makes of `iteration`'s gradients."""
    expected = expected_pieces(collective, place, [_gradient(rank, iteration) for rank in range(place.ranks)])
    for number, bucket in enumerate(buckets):
        for value, piece in zip(expected, torch.tensor_split(bucket, len(expected)), strict=True):
            if value is not None and not bool((piece == value).all()):
                raise RuntimeError(f"rank {place.rank}: {collective} of gradient bucket {number} is not {value:g}")


def main() -> None:
    parser = argument_parser("Training with paced compute and real collectives.")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--bucket-bytes", type=byte_sizes, default=(2**20,), help="gradient buckets, comma-separated")
    parser.add_argument("--compute", type=float, default=0.1, help="seconds of compute an iteration")
    parser.add_argument("--overlap", type=float, default=0.0, help="part of it in which gradients become ready")
    parser.add_argument("--compute-cv", type=float, default=0.0, help="coefficient of variation of the compute time")
    parser.add_argument("--collective", choices=COLLECTIVES, default=RING_ALL_REDUCE, help="what is done with a bucket")
    parser.add_argument("--servers", type=int, default=1, help="of a parameter-server: how many of the first ranks")
    parser.add_argument("--stages", type=int, help="of a pipeline; one a rank unless given")
    parser.add_argument("--racks", type=_numbers, default=(), help="rack of each rank, comma-separated: 0,0,1,1")
    given = parser.parse_args()
    params = Ddp(
        iterations=given.iterations,
        bucket_bytes=given.bucket_bytes,
        compute_s=given.compute,
        overlap=given.overlap,
        compute_cv=given.compute_cv,
        collective=given.collective,
        servers=given.servers,
        stages=given.stages,
        racks=given.racks,
    )
    run(params, settings_of(given))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    main()
