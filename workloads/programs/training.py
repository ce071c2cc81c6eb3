"""What the programs that train have in common: compute is slept or done, what they send are real tensors.

Each iteration computes and hands bucket after bucket, as they become ready, to its collective. `workloads.parallelism`
says which buckets a program has, and `exchange` what a rank does with them. In each program every rank computes,
parameter servers and stages of a pipeline too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from workloads.devices import NCCL
from workloads.launch_messages import Training
from workloads.pacing import compute_times, ready_fractions
from workloads.parallelism import BETWEEN_COMPUTE, ONE_BY_ONE, bucket_collectives
from workloads.programs.algorithms import Place
from workloads.programs.exchange import Exchange, expected_pieces
from workloads.programs.runtime import Runtime, Settings, argument_parser, gradient_tensor, settings_of

EXACT = 1000
"""Values count up to this and start over, so that their sums stay exact in float32."""


@dataclass(frozen=True)
class Bucket:
    """One collective of an iteration. ready: the fraction of the compute time after which it may begin."""

    tensor: torch.Tensor
    collective: str
    ready: float


def run(params: Training, settings: Settings) -> None:
    """Train for `params.iterations` iterations.

    RuntimeError if the last tensors are not what the collectives make of them, ValueError if one can't join the ranks.
    """
    collectives = bucket_collectives(params.program, params.collective, len(params.bucket_bytes))
    runtime = Runtime(settings, collectives, computes=params.real_compute)
    ranks = runtime.world_size
    place = Place(runtime.rank, ranks, params.racks or (0,) * ranks, params.servers, params.stages or ranks)
    exchange = Exchange(place, set(collectives), by_nccl=runtime.choice.backend == NCCL)
    compute_s = compute_times(
        params.compute_s,
        params.compute_cv,
        params.iterations,
        seed=settings.seed,
        job_index=settings.index,
        rank=runtime.rank,
    )
    one_by_one = params.program in ONE_BY_ONE
    runtime.connect()
    ready = ready_fractions(len(collectives), params.overlap, params.program in BETWEEN_COMPUTE)
    buckets = [
        Bucket(gradient_tensor(size, ranks, runtime.memory), collective, fraction)
        for size, collective, fraction in zip(params.bucket_bytes, collectives, ready, strict=True)
    ]
    runtime.wait_for_start()
    start_ns = runtime.start_ns
    done = 0
    while done < params.iterations and not runtime.should_stop(done):
        compute_ns = int(compute_s[done] * 1e9 * runtime.compute_factor)
        start_ns = _iterate(runtime, exchange, done, start_ns, compute_ns, buckets, one_by_one)
        done += 1
    if done:
        check_result(place, done - 1, buckets)
    runtime.finish()


def _iterate(
    runtime: Runtime,
    exchange: Exchange,
    iteration: int,
    start_ns: int,
    compute_ns: int,
    buckets: list[Bucket],
    one_by_one: bool,
) -> int:
    """One training step, begun at `start_ns`; returns its end. Only the first bucket waits at the gate.

    one_by_one: compute stands still while a bucket is under way, and while the first one waits at the gate.
    """
    for bucket in buckets:
        bucket.tensor.fill_(_value(runtime.rank, iteration))
    gate_ns = stalled_ns = 0
    waits = []
    for number, bucket in enumerate(buckets):
        runtime.compute_until(start_ns + stalled_ns + int(bucket.ready * compute_ns))
        arrived_ns = time.monotonic_ns()
        if number == 0:
            gate_ns = runtime.wait_at_gate(iteration)
        wait = exchange.start(bucket.tensor, bucket.collective)
        if one_by_one:
            wait()
            runtime.settle()
            stalled_ns += time.monotonic_ns() - arrived_ns
        else:
            waits.append(wait)
    if not buckets:
        runtime.compute_until(start_ns + compute_ns)
    computed_ns = time.monotonic_ns() - start_ns - stalled_ns
    for wait in waits:
        wait()
    runtime.settle()
    end_ns = time.monotonic_ns()
    if gate_ns and not one_by_one:
        # The backward pass goes on while a gate holds the first bucket, so not all of the wait prolongs it.
        computed_ns = max(compute_ns, computed_ns - gate_ns)
    sent = sum(bucket.tensor.nbytes for bucket in buckets)
    runtime.record(iteration, start_ns, computed_ns, gate_ns, end_ns, sent)
    return end_ns


def _value(rank: int, iteration: int) -> int:
    """What a rank's tensors are full of when they are sent."""
    return rank + 1 + iteration % EXACT


def check_result(place: Place, iteration: int, buckets: Sequence[Bucket]) -> None:
    """RuntimeError, naming the bucket, if buckets do not hold what their collectives make of `iteration`'s values."""
    values = [_value(rank, iteration) for rank in range(place.ranks)]
    for number, bucket in enumerate(buckets):
        expected = expected_pieces(bucket.collective, place, values)
        for value, piece in zip(expected, torch.tensor_split(bucket.tensor, len(expected)), strict=True):
            if value is not None and not bool((piece == value).all()):
                raise RuntimeError(f"rank {place.rank}: {bucket.collective} of bucket {number} is not {value:g}")


def training_parser(description: str, program: str) -> argparse.ArgumentParser:
    """A parser with the options of all programs that train, for when one is run by hand or by torchrun."""
    parser = argument_parser(description)
    parser.set_defaults(program=program)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--compute", type=float, default=0.1, help="seconds of compute an iteration")
    parser.add_argument("--real-compute", action="store_true", help="multiply matrices for that long, do not sleep")
    parser.add_argument("--compute-cv", type=float, default=0.0, help="coefficient of variation of the compute time")
    return parser


def run_by_hand(given: argparse.Namespace, bucket_bytes: tuple[int, ...], **more: Any) -> None:
    """Run what `training_parser` was given. more: other fields of Training."""
    params = Training(
        iterations=given.iterations,
        bucket_bytes=bucket_bytes,
        compute_s=given.compute,
        compute_cv=given.compute_cv,
        program=given.program,
        real_compute=given.real_compute,
        **more,
    )
    run(params, settings_of(given))


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers, separated by commas."""
    return tuple(map(int, text.split(",")))
