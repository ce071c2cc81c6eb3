"""Tensor parallel training: each layer is split over all ranks, which all-reduce its activations.

There are two all-reduces a layer in the forward pass and two in the backward pass, and each of them is waited for
before compute goes on.

By hand: torchrun --nproc-per-node 2 -m workloads.programs.tensor --layers 4 --activation-bytes 400000
"""

from __future__ import annotations

from workloads.parallelism import TENSOR, layer_buckets
from workloads.programs.training import run_by_hand, training_parser


def main() -> None:
    parser = training_parser("Tensor parallel training.", TENSOR)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--activation-bytes", type=int, default=2**20, help="of one all-reduce")
    given = parser.parse_args()
    run_by_hand(given, layer_buckets(TENSOR, (given.activation_bytes,) * given.layers))


if __name__ == "__main__":
    main()
