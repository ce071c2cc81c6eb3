"""What a rank does with each of its gradient buckets: any collective of workloads.collectives, over torch.distributed.

gloo's own ring all-reduce, all-gather and all-to-all send what the catalogue says. Its reduce-scatter is half of an
all-reduce thrown away, its broadcast another tree, and the rest it does not have: those are in `algorithms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType

import torch
import torch.distributed as dist

from workloads.collectives import (
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
    COLLECTIVES,
    HALVING_DOUBLING_ALL_REDUCE,
    HIERARCHICAL_ALL_REDUCE,
    PARAMETER_SERVER,
    PIPELINE,
    REDUCE_SCATTER,
    RING_ALL_REDUCE,
    STAGE_ALL_REDUCE,
    TREE_ALL_REDUCE,
    Ranks,
)
from workloads.programs import algorithms
from workloads.programs.algorithms import Peers, Place, Transfer

Wait = Callable[[], object]
"""Returns when a collective that was started is done; raises what went wrong in it."""

STEP_BY_STEP: Mapping[str, Callable[[Peers, Place, torch.Tensor], None]] = MappingProxyType(
    {
        HALVING_DOUBLING_ALL_REDUCE: algorithms.halving_doubling_all_reduce,
        TREE_ALL_REDUCE: algorithms.tree_all_reduce,
        HIERARCHICAL_ALL_REDUCE: algorithms.hierarchical_all_reduce,
        REDUCE_SCATTER: algorithms.ring_reduce_scatter,
        BROADCAST: algorithms.broadcast,
        PARAMETER_SERVER: algorithms.parameter_server,
        PIPELINE: algorithms.pipeline,
        STAGE_ALL_REDUCE: algorithms.stage_all_reduce,
    }
)


BUCKETS_AT_ONCE = 2
"""As gloo does with collectives of its own: what waits for a message leaves the links to the next bucket."""
TAGS, NUMBERS = 2**16, 2**15
"""Tags of one collective (they are ranks), and collectives before a number returns: more than an iteration has."""


@dataclass(frozen=True)
class GlooPeers:
    """The other ranks of the default process group, as one collective sees them.

    number: tells the messages of collectives that run at the same time apart. It is equal on all ranks.
    """

    number: int

    def send(self, tensor: torch.Tensor, rank: int, tag: int = 0) -> Transfer:
        return _begun(dist.isend(tensor, rank, tag=self.number * TAGS + tag))

    def receive(self, tensor: torch.Tensor, rank: int, tag: int = 0) -> Transfer:
        return _begun(dist.irecv(tensor, rank, tag=self.number * TAGS + tag))


class Exchange:
    """Collectives, as one rank takes part in them. ValueError where one can't join the ranks.

    by_nccl: over NCCL, which has those of workloads.devices.NCCL_COLLECTIVES; else over gloo.
    """

    def __init__(self, place: Place, collectives: Iterable[str], *, by_nccl: bool = False) -> None:
        names = tuple(map(str, range(place.ranks)))
        for collective in collectives:
            COLLECTIVES[collective](Ranks(names, place.racks, place.servers, place.stages), 1.0)
        self._place, self._by_nccl = place, by_nccl
        self._threads = ThreadPoolExecutor(BUCKETS_AT_ONCE)
        # All ranks start the same collectives in the same order.
        self._numbers = cycle(range(NUMBERS))

    def start(self, bucket: torch.Tensor, collective: str) -> Wait:
        """Begin a collective on a bucket whose elements are a multiple of the ranks; its result is left in there."""
        own = torch.tensor_split(bucket, self._place.ranks)[self._place.rank]
        if collective == RING_ALL_REDUCE:
            return _begun(dist.all_reduce(bucket, async_op=True)).wait
        if collective == ALL_GATHER:
            return _begun(dist.all_gather_into_tensor(bucket, own.clone(), async_op=True)).wait
        if collective == ALL_TO_ALL:
            return _begun(dist.all_to_all_single(bucket, bucket.clone(), async_op=True)).wait
        if collective == REDUCE_SCATTER and self._by_nccl:
            return _begun(dist.reduce_scatter_tensor(own, bucket, async_op=True)).wait
        run, peers = STEP_BY_STEP[collective], GlooPeers(next(self._numbers))
        return self._threads.submit(run, peers, self._place, bucket).result


def expected_pieces(collective: str, place: Place, values: Sequence[float]) -> tuple[float | None, ...]:
    """What equal pieces of a rank's bucket hold after a collective that rank i began with a bucket full of values[i].

    None for a piece whose content the collective leaves open.
    """
    if collective in (ALL_GATHER, ALL_TO_ALL):
        return tuple(values)
    if collective == BROADCAST:
        return (values[0],)
    width = place.ranks // place.stages
    if collective == PIPELINE:
        return (sum(values[place.rank % width :: width]),)
    if collective == STAGE_ALL_REDUCE:
        first = place.rank // width * width
        return (sum(values[first : first + width]),)
    if collective == REDUCE_SCATTER:
        return _only(place.rank, place.ranks, sum(values))
    if collective == PARAMETER_SERVER:
        if place.servers == place.ranks:
            return (sum(values),)
        total = sum(values[place.servers :])
        return _only(place.rank, place.servers, total) if place.rank < place.servers else (total,)
    return (sum(values),)


def _only(piece: int, pieces: int, value: float) -> tuple[float | None, ...]:
    return tuple(value if number == piece else None for number in range(pieces))


def _begun(work: dist.Work | None) -> dist.Work:
    """torch returns no work to those outside a group."""
    if work is None:
        raise RuntimeError("this rank is not in the process group")
    return work
