"""What one iteration's collective sends between hosts.

Counts payload bytes only; headers are the emulator's business (topologies.shaping).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

Transfers = dict[tuple[str, str], float]
"""(source host, destination host) to bytes of one iteration; pairs on one host are left out."""


def ring_all_reduce(hosts: Sequence[str], size: float) -> Transfers:
    """Ring all-reduce of `size` bytes: each rank sends 2(n-1)/n of it to the next rank.

    gloo and NCCL rings follow rank order, so the numbering of ranks decides how often the ring crosses racks.
    """
    n = len(hosts)
    sent: defaultdict[tuple[str, str], float] = defaultdict(float)
    for rank, host in enumerate(hosts):
        peer = hosts[(rank + 1) % n]
        if peer != host:
            sent[host, peer] += 2 * (n - 1) / n * size
    return dict(sent)
