"""Data parallel training with parameter servers: workers push gradients to them and pull parameters.

The first ranks are the servers, each of which holds an equal part of every bucket. Where all ranks are servers, each
is a worker too.

By hand: torchrun --nproc-per-node 3 -m workloads.programs.ps --servers 1 --bucket-bytes 400000,600000
"""

from __future__ import annotations

from workloads.parallelism import PS
from workloads.programs.runtime import byte_sizes
from workloads.programs.training import run_by_hand, training_parser


def main() -> None:
    parser = training_parser("Data parallel training with parameter servers.", PS)
    parser.add_argument("--bucket-bytes", type=byte_sizes, default=(2**20,), help="gradient buckets, comma-separated")
    parser.add_argument("--overlap", type=float, default=0.0, help="part of compute in which gradients become ready")
    parser.add_argument("--servers", type=int, default=1, help="how many of the first ranks")
    given = parser.parse_args()
    run_by_hand(given, given.bucket_bytes, overlap=given.overlap, servers=given.servers)


if __name__ == "__main__":
    main()
