"""The page that a job's ranks share with their supervisor: a small memory-mapped file, best kept on a tmpfs.

Reading and writing never block and cost microseconds. Everything is a signed 64-bit word in the machine's byte
order, 8-byte aligned and written by one side only, so a reader never sees half a word:

    word 0                 LAYOUT, the version of this layout
    word 1                 number of ranks
    words 2 to 7           supervisor: ZERO, START, STOP_BEFORE, GATED_BEFORE, HELD_UNTIL; ranks: GATE_OPENED
    words 8 to 8+2G-1      gates: iteration + 1 and release time, G = GATES of them; iteration i uses gate i % G
    then 8 words a rank    STATE, ITERATIONS, PROGRESS, BYTES, GATES_OPENED, BEGUN, BEGUN_AT; supervisor: SLOWED, by
                           how many thousandths of its compute time the rank is to compute longer: a cache line each

All times are CLOCK_MONOTONIC in nanoseconds, the same in every network namespace. 0 means 'not yet'.

Gates are named by their iteration, so a plan that comes late or twice moves no other iteration's gate. They hold on
a lease, HELD_UNTIL, which the supervisor moves on while its plan is good: when that time has passed, a gate whose
own time has not come opens for the whole job. Nobody waits for a supervisor that is gone.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from workloads.timer import Timeout, Timer

LAYOUT = 0x4A50_0003
GATES = 256
POLL_S = 0.002
"""How often a rank looks for its job's release."""
LOOK_NS = 10_000_000
"""How often a rank that waits at a gate looks whether the plan has changed: a gate moved later than this before its
time may be met by some ranks as it was."""
MISSING_LOOKS = 3
"""So often a rank looks in vain for the gate that it is to wait at before it opens it."""
SPIN_NS = 100_000
"""The last stretch before a release or a gate is waited out on the CPU."""
STOP_MARGIN = 3
"""A stop takes effect so many iterations after the furthest rank's: none of them can have passed it unseen."""

_RANKS, _ZERO, _START, _STOP_BEFORE, _GATED_BEFORE, _HELD_UNTIL, _GATE_OPENED = range(1, 8)
_GATES_AT = 8
_RANKS_AT = _GATES_AT + 2 * GATES
_RANK_WORDS = 8
_STATE, _ITERATIONS, _PROGRESS, _BYTES, _GATES_OPENED, _BEGUN, _BEGUN_AT, _SLOWED = range(8)


class State(IntEnum):
    """How far a rank has come."""

    STARTING = 0
    READY = 1
    RUNNING = 2
    DONE = 3


@dataclass(frozen=True, slots=True)
class RankProgress:
    """What one rank last wrote. iterations: finished ones. progress_ns: when it wrote last, 0 for never.

    bytes: payload sent (or received) so far, by programs that count it. gates_opened: gates that opened because their
    lease had run out. begun: iterations whose collectives have begun, the last of them at begun_ns.
    """

    state: State
    iterations: int
    progress_ns: int
    bytes: int
    gates_opened: int
    begun: int
    begun_ns: int


class JobPage:
    """One job's page. The supervisor makes it with `create`, ranks join with `open`."""

    def __init__(self, memory: mmap.mmap, path: Path) -> None:
        self.path = path
        self._memory = memory
        self._words = memoryview(memory).cast("q")

    @classmethod
    def create(cls, path: Path, ranks: int, owner: tuple[int, int] | None = None) -> JobPage:
        """Make the page of a job with `ranks` ranks, which processes of `owner` (uid, gid) will write to.

        FileExistsError if the path is taken.
        """
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.truncate(file, 8 * (_RANKS_AT + _RANK_WORDS * ranks))
            if owner is not None:
                os.fchown(file, *owner)
            page = cls(mmap.mmap(file, 0), path)
        finally:
            os.close(file)
        page._words[_RANKS] = ranks
        page._words[0] = LAYOUT
        return page

    @classmethod
    def open(cls, path: Path) -> JobPage:
        """Join a page that is there. ValueError if the file is no page of this layout; OSError if it can't be read."""
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            size = os.fstat(file).st_size
            if size < 8 * _RANKS_AT:
                raise ValueError(f"{path} is not a job page")
            page = cls(mmap.mmap(file, 0), path)
        finally:
            os.close(file)
        if page._words[0] != LAYOUT or size != 8 * (_RANKS_AT + _RANK_WORDS * page.ranks):
            page.close()
            raise ValueError(f"{path} is not a job page of layout {LAYOUT:#x}")
        return page

    def close(self) -> None:
        self._words.release()
        self._memory.close()

    @property
    def ranks(self) -> int:
        return self._words[_RANKS]

    # The supervisor's side.

    def release(self, start_ns: int, zero_ns: int | None = None) -> None:
        """Let the ranks begin at `start_ns`; give them a few milliseconds to notice.

        zero_ns: time zero of the run, from which spans count; the start itself unless given.
        """
        self._words[_ZERO] = start_ns if zero_ns is None else zero_ns
        self._words[_START] = start_ns

    def request_stop(self) -> None:
        """Ask the built-in programs to end: all before the same iteration, so that no rank waits for another."""
        furthest = max((self.progress(rank).iterations for rank in range(self.ranks)), default=0)
        self._words[_STOP_BEFORE] = furthest + STOP_MARGIN

    def set_gates(self, first: int, releases_ns: Sequence[int]) -> None:
        """When the collectives of iteration `first` and of those after it may begin; the ones behind are not gated.

        Only the first GATES release times have room. An empty sequence opens all gates.
        """
        releases_ns = releases_ns[:GATES]
        for iteration, release_ns in enumerate(releases_ns, first):
            at = _GATES_AT + 2 * (iteration % GATES)
            if self._words[at] != iteration + 1:
                self._words[at] = 0
            self._words[at + 1] = release_ns
            self._words[at] = iteration + 1
        self._words[_GATED_BEFORE] = first + len(releases_ns)

    def hold_gates_until(self, when_ns: int) -> None:
        """Until when gates may keep ranks waiting."""
        self._words[_HELD_UNTIL] = when_ns

    def slow_down(self, rank: int, factor: float) -> None:
        """Have a rank of a built-in program compute `factor` times as long (1 or more) from its next iteration on."""
        self._words[self._rank_at(rank) + _SLOWED] = round(1000 * (factor - 1))

    def next_collective(self) -> int:
        """The first iteration whose collectives no rank has begun."""
        return max((self._words[self._rank_at(rank) + _BEGUN] for rank in range(self.ranks)), default=0)

    def progress(self, rank: int) -> RankProgress:
        at = self._rank_at(rank)
        state, *rest = self._words[at : at + 7].tolist()
        return RankProgress(State(state), *rest)

    def all_at_least(self, state: State) -> bool:
        """Whether every rank has come as far as `state`."""
        return all(self._words[self._rank_at(rank) + _STATE] >= state for rank in range(self.ranks))

    # The ranks' side.

    @property
    def zero_ns(self) -> int:
        return self._words[_ZERO]

    @property
    def start_ns(self) -> int:
        return self._words[_START]

    @property
    def stop_before(self) -> int | None:
        """The iteration before which all ranks end; None to run on."""
        return self._words[_STOP_BEFORE] or None

    def compute_factor(self, rank: int) -> float:
        """How many times as long as planned the rank is to compute."""
        return 1 + self._words[self._rank_at(rank) + _SLOWED] / 1000

    def mark(self, rank: int, state: State) -> None:
        self._words[self._rank_at(rank) + _STATE] = state
        self._words[self._rank_at(rank) + _PROGRESS] = time.monotonic_ns()

    def finish_iteration(self, rank: int, iterations: int, now_ns: int) -> None:
        """Say that `iterations` iterations are done."""
        at = self._rank_at(rank)
        self._words[at + _ITERATIONS] = iterations
        self._words[at + _PROGRESS] = now_ns

    def count_bytes(self, rank: int, total: int) -> None:
        """Say that `total` bytes of payload have passed so far."""
        self._words[self._rank_at(rank) + _BYTES] = total

    def wait_for_start(self, timer: Timer, timeout_s: float) -> int:
        """Sleep until the job is released; returns how late the rank was, ns. Timeout if no release comes."""
        deadline_ns = time.monotonic_ns() + int(timeout_s * 1e9)
        while not self.start_ns:
            if self.stop_before is not None:
                raise Timeout("the job was stopped before its release")
            if time.monotonic_ns() > deadline_ns:
                raise Timeout(f"the job was not released within {timeout_s:g} s of being ready")
            time.sleep(POLL_S)
        return timer.sleep_until(self.start_ns, spin_ns=SPIN_NS)

    def wait_at_gate(self, timer: Timer, rank: int, iteration: int) -> int:
        """Wait until the collectives of `iteration` may begin, and say that they do; returns nanoseconds waited.

        `timer` keeps how late gates opened.
        """
        waited_ns = 0
        if iteration < self._words[_GATED_BEFORE]:
            arrived_ns = time.monotonic_ns()
            self._await_release(timer, rank, iteration)
            waited_ns = time.monotonic_ns() - arrived_ns
        at = self._rank_at(rank)
        self._words[at + _BEGUN_AT] = time.monotonic_ns()
        self._words[at + _BEGUN] = iteration + 1
        return waited_ns

    def _await_release(self, timer: Timer, rank: int, iteration: int) -> None:
        gate = _GATES_AT + 2 * (iteration % GATES)
        missing = 0
        while iteration < self._words[_GATED_BEFORE] and self._words[_GATE_OPENED] <= iteration:
            now_ns, held_until_ns = time.monotonic_ns(), self._words[_HELD_UNTIL]
            known = self._words[gate] == iteration + 1
            release_ns = self._words[gate + 1]
            if known and release_ns <= now_ns:
                return
            # A gate is missing for as long as it takes to write it: longer means that nobody will.
            missing = 0 if known else missing + 1
            if now_ns >= held_until_ns or missing > MISSING_LOOKS:
                self._words[_GATE_OPENED] = iteration + 1
                self._words[self._rank_at(rank) + _GATES_OPENED] += 1
                return
            look_ns = min(now_ns + LOOK_NS, held_until_ns)
            if known and release_ns <= look_ns:
                timer.keep_gate(timer.sleep_until(release_ns, spin_ns=SPIN_NS))
                return
            time.sleep((look_ns - now_ns) / 1e9)

    def _rank_at(self, rank: int) -> int:
        if not 0 <= rank < self.ranks:
            raise IndexError(f"{self.path} has {self.ranks} ranks, no rank {rank}")
        return _RANKS_AT + _RANK_WORDS * rank
