"""What the two tiers tell each other: small typed values, the same in one process and between several.

Numbers stand for jobs (`Job.index`) and for directed links. Times are seconds, absolute ones count from time zero.
Costs are in parts of the objective S: 0.01 is one per cent of the mean slowdown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from harmonics_emu.simulate.kernel.sharing import Floats, Ints


class JobView(msgspec.Struct, frozen=True, array_like=True):
    """A job as seen from some links.

    start_s: absolute time at which its next iteration begins; `iterations` of them are looked at. weight: of each
    second until their end. compute_s: of each of these iterations in turn, repeating where they are fewer.
    bucket_ready, bucket_bytes: of each bucket, the fraction of compute after which it is ready and its gradient bytes;
    none for a job that only computes. links, usage: the links of the view that it shares with others, and the bytes a
    second there at a rate of 1. scale: its rate at one gradient byte a second. cap: its highest rate, by all links that
    are not named. ranks: how many GPUs it holds. crosses: whether it leaves its rack.
    """

    number: int
    start_s: float
    iterations: int
    weight: float
    compute_s: tuple[float, ...]
    bucket_ready: tuple[float, ...]
    bucket_bytes: tuple[float, ...]
    links: tuple[int, ...]
    usage: tuple[float, ...]
    scale: float
    cap: float
    ranks: int
    crosses: bool


class View(msgspec.Struct, frozen=True, array_like=True):
    """Some links and the jobs on them at `time_s`. capacity: of each link by its number, bytes a second.

    steady: background flows there, as jobs without iterations.
    """

    time_s: float
    capacity: dict[int, float]
    jobs: tuple[JobView, ...]
    steady: tuple[JobView, ...] = ()


class Wish(msgspec.Struct, frozen=True, array_like=True):
    """What a rack wants of a job: its place in the order, 0 for the first, 1 for the last, and what else costs.

    first_cost, last_cost: by how much the rack's cost grows if the job is served before, or after, all others; known of
    jobs that cross racks, as far as the rack's time lasts, and 0 where it is not.
    """

    number: int
    place: float
    first_cost: float
    last_cost: float


class Wishes(msgspec.Struct, frozen=True, array_like=True):
    """Those of one rack by column, packed (int64, float64): the Coordinator joins thousands of them without a loop."""

    numbers: bytes
    places: bytes
    first_costs: bytes
    last_costs: bytes

    def __post_init__(self) -> None:
        lengths = {len(column) for column in (self.numbers, self.places, self.first_costs, self.last_costs)}
        if len(lengths) != 1 or lengths.pop() % np.dtype(np.float64).itemsize:
            raise ValueError("the columns of wishes are not of one length")

    @classmethod
    def of(cls, wishes: Sequence[Wish]) -> Wishes:
        return cls(
            np.array([wish.number for wish in wishes], np.int64).tobytes(),
            np.array([wish.place for wish in wishes], np.float64).tobytes(),
            np.array([wish.first_cost for wish in wishes], np.float64).tobytes(),
            np.array([wish.last_cost for wish in wishes], np.float64).tobytes(),
        )

    @classmethod
    def joined(cls, several: Sequence[Wishes]) -> Wishes:
        return cls(
            b"".join([wishes.numbers for wishes in several]),
            b"".join([wishes.places for wishes in several]),
            b"".join([wishes.first_costs for wishes in several]),
            b"".join([wishes.last_costs for wishes in several]),
        )

    def columns(self) -> tuple[Ints, Floats, Floats, Floats]:
        """Numbers, places, first costs, last costs."""
        return (
            np.frombuffer(self.numbers, np.int64),
            np.frombuffer(self.places, np.float64),
            np.frombuffer(self.first_costs, np.float64),
            np.frombuffer(self.last_costs, np.float64),
        )

    def __iter__(self) -> Iterator[Wish]:
        return (Wish(*row) for row in zip(*(column.tolist() for column in self.columns()), strict=True))


class EpochReport(msgspec.Struct, frozen=True, array_like=True):
    """A Local Scheduler's report. rule_costs: the rack's cost of fair sharing, then of each of orders.RULES' orders;
    infinite if the deadline came first.

    late: whether the deadline came before the search was over, so that wishes are those of a part of it.
    """

    rack: int
    epoch: int
    rule_costs: tuple[float, ...]
    wishes: Wishes
    late: bool


class Fixed(msgspec.Struct, frozen=True, array_like=True):
    """The Global Coordinator's answer: candidates for the levels of jobs that cross racks.

    numbers: the jobs, rising. levels: of each candidate, a level for each of these jobs.
    """

    epoch: int
    numbers: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]


class Fitted(msgspec.Struct, frozen=True, array_like=True):
    """A rack's fit to each candidate: its cost, and the levels of the jobs that stay in the rack, `numbers`."""

    rack: int
    epoch: int
    costs: tuple[float, ...]
    numbers: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]
