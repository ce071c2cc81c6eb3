"""A sweep of all-reduce sizes, with algorithm and bus bandwidth as nccl-tests defines them.

By hand: torchrun --nproc-per-node 2 -m workloads.programs.allreduce --sizes 1024,1048576 --iterations 20
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch.distributed as dist

from workloads.collectives import RING_ALL_REDUCE
from workloads.launch_messages import AllReduce
from workloads.output_files import sweep_path
from workloads.programs.runtime import Runtime, Settings, argument_parser, byte_sizes, gradient_tensor, settings_of

HEADER = f"# {'size (B)':>12} {'elements':>12} {'time (us)':>14} {'algbw (GB/s)':>14} {'busbw (GB/s)':>14}"


def bandwidths(size_bytes: int, time_s: float, ranks: int) -> tuple[float, float]:
    """Algorithm and bus bandwidth of an all-reduce, bytes per second.

    The first is size over time; the second, algbw * 2(n-1)/n, is what each rank's link carried in one direction.
    """
    algorithm = size_bytes / time_s
    return algorithm, algorithm * 2 * (ranks - 1) / ranks


def run(params: AllReduce, settings: Settings) -> None:
    """All-reduce each size `params.warmup` and then `params.iterations` times; rank 0 prints and writes the table."""
    runtime = Runtime(settings, [RING_ALL_REDUCE])
    runtime.connect()
    runtime.wait_for_start()
    rows = []
    if runtime.rank == 0:
        print(f"# all-reduce, float32, sum, {runtime.world_size} ranks, {runtime.choice.backend}\n{HEADER}", flush=True)
    done = 0
    for size in params.sizes:
        if runtime.should_stop(done):
            break
        time_s, done = _measure(runtime, params, size, done)
        size_sent = 4 * gradient_tensor(size).numel()
        algorithm, bus = bandwidths(size_sent, time_s, runtime.world_size)
        rows.append({"bytes": size_sent, "time_s": time_s, "algbw_Bps": algorithm, "busbw_Bps": bus})
        if runtime.rank == 0:
            figures = f"{time_s * 1e6:>14.1f} {algorithm / 1e9:>14.4g} {bus / 1e9:>14.4g}"
            print(f"  {size_sent:>12} {size_sent // 4:>12} {figures}", flush=True)
    if runtime.rank == 0 and settings.output_dir is not None:
        _write(sweep_path(settings.output_dir, settings.job), runtime.world_size, params.iterations, rows)
    runtime.finish()


def _measure(runtime: Runtime, params: AllReduce, size: int, done: int) -> tuple[float, int]:
    """Mean seconds of one all-reduce of `size` bytes on this rank, and how many iterations are recorded now.

    The first sum is checked; then the tensor is zero, so that summing it over and over stays exact.
    """
    tensor = gradient_tensor(size, device=runtime.memory).fill_(1)
    dist.all_reduce(tensor)
    if not bool((tensor == runtime.world_size).all()):
        raise RuntimeError(f"rank {runtime.rank}: ones of {size} bytes do not sum to {runtime.world_size} everywhere")
    tensor.zero_()
    for _ in range(params.warmup):
        dist.all_reduce(tensor)
    runtime.settle()
    dist.barrier()
    first_ns = start_ns = time.monotonic_ns()
    for _ in range(params.iterations):
        gate_ns = runtime.wait_at_gate(done)
        dist.all_reduce(tensor)
        runtime.settle()
        end_ns = time.monotonic_ns()
        runtime.record(done, start_ns, 0, gate_ns, end_ns, tensor.nbytes)
        start_ns = end_ns
        done += 1
    return (start_ns - first_ns) / 1e9 / params.iterations, done


def _write(path: Path, ranks: int, iterations: int, rows: list[dict[str, float]]) -> None:
    content = {"collective": "all-reduce", "ranks": ranks, "iterations": iterations, "rows": rows}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(partial, path)


def main() -> None:
    parser = argument_parser("A sweep of all-reduce sizes.")
    parser.add_argument("--sizes", type=byte_sizes, default=tuple(2**power for power in range(10, 23, 2)))
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    given = parser.parse_args()
    run(AllReduce(given.sizes, given.iterations, given.warmup), settings_of(given))


if __name__ == "__main__":
    main()
