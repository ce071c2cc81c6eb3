"""Data parallel training whose gradients are summed within racks first, then across them, then handed out in racks.

By that an uplink carries what one rank would send, instead of what all ranks of the rack would.

By hand: torchrun --nproc-per-node 4 -m workloads.programs.hierarchical --racks 0,0,1,1 --bucket-bytes 400000
"""

from __future__ import annotations

from workloads.parallelism import HIERARCHICAL
from workloads.programs.runtime import byte_sizes
from workloads.programs.training import numbers, run_by_hand, training_parser


def main() -> None:
    parser = training_parser("Data parallel training with an all-reduce in racks, then across them.", HIERARCHICAL)
    parser.add_argument("--bucket-bytes", type=byte_sizes, default=(2**20,), help="gradient buckets, comma-separated")
    parser.add_argument("--overlap", type=float, default=0.0, help="part of compute in which gradients become ready")
    parser.add_argument("--racks", type=numbers, default=(), help="rack of each rank, comma-separated: 0,0,1,1")
    given = parser.parse_args()
    run_by_hand(given, given.bucket_bytes, overlap=given.overlap, racks=given.racks)


if __name__ == "__main__":
    main()
