"""The step-by-step collectives, all ranks of a job in one process: right results, and the catalogue's bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Queue

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.collectives import COLLECTIVES, rank_transfers
from workloads.job import Job
from workloads.programs.algorithms import Place
from workloads.programs.exchange import STEP_BY_STEP, expected_pieces
from workloads.programs.training import Bucket, check_result

pytestmark = pytest.mark.torch

LATE_S = 20.0


class Mailboxes:
    """What is under way between the ranks, and how many bytes have gone each way."""

    def __init__(self) -> None:
        self.under_way: defaultdict[tuple[int, int, int], Queue[torch.Tensor]] = defaultdict(Queue)
        self.sent: defaultdict[tuple[int, int], int] = defaultdict(int)


@dataclass
class Arrival:
    """A receive: it writes when it is waited for, and fails rather than hang."""

    into: torch.Tensor
    box: Queue[torch.Tensor]

    def wait(self) -> None:
        self.into.copy_(self.box.get(timeout=LATE_S))


class Sent:
    def wait(self) -> None:
        pass


@dataclass
class MailboxPeers:
    rank: int
    mailboxes: Mailboxes

    def send(self, tensor: torch.Tensor, rank: int, tag: int = 0) -> Sent:
        self.mailboxes.under_way[self.rank, rank, tag].put(tensor.clone())
        self.mailboxes.sent[self.rank, rank] += tensor.nbytes
        return Sent()

    def receive(self, tensor: torch.Tensor, rank: int, tag: int = 0) -> Arrival:
        return Arrival(tensor, self.mailboxes.under_way[rank, self.rank, tag])


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """A job whose collective can join its ranks, placed rack by rack on up to three racks."""
    collective = draw(st.sampled_from(sorted(STEP_BY_STEP)))
    ranks, servers, stages = draw(st.integers(2, 9)), 1, None
    racks = 1
    if collective == "hierarchical-all-reduce":
        racks = draw(st.integers(1, 3))
        ranks = racks * draw(st.integers(1, 3))
    if collective == "parameter-server":
        servers = draw(st.integers(1, ranks))
    if collective in ("pipeline", "stage-all-reduce"):
        stages = draw(st.sampled_from([stages for stages in range(1, ranks + 1) if ranks % stages == 0]))
    hosts = tuple(f"r{rank * racks // ranks}h{rank}" for rank in range(ranks))
    return Job("job", 0, "ddp", hosts, 1, collective=collective, servers=servers, stages=stages)


RACK_OF = {f"r{rack}h{host}": rack for rack in range(3) for host in range(9)}


@settings(max_examples=60, deadline=None)
@given(jobs(), st.integers(1, 40_000))
def test_results_are_right_and_the_bytes_those_of_the_catalogue(job: Job, elements: int) -> None:
    elements *= job.ranks
    racks = tuple(RACK_OF[host] for host in job.hosts)
    places = [Place(rank, job.ranks, racks, job.servers, job.stages or job.ranks) for rank in range(job.ranks)]
    # What each element holds depends on its position too, so that a piece in the wrong place is noticed.
    pattern = torch.arange(elements) % 7
    values = [3 * rank + 1 for rank in range(job.ranks)]
    buckets = [(pattern * value).float() for value in values]
    mailboxes = Mailboxes()
    with ThreadPoolExecutor(job.ranks) as pool:
        running = [
            pool.submit(STEP_BY_STEP[job.collective], MailboxPeers(place.rank, mailboxes), place, bucket)
            for place, bucket in zip(places, buckets, strict=True)
        ]
        for rank in running:
            rank.result()
    for place, bucket in zip(places, buckets, strict=True):
        for value, piece, shape in pieces(expected_pieces(job.collective, place, values), bucket, pattern):
            assert torch.equal(piece, (shape * value).float())
    predicted = rank_transfers(job, RACK_OF)
    assert set(mailboxes.sent) == set(predicted)
    for pair, share in predicted.items():
        assert mailboxes.sent[pair] == pytest.approx(share * 4 * elements, abs=8 * job.ranks)


def pieces(
    expected: tuple[float | None, ...], bucket: torch.Tensor, pattern: torch.Tensor
) -> Iterator[tuple[float, torch.Tensor, torch.Tensor]]:
    """Each piece whose content is known: its value, and what stands there of the bucket and the pattern."""
    parts = (torch.tensor_split(tensor, len(expected)) for tensor in (bucket, pattern))
    for value, piece, shape in zip(expected, *parts, strict=True):
        if value is not None:
            yield value, piece, shape


def test_a_rank_notices_a_wrong_result() -> None:
    place = Place(rank=1, ranks=3, racks=(0, 0, 0), servers=1, stages=3)
    right = [
        Bucket(torch.full((6,), 1.0 + 2.0 + 3.0), "ring-all-reduce", 1.0),
        Bucket(torch.tensor([1.0, 1.0, 2.0, 2.0, 3.0, 3.0]), "all-gather", 1.0),
        Bucket(torch.tensor([0.0, 0.0, 6.0, 6.0, 0.0, 0.0]), "reduce-scatter", 1.0),
    ]
    check_result(place, 0, right)
    for collective in COLLECTIVES:
        with pytest.raises(RuntimeError, match=f"rank 1: {collective} of bucket 3 is not"):
            check_result(place, 0, [*right, Bucket(torch.zeros(6), collective, 1.0)])
