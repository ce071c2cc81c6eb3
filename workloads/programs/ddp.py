"""Data parallel training: gradients are exchanged bucket by bucket while the backward pass goes on.

By default they are all-reduced in a ring, as DistributedDataParallel does over gloo; `exchange` has the other
collectives.

By hand: torchrun --nproc-per-node 2 -m workloads.programs.ddp --compute 0.05 --bucket-bytes 400000,600000
"""

from __future__ import annotations

from workloads.collectives import COLLECTIVES, RING_ALL_REDUCE
from workloads.parallelism import DDP
from workloads.programs.runtime import byte_sizes
from workloads.programs.training import numbers, run_by_hand, training_parser


def main() -> None:
    parser = training_parser("Data parallel training with paced compute and real collectives.", DDP)
    parser.add_argument("--bucket-bytes", type=byte_sizes, default=(2**20,), help="gradient buckets, comma-separated")
    parser.add_argument("--overlap", type=float, default=0.0, help="part of compute in which gradients become ready")
    parser.add_argument("--collective", choices=COLLECTIVES, default=RING_ALL_REDUCE, help="what is done with a bucket")
    parser.add_argument("--servers", type=int, default=1, help="of a parameter-server: how many of the first ranks")
    parser.add_argument("--stages", type=int, help="of a pipeline; one a rank unless given")
    parser.add_argument("--racks", type=numbers, default=(), help="rack of each rank, comma-separated: 0,0,1,1")
    given = parser.parse_args()
    run_by_hand(
        given,
        given.bucket_bytes,
        overlap=given.overlap,
        collective=given.collective,
        servers=given.servers,
        stages=given.stages,
        racks=given.racks,
    )


if __name__ == "__main__":
    main()
