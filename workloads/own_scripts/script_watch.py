"""Looks on while a user's script trains: holds its collectives at the gate, and reports its iterations.

The script neither imports nor calls any of this. When it imports torch, the functions of torch.distributed are
replaced by ones that look at what they are called with and call the originals, and the gradients of each
DistributedDataParallel are followed. Nothing here may break the script: what goes wrong is told once, and from then on
the script is left alone.

An iteration ends with an optimizer's step. In a script that has no optimizer it begins where the first collective of
the one before comes again. The first one counts from the job's release, so imports and loading are in it.

It needs nothing but Python's own library, and writes what built-in programs write: see workloads.job_page and
workloads.span_writer. Functional collectives (DTensor, torch.compile) and those of NCCL's own call no Python and are
not seen.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from workloads.job_page import JobPage
from workloads.span_writer import SpanWriter
from workloads.timer import Timer

PAGE, RANK, SPANS = "HARMONICS_PAGE", "HARMONICS_RANK", "HARMONICS_SPANS"
"""Environment: the job's page, this rank's number, and the file for its iterations."""

ALL_REDUCES = ("all_reduce", "all_reduce_coalesced")
HALVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_gather_coalesced",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_single",
)
"""Collectives that send half of what an all-reduce of their larger buffer does."""
OTHERS = (
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send",
    "isend",
    "batch_isend_irecv",
)
RECEIVES = ("recv", "irecv")
NOT_WATCHED = (
    "init_process_group",
    "destroy_process_group",
    "new_group",
    "barrier",
    "monitored_barrier",
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
)
"""They call those above, but for a script's housekeeping."""

SETTLE_S = 0.05
"""Between the script's end and Python's: a thread of gloo that still lets go of the last collective's tensors when
Python is taken down aborts the process (3 of 45 ranks on a busy machine, with torch 2.13)."""


class Watch:
    """One rank. `collective` is called before each collective, `stepped` after each optimizer step."""

    def __init__(self, page: JobPage, rank: int, spans: SpanWriter) -> None:
        self._page, self._rank, self._spans = page, rank, spans
        self._timer = Timer()
        self._pid = os.getpid()
        self._inside = threading.local()
        self._broken = False
        self._has_optimizer = False
        self._iteration = 0
        self._first: object = None
        self._began_ns = page.start_ns
        self._gate_ns = 0
        self._blocked_ns = 0
        self._sent = 0
        self._models: list[DataParallel] = []

    @property
    def looking(self) -> bool:
        """Not in the processes that the script forks, nor inside a collective, nor once something went wrong."""
        return not self._broken and os.getpid() == self._pid and not getattr(self._inside, "depth", 0)

    def guarded(self, act: Callable[..., None], *arguments: Any) -> None:
        """Call one of our own functions; if it fails, that is the last one."""
        if self._broken:
            return
        try:
            act(*arguments)
        except Exception as error:
            self._broken = True
            print(f"harmonics-emu: no more gates and iterations of this rank: {error!r}", file=sys.stderr)

    def within(self, original: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call the original, without looking at what it calls."""
        self._inside.depth = getattr(self._inside, "depth", 0) + 1
        try:
            return original(*arguments, **options)
        finally:
            self._inside.depth -= 1

    def collective(self, name: str, sizes: Sequence[int]) -> None:
        """A collective is about to begin: the first one of an iteration waits at the gate. sizes: see sizes_of."""
        signature = (name, *sizes)
        if self._first == signature and not self._has_optimizer:
            self._end(time.monotonic_ns())
        if self._first is None:
            self._first = signature
            self._gate_ns = self._page.wait_at_gate(self._timer, self._rank, self._iteration)
        if name not in RECEIVES:
            self._sent += max(sizes, default=0) // (2 if name in HALVES else 1)

    def follow_model(self, model: DataParallel) -> None:
        model.follow_gradients()
        self._models.append(model)

    def backward_done(self) -> None:
        for model in self._models:
            model.backward_done()

    def waited(self, began_ns: int) -> None:
        """The script has waited for a collective since then."""
        self._blocked_ns += time.monotonic_ns() - began_ns

    def stepped(self, *_: object) -> None:
        """The script has done an optimizer step."""
        self._has_optimizer = True
        if self._first is not None:
            self._end(time.monotonic_ns())

    def finish(self) -> None:
        """The script ends."""
        if self._first is not None and not self._has_optimizer:
            self._end(time.monotonic_ns())
        self._spans.close()
        if self._iteration:
            time.sleep(SETTLE_S)

    def _end(self, now_ns: int) -> None:
        compute_ns = max(0, now_ns - self._began_ns - self._gate_ns - self._blocked_ns)
        zero_ns = self._page.zero_ns
        self._spans.add(
            self._iteration,
            (self._began_ns - zero_ns) / 1e9,
            compute_ns / 1e9,
            self._gate_ns / 1e9,
            (now_ns - zero_ns) / 1e9,
        )
        self._iteration += 1
        self._page.count_bytes(self._rank, self._sent)
        self._page.finish_iteration(self._rank, self._iteration, now_ns)
        self._first, self._began_ns = None, now_ns
        self._gate_ns = self._blocked_ns = 0


def install(environment: Mapping[str, str]) -> None:
    """Have torch looked at when the script imports it. Nothing happens where the environment names no page."""
    if PAGE not in environment:
        return
    rank = int(environment[RANK])
    watch = Watch(JobPage.open(Path(environment[PAGE])), rank, SpanWriter(Path(environment[SPANS]), rank))
    atexit.register(lambda: watch.guarded(watch.finish) if watch.looking else None)
    sys.meta_path.insert(0, _Finder(watch))


class _Finder(MetaPathFinder):
    """Finds the modules of torch that are to be changed, as Python would, and changes them once they are loaded."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._changes: dict[str, Callable[[ModuleType, Watch], None]] = {
            "torch.distributed.distributed_c10d": watch_collectives,
            "torch.nn.parallel.distributed": watch_data_parallel,
            "torch.autograd": watch_backward,
            "torch.optim.optimizer": watch_optimizers,
        }

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        change = self._changes.pop(name, None)
        spec = None if change is None else PathFinder.find_spec(name, path, target)
        if change is None or spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            load(module)
            self._watch.guarded(change, module, self._watch)

        spec.loader.exec_module = load_and_change  # type: ignore[method-assign]
        return spec


def watch_collectives(module: ModuleType, watch: Watch) -> None:
    """Replace the functions of torch.distributed, and the wait for what they have begun."""
    for name in (*ALL_REDUCES, *HALVES, *OTHERS, *RECEIVES):
        if hasattr(module, name):
            setattr(module, name, _watched(name, getattr(module, name), watch))
    for name in NOT_WATCHED:
        if hasattr(module, name):
            setattr(module, name, _passed_by(getattr(module, name), watch))
    wait = module.Work.wait

    @functools.wraps(wait)
    def timed_wait(work: Any, *arguments: Any, **options: Any) -> Any:
        began_ns = time.monotonic_ns()
        result = wait(work, *arguments, **options)
        watch.guarded(watch.waited, began_ns)
        return result

    module.Work.wait = timed_wait


def _watched(name: str, original: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @functools.wraps(original)
    def collective(*arguments: Any, **options: Any) -> Any:
        if not watch.looking:
            return original(*arguments, **options)
        watch.guarded(_announce, watch, name, (*arguments, *options.values()))
        return watch.within(original, *arguments, **options)

    return collective


def _passed_by(original: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @functools.wraps(original)
    def housekeeping(*arguments: Any, **options: Any) -> Any:
        return watch.within(original, *arguments, **options)

    return housekeeping


def _announce(watch: Watch, name: str, arguments: Sequence[Any]) -> None:
    watch.collective(name, sizes_of(arguments))


def sizes_of(arguments: Sequence[Any]) -> list[int]:
    """Bytes of each argument of a collective that is a tensor, a list of tensors or one of P2P operations."""
    found = []
    for argument in arguments:
        items = argument if isinstance(argument, (list, tuple)) else (argument,)
        tensors: list[Any] = [getattr(item, "tensor", item) for item in items]
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors if hasattr(tensor, "element_size")]
        if sizes:
            found.append(sum(sizes))
    return found


class DataParallel:
    """One DistributedDataParallel, whose all-reduces call no Python: gradients tell when they begin.

    Its first bucket goes as soon as the gradients that are in it are there, so the last of them waits at the gate.
    """

    def __init__(self, model: Any, watch: Watch) -> None:
        self._model, self._watch = model, watch
        self._parameters = [one for one in model.module.parameters() if one.requires_grad]
        self._bytes = sum(one.numel() * one.element_size() for one in self._parameters)
        self._ready = 0
        self._begun = False
        self._last_ns = 0

    def follow_gradients(self) -> None:
        for parameter in self._parameters:
            size = parameter.numel() * parameter.element_size()
            parameter.register_hook(functools.partial(self._follow, size))

    def _follow(self, size: int, _: object) -> None:
        if self._watch.looking and self._model.require_backward_grad_sync:
            self._watch.guarded(self._note, size)

    def _note(self, size: int) -> None:
        self._ready += size
        if not self._begun and self._ready >= self._first_bucket():
            self._begun = True
            self._watch.collective("DistributedDataParallel", [self._bytes])
        self._last_ns = time.monotonic_ns()

    def _first_bucket(self) -> int:
        """Its bytes; 1, so that the first gradient counts, where some may be missing or torch does not say."""
        if self._model.find_unused_parameters:
            return 1
        said = self._model._get_ddp_logging_data()
        sizes = said.get("rebuilt_bucket_sizes") or said.get("bucket_sizes") or "1"
        return int(sizes.partition(",")[0])

    def backward_done(self) -> None:
        """All that backward has done since the last gradient is to wait for the all-reduces."""
        if self._begun:
            self._watch.waited(self._last_ns)
        self._begun, self._ready = False, 0


def watch_data_parallel(module: ModuleType, watch: Watch) -> None:
    """Have the gradients of every DistributedDataParallel followed."""
    kind = module.DistributedDataParallel
    build = kind.__init__

    @functools.wraps(build)
    def build_and_follow(model: Any, *arguments: Any, **options: Any) -> None:
        # It talks to the other ranks.
        watch.within(build, model, *arguments, **options)
        if watch.looking:
            watch.guarded(watch.follow_model, DataParallel(model, watch))

    kind.__init__ = build_and_follow


def watch_backward(module: Any, watch: Watch) -> None:
    """Be told when a backward pass is done."""
    backward = module.backward

    @functools.wraps(backward)
    def told_backward(*arguments: Any, **options: Any) -> Any:
        result = backward(*arguments, **options)
        if watch.looking:
            watch.guarded(watch.backward_done)
        return result

    module.backward = told_backward


def watch_optimizers(module: ModuleType, watch: Watch) -> None:
    """Be told of every optimizer's steps."""

    def stepped(*_: object) -> None:
        if watch.looking:
            watch.guarded(watch.stepped)

    module.register_optimizer_step_post_hook(stepped)
