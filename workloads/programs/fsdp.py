"""Fully sharded data parallel training: parameters are gathered layer by layer, their gradients reduced to shards.

A layer's parameters come in an all-gather before its forward and again before its backward pass, and its gradients
leave in a reduce-scatter. Layers are fetched ahead, so that all of it goes on beside compute. Compute does not wait for
a layer that is late: an iteration lasts as long as its compute or its communication, whichever is longer.

By hand: torchrun --nproc-per-node 2 -m workloads.programs.fsdp --layer-bytes 400000,600000
"""

from __future__ import annotations

from workloads.parallelism import FSDP, layer_buckets
from workloads.programs.runtime import byte_sizes
from workloads.programs.training import run_by_hand, training_parser


def main() -> None:
    parser = training_parser("Fully sharded data parallel training.", FSDP)
    parser.add_argument("--layer-bytes", type=byte_sizes, default=(2**20,), help="parameters of each layer")
    given = parser.parse_args()
    run_by_hand(given, layer_buckets(FSDP, given.layer_bytes), overlap=1.0)


if __name__ == "__main__":
    main()
