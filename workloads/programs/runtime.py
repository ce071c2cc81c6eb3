"""What the built-in programs have in common: the process group, the start, gates, spans, and their account of time.

Under the launcher a program has a page and an output directory. Under plain torchrun it has neither: it then starts
as soon as its ranks are connected, and prints its spans unless --output-dir is given.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import torch
import torch.distributed as dist

from workloads.collectives import RING_ALL_REDUCE
from workloads.devices import AUTO, CPU, CUDA, GLOO, NCCL, Accelerators, Wanted, choose
from workloads.job_page import JobPage, State
from workloads.output_files import spans_path, timer_path
from workloads.spans import SpanWriter
from workloads.timer import Timer

CPU_MATRIX, GPU_MATRIX = 128, 2048
"""Sides of the matrices of real compute: a product of them takes a fraction of a millisecond."""


@dataclass(frozen=True)
class Settings:
    """How a program is run, whatever it does.

    rendezvous: the file in which its ranks find each other; None for MASTER_ADDR and MASTER_PORT, as torchrun sets
    them. timeout_s: deadline of each wait. device, backend: see workloads.devices. gpus: of each rank, its GPU's number
    in the cluster; empty for the rank's own number.
    """

    job: str = "job"
    index: int = 0
    seed: int = 0
    page_path: Path | None = None
    output_dir: Path | None = None
    rendezvous: Path | None = None
    timeout_s: float = 60.0
    device: str = AUTO
    backend: str = AUTO
    gpus: tuple[int, ...] = ()


class Spans(Protocol):
    """Where finished iterations are recorded; see workloads.spans.ITERATION for the figures."""

    def add(self, iteration: int, start_s: float, compute_s: float, gate_s: float, end_s: float) -> None: ...

    def close(self) -> None: ...


class PrintedSpans:
    """Spans as lines of text on stdout."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def add(self, iteration: int, start_s: float, compute_s: float, gate_s: float, end_s: float) -> None:
        print(
            f"rank {self._rank} iteration {iteration}: start {start_s:.6f} s, compute {compute_s:.6f} s, "
            f"gate {gate_s:.6f} s, end {end_s:.6f} s\n",
            end="",
            flush=True,
        )

    def close(self) -> None:
        pass


class Runtime:
    """One rank of a built-in program, from `connect` to `finish`. RANK and WORLD_SIZE come from the environment.

    collectives: those that it has. computes: whether it computes, rather than sleep. DeviceError where the device or
    the backend that is asked for can't be had.
    """

    def __init__(self, settings: Settings, collectives: Iterable[str] = (), *, computes: bool = False) -> None:
        self.settings = settings
        self.rank = int(os.environ["RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        self.timer = Timer()
        collectives = frozenset(collectives)
        wanted = Wanted(
            settings.device,
            settings.backend,
            computes,
            settings.gpus or tuple(range(self.world_size)),
            collectives,
        )
        self.choice = choose(wanted, self.rank, accelerators())
        # gloo's ring goes from each rank to the one before it, a job's ring from each host to the next one.
        self._backwards = collectives == {RING_ALL_REDUCE} and self.choice.backend == GLOO
        self._load = Load(self.choice.device) if computes else None
        self.page = None if settings.page_path is None else JobPage.open(settings.page_path)
        self.start_ns = 0
        self._zero_ns = 0
        self._sent = 0
        self._spans: Spans = PrintedSpans(self.rank)
        if settings.output_dir is not None:
            self._spans = SpanWriter(spans_path(settings.output_dir, settings.job, self.rank), self.rank)

    def connect(self) -> None:
        """Join the process group; a tiny all-reduce brings all its connections up."""
        if self.choice.device != CPU:
            torch.cuda.set_device(self.choice.device)
        store, rank = None, self.rank
        if self.settings.rendezvous is not None:
            # Without the launcher, the rank that others look for must be where MASTER_ADDR says.
            rank = self.world_size - 1 - self.rank if self._backwards else self.rank
            path = str(self.settings.rendezvous)
            store = dist.FileStore(path, self.world_size)  # type: ignore[attr-defined,unused-ignore]
        dist.init_process_group(
            self.choice.backend,
            store=store,
            rank=rank,
            world_size=self.world_size,
            timeout=timedelta(seconds=self.settings.timeout_s),
        )
        dist.all_reduce(torch.ones(self.world_size, device=self.memory))

    @property
    def memory(self) -> str:
        """The device whose memory holds what is sent: the GPU's for NCCL, else the CPU's."""
        return self.choice.device if self.choice.backend == NCCL else CPU

    def settle(self) -> None:
        """Wait until the collectives that were waited for are done: NCCL's own wait only holds up later kernels."""
        if self.choice.backend == NCCL:
            torch.cuda.synchronize()

    def compute_until(self, when_ns: int) -> None:
        """Compute until then, or sleep."""
        if self._load is None:
            self.timer.sleep_until(when_ns)
        else:
            self._load.work_until(when_ns)

    def wait_for_start(self) -> None:
        """Say that this rank is ready, and wait for the job's release."""
        if self.page is None:
            self.start_ns = self._zero_ns = time.monotonic_ns()
            return
        self.page.mark(self.rank, State.READY)
        self.page.wait_for_start(self.timer, self.settings.timeout_s)
        self.page.mark(self.rank, State.RUNNING)
        self.start_ns, self._zero_ns = self.page.start_ns, self.page.zero_ns

    def should_stop(self, iteration: int) -> bool:
        """Whether the job was asked to end before this iteration (counted from 0)."""
        stop_before = None if self.page is None else self.page.stop_before
        return stop_before is not None and iteration >= stop_before

    def wait_at_gate(self, iteration: int) -> int:
        """Wait until the collectives of `iteration` may begin; returns nanoseconds waited."""
        return 0 if self.page is None else self.page.wait_at_gate(self.timer, self.rank, iteration)

    @property
    def compute_factor(self) -> float:
        """How many times as long as planned this rank is to compute now: more than 1 while it plays a straggler."""
        return 1.0 if self.page is None else self.page.compute_factor(self.rank)

    def record(self, iteration: int, start_ns: int, compute_ns: int, gate_ns: int, end_ns: int, sent: int = 0) -> None:
        """Write a finished iteration's span, and tell the page. sent: the bytes of its gradients."""
        zero_ns = self._zero_ns
        self._spans.add(
            iteration, (start_ns - zero_ns) / 1e9, compute_ns / 1e9, gate_ns / 1e9, (end_ns - zero_ns) / 1e9
        )
        if self.page is not None:
            self._sent += sent
            self.page.count_bytes(self.rank, self._sent)
            self.page.finish_iteration(self.rank, iteration + 1, end_ns)

    def finish(self) -> None:
        """Leave the process group and say that this rank is done."""
        self._spans.close()
        if self.settings.output_dir is not None:
            self.timer.save(timer_path(self.settings.output_dir, self.settings.job, self.rank))
        if self.page is not None:
            self.page.mark(self.rank, State.DONE)
        if dist.is_initialized():
            dist.destroy_process_group()


class Load:
    """Real compute: products of matrices, one after another, on a device."""

    def __init__(self, device: str) -> None:
        self._on_gpu = device != CPU
        side = GPU_MATRIX if self._on_gpu else CPU_MATRIX
        self._matrix = torch.rand(side, side, device=device)

    def work_until(self, when_ns: int) -> None:
        while time.monotonic_ns() < when_ns:
            self._matrix.mm(self._matrix)
            if self._on_gpu:
                torch.cuda.synchronize()


def accelerators() -> Accelerators:
    """What torch finds here."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return Accelerators(gpus, dist.is_nccl_available())


def gradient_tensor(size_bytes: int, pieces: int = 1, device: str = CPU) -> torch.Tensor:
    """A float32 tensor of `size_bytes`, rounded up to whole elements, equally many in each of so many pieces."""
    return torch.zeros(pieces * max(1, -(-size_bytes // (4 * pieces))), device=device)


def argument_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every program takes when it is run by hand or by torchrun."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--job", default=Settings.job, help="name used in output files")
    parser.add_argument("--seed", type=int, default=Settings.seed, help="seed of the compute jitter")
    parser.add_argument("--output-dir", type=Path, help="where to write spans; without it they are printed")
    parser.add_argument("--device", choices=(AUTO, CPU, CUDA), default=AUTO, help="what to compute on")
    parser.add_argument("--backend", choices=(AUTO, GLOO, NCCL), default=AUTO, help="what to communicate by")
    parser.add_argument("--timeout", type=float, default=Settings.timeout_s, help="seconds before a wait is given up")
    return parser


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings given to `argument_parser`."""
    return Settings(
        job=arguments.job,
        seed=arguments.seed,
        output_dir=arguments.output_dir,
        timeout_s=arguments.timeout,
        device=arguments.device,
        backend=arguments.backend,
    )


def byte_sizes(text: str) -> tuple[int, ...]:
    """Sizes in bytes, separated by commas."""
    sizes = tuple(int(part) for part in text.split(","))
    if any(size <= 0 for size in sizes):
        raise argparse.ArgumentTypeError("sizes are positive numbers of bytes, separated by commas")
    return sizes
