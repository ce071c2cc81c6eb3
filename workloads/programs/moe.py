"""Training of a mixture of experts, one on each rank: tokens go to their experts and back in all-to-alls.

There are two a layer in the forward pass and two in the backward pass, and each of them is waited for before compute
goes on. Tokens are spread evenly over the experts.

By hand: torchrun --nproc-per-node 2 -m workloads.programs.moe --layers 4 --activation-bytes 400000
"""

from __future__ import annotations

from workloads.parallelism import MOE, layer_buckets
from workloads.programs.training import run_by_hand, training_parser


def main() -> None:
    parser = training_parser("Training of a mixture of experts.", MOE)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--activation-bytes", type=int, default=2**20, help="that a rank holds in one all-to-all")
    given = parser.parse_args()
    run_by_hand(given, layer_buckets(MOE, (given.activation_bytes,) * given.layers))


if __name__ == "__main__":
    main()
