"""Pipeline parallel training: activations go from stage to stage and their gradients back, in micro-batches.

Ranks lie stage by stage. Those of one stage are data parallel: they all-reduce their gradients in the end.

By hand: torchrun --nproc-per-node 4 -m workloads.programs.pipeline --stages 2 --gradient-bytes 800000
"""

from __future__ import annotations

from workloads.parallelism import PIPELINED
from workloads.programs.training import run_by_hand, training_parser


def main() -> None:
    parser = training_parser("Pipeline parallel training.", PIPELINED)
    parser.add_argument("--stages", type=int, help="one a rank unless given")
    parser.add_argument("--activation-bytes", type=int, default=2**20, help="that a rank hands on in an iteration")
    parser.add_argument("--gradient-bytes", type=int, default=0, help="of one stage, all-reduced among its ranks")
    given = parser.parse_args()
    sizes = (given.activation_bytes, given.gradient_bytes) if given.gradient_bytes else (given.activation_bytes,)
    run_by_hand(given, sizes, stages=given.stages)


if __name__ == "__main__":
    main()
