"""How one rank takes part in the collectives that gloo does not have, step by step with sends and receives.

Each function works on one gradient bucket, a flat tensor, in place, and returns when this rank is through. Who sends
what to whom is what workloads.collectives says, and is taken from there where it is more than a ring.

Where data goes over several hops (trees, servers, pipelines) a bucket is cut into chunks: while one is on its second
hop the next one is on its first, so that all hops are busy at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch

from workloads.collectives import broadcast_tree, double_tree, halving_doubling_members, rack_members

CHUNK_BYTES = 32 * 1024
"""Small against a bucket, so that many hops cost little more than one; large against gloo's 96 bytes a message."""
MICRO_BATCHES_A_STAGE = 4
"""GPipe's rule: with four micro-batches a stage, filling and draining a pipeline costs next to nothing. Of a small
bucket there are fewer, so that none is smaller than a chunk."""


class Transfer(Protocol):
    """A send or a receive under way."""

    def wait(self) -> object: ...


class Peers(Protocol):
    """The other ranks. Between two ranks, transfers of one tag are matched in the order in which they are begun."""

    def send(self, tensor: torch.Tensor, rank: int, tag: int = 0) -> Transfer: ...

    def receive(self, tensor: torch.Tensor, rank: int, tag: int = 0) -> Transfer: ...


@dataclass(frozen=True)
class Place:
    """One rank among `ranks`. racks, servers, stages: as in workloads.collectives.Ranks."""

    rank: int
    ranks: int
    racks: tuple[int, ...]
    servers: int
    stages: int


def halving_doubling_all_reduce(peers: Peers, place: Place, bucket: torch.Tensor) -> None:
    """Each rank ends with the sum: halves of what is left are exchanged and added, then handed back doubling."""
    extra, members = halving_doubling_members(place.ranks)
    rank = place.rank
    if rank < 2 * extra and rank % 2 == 0:
        peers.send(bucket, rank + 1).wait()
        peers.receive(bucket, rank + 1).wait()
        return
    if rank < 2 * extra:
        _add_from(peers, bucket, rank - 1)
    exchanges = _halves(bucket, members, members.index(rank))
    received = [torch.empty_like(kept) for _, kept, _ in exchanges]
    halving = [peers.receive(into, partner) for into, (partner, _, _) in zip(received, exchanges, strict=True)]
    # What a partner has been given comes back only after it has it, so the receive can wait in the same memory.
    doubling = [peers.receive(given, partner) for partner, _, given in reversed(exchanges)]
    leaving = []
    for (partner, kept, given), into, transfer in zip(exchanges, received, halving, strict=True):
        leaving.append(peers.send(given, partner))
        transfer.wait()
        kept += into
    for (partner, kept, _), transfer in zip(reversed(exchanges), doubling, strict=True):
        leaving.append(peers.send(kept, partner))
        transfer.wait()
    if rank < 2 * extra:
        leaving.append(peers.send(bucket, rank - 1))
    _wait(leaving)


def _halves(
    bucket: torch.Tensor, members: Sequence[int], position: int
) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
    """(partner, what is kept, what the partner is given) of each halving step."""
    exchanges = []
    distance = len(members) // 2
    while distance:
        lower, upper = torch.tensor_split(bucket, 2)
        bucket, given = (upper, lower) if position & distance else (lower, upper)
        exchanges.append((members[position ^ distance], bucket, given))
        distance //= 2
    return exchanges


def ring_reduce_scatter(peers: Peers, place: Place, bucket: torch.Tensor) -> None:
    """Each rank ends with the sum of its own piece of the bucket; the other pieces hold sums of some ranks."""
    _reduce_scatter(peers, bucket, range(place.ranks), place.rank)


def hierarchical_all_reduce(peers: Peers, place: Place, bucket: torch.Tensor) -> None:
    """Each rank ends with the sum: a piece in its rack, that piece across racks, then all pieces in its rack."""
    groups = rack_members(place.racks)
    within = next(group for group in groups if place.rank in group)
    across = [group[within.index(place.rank)] for group in groups]
    piece = _reduce_scatter(peers, bucket, within, place.rank)
    _reduce_scatter(peers, piece, across, place.rank)
    _all_gather(peers, piece, across, place.rank)
    _all_gather(peers, bucket, within, place.rank)


def tree_all_reduce(peers: Peers, place: Place, bucket: torch.Tensor) -> None:
    """Each rank ends with the sum: of each half of the bucket over a tree of its own, both at once."""
    halves = torch.tensor_split(bucket, 2)
    branches = [_branch(place.rank, parents) for parents in double_tree(place.ranks)]
    _sum_over_trees(peers, [(branch, _chunks(half)) for branch, half in zip(branches, halves, strict=True)])


def broadcast(peers: Peers, place: Place, bucket: torch.Tensor) -> None:
    """Each rank ends with what rank 0 has."""
    _hand_down(peers, _branch(place.rank, broadcast_tree(place.ranks)), _chunks(bucket))


def parameter_server(peers: Peers, place: Place, bucket: torch.Tensor) -> None:
    """Each worker ends with the sum of the workers, each server with that of the shard it holds.

    Servers bring no gradients of their own: they begin with zeros. Where all ranks are servers, each is a worker too.
    """
    shards = torch.tensor_split(bucket, place.servers)
    if place.servers == place.ranks:
        others = tuple(rank for rank in range(place.ranks) if rank != place.rank)
        branches = [
            Branch(None, others, rank) if rank == place.rank else Branch(rank, (), rank) for rank in range(place.ranks)
        ]
        _sum_over_trees(peers, [(branch, _chunks(shard)) for branch, shard in zip(branches, shards, strict=True)])
        return
    workers = tuple(range(place.servers, place.ranks))
    if place.rank < place.servers:
        bucket.zero_()
        _sum_over_trees(peers, [(Branch(None, workers, place.rank), _chunks(shards[place.rank]))])
    else:
        _sum_over_trees(peers, [(Branch(server, (), server), _chunks(shard)) for server, shard in enumerate(shards)])


def pipeline(peers: Peers, place: Place, bucket: torch.Tensor) -> None:
    """Activations forward and gradients back, micro-batch by micro-batch: as soon as the last stage has one.

    A stage adds its own bucket to what it hands on, and what comes back is the sum of the whole line of stages.
    """
    width = place.ranks // place.stages
    line = {rank: rank + width for rank in range(place.rank % width, place.ranks - width, width)}
    micro_batches = torch.tensor_split(bucket, min(MICRO_BATCHES_A_STAGE * place.stages, len(_chunks(bucket))))
    _sum_over_trees(peers, [(_branch(place.rank, line), micro_batches)])


def stage_all_reduce(peers: Peers, place: Place, bucket: torch.Tensor) -> None:
    """Each rank ends with the sum of its stage."""
    width = place.ranks // place.stages
    first = place.rank // width * width
    stage = range(first, first + width)
    _reduce_scatter(peers, bucket, stage, place.rank)
    _all_gather(peers, bucket, stage, place.rank)


def _add_from(peers: Peers, part: torch.Tensor, rank: int) -> None:
    received = torch.empty_like(part)
    peers.receive(received, rank).wait()
    part += received


def _reduce_scatter(peers: Peers, part: torch.Tensor, ring: Sequence[int], rank: int) -> torch.Tensor:
    """Returns this rank's piece of the part, summed over the ring."""
    position = ring.index(rank)
    pieces = torch.tensor_split(part, len(ring))
    _pass_around(peers, pieces, ring, position, first=position - 1, add=True)
    return pieces[position]


def _all_gather(peers: Peers, part: torch.Tensor, ring: Sequence[int], rank: int) -> None:
    """Fills in the other pieces of the part, each from the rank that has it."""
    position = ring.index(rank)
    _pass_around(peers, torch.tensor_split(part, len(ring)), ring, position, first=position, add=False)


def _pass_around(
    peers: Peers, pieces: Sequence[torch.Tensor], ring: Sequence[int], position: int, *, first: int, add: bool
) -> None:
    """Send piece `first` to the next rank, and each one that comes after it on to there, but for the last.

    What comes is added to what is here, or takes its place. A chunk goes on as soon as it is here.
    """
    n = len(ring)
    before, after = ring[position - 1], ring[(position + 1) % n]
    passing = [[*_chunks(pieces[(first - step) % n])] for step in range(n)]
    arriving = [
        [(into := torch.empty_like(chunk) if add else chunk, peers.receive(into, before)) for chunk in chunks]
        for chunks in passing[1:]
    ]
    leaving = [peers.send(chunk, after) for chunk in passing[0]] if n > 1 else []
    for step, (chunks, transfers) in enumerate(zip(passing[1:], arriving, strict=True), start=1):
        for chunk, (into, transfer) in zip(chunks, transfers, strict=True):
            transfer.wait()
            if add:
                chunk += into
            if step < n - 1:
                leaving.append(peers.send(chunk, after))
    _wait(leaving)


@dataclass(frozen=True)
class Branch:
    """One rank's neighbours in a tree (the root has no parent), and the tag that keeps the tree's messages apart."""

    parent: int | None
    children: tuple[int, ...]
    tag: int = 0


def _branch(rank: int, parents: Mapping[int, int]) -> Branch:
    """The tag is the tree's root: no two trees of a collective share theirs."""
    root = next((parent for parent in parents.values() if parent not in parents), rank)
    return Branch(parents.get(rank), tuple(child for child, parent in parents.items() if parent == rank), root)


def _chunks(part: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.tensor_split(part, max(1, -(-part.nbytes // CHUNK_BYTES)))


def _sum_over_trees(peers: Peers, trees: Sequence[tuple[Branch, Sequence[torch.Tensor]]]) -> None:
    """Sum each tree's chunks up to its root and hand the sums down, all trees and both ways at once.

    A chunk's sum comes down after its part went up, so both ways can work on the same memory.
    """
    tasks: list[Callable[[], None]] = []
    for branch, chunks in trees:
        tasks.append(partial(_sum_up, peers, branch, chunks))
        if branch.parent is not None:
            tasks.append(partial(_hand_down, peers, branch, chunks))
    with ThreadPoolExecutor(len(tasks)) as pool:
        for running in [pool.submit(task) for task in tasks]:
            running.result()


def _sum_up(peers: Peers, branch: Branch, chunks: Sequence[torch.Tensor]) -> None:
    """Add what the children have and pass it on to the parent; a root hands it down at once."""
    arriving = [
        [(received := torch.empty_like(chunk), peers.receive(received, child, branch.tag)) for child in branch.children]
        for chunk in chunks
    ]
    onward = branch.children if branch.parent is None else (branch.parent,)
    leaving = []
    for chunk, transfers in zip(chunks, arriving, strict=True):
        for received, transfer in transfers:
            transfer.wait()
            chunk += received
        leaving += [peers.send(chunk, rank, branch.tag) for rank in onward]
    _wait(leaving)


def _hand_down(peers: Peers, branch: Branch, chunks: Sequence[torch.Tensor]) -> None:
    arriving = [] if branch.parent is None else [peers.receive(chunk, branch.parent, branch.tag) for chunk in chunks]
    leaving = []
    for number, chunk in enumerate(chunks):
        if arriving:
            arriving[number].wait()
        leaving += [peers.send(chunk, rank, branch.tag) for rank in branch.children]
    _wait(leaving)


def _wait(transfers: Sequence[Transfer]) -> None:
    for transfer in transfers:
        transfer.wait()
