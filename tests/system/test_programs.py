"""The built-in programs under plain torchrun, with nothing of ours around them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from harmonics_emu import shell
from workloads.launch_messages import Training
from workloads.programs.runtime import Settings
from workloads.programs.training import run
from workloads.spans import read_spans

pytestmark = pytest.mark.torch

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
DDP = ["--nproc-per-node=2", "-m", "workloads.programs.ddp", "--iterations=3", "--compute=0.02", "--overlap=0.5"]


def test_ddp_prints_its_spans_or_writes_them(tmp_path: Path) -> None:
    options = ["--bucket-bytes=4000,400000,40000"]
    printed = shell.run([*TORCHRUN, *DDP, *options], timeout_s=60).splitlines()
    assert sum(line.startswith("rank 1 iteration 2: start") for line in printed) == 1
    assert len(printed) == 6
    options += ["--collective=tree-all-reduce", "--job=by hand", f"--output-dir={tmp_path}"]
    shell.run([*TORCHRUN, *DDP, *options], timeout_s=60)
    for path in tmp_path.glob("spans/*.spans"):
        assert (read_spans(path)["compute_s"] >= 0.02).all()
    assert len(list(tmp_path.glob("spans/*.spans"))) == 2


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        (2, "fsdp --layer-bytes=4000,400000"),
        (2, "tensor --layers=2 --activation-bytes=40000"),
        (2, "moe --layers=2 --activation-bytes=40000"),
        (3, "ps --servers=1 --bucket-bytes=40000,4000"),
        (4, "pipeline --stages=2 --activation-bytes=400000 --gradient-bytes=800000"),
        (4, "hierarchical --racks=0,0,1,1 --bucket-bytes=40000"),
        (2, "ddp --real-compute --bucket-bytes=40000"),
    ],
)
def test_each_program_runs_by_hand(ranks: int, options: str) -> None:
    """They check their own sums in the end."""
    name, *arguments = options.split()
    program = [f"--nproc-per-node={ranks}", "-m", f"workloads.programs.{name}", "--iterations=2", "--compute=0.02"]
    printed = shell.run([*TORCHRUN, *program, *arguments], timeout_s=60).splitlines()
    assert len(printed) == 2 * ranks
    assert all(0.02 <= float(line.split("compute ")[1].split()[0]) < 1 for line in printed)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with two GPUs, whose memory is the CPU's and whose NCCL is gloo; what is asked of them."""
    asked: list[str] = []
    join = dist.init_process_group
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", asked.append)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: asked.append("synchronize"))
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    monkeypatch.setattr(
        dist, "init_process_group", lambda backend, **more: asked.append(backend) or join("gloo", **more)
    )
    for name in ("ones", "zeros", "rand"):
        make = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *shape, device, make=make: asked.append(str(device)) or make(*shape))
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("GLOO_SOCKET_IFNAME", "lo")):
        monkeypatch.setenv(name, value)
    return asked


@pytest.mark.parametrize(("backend", "memory"), [("nccl", "cuda:1"), ("gloo", "cpu")])
def test_ranks_compute_on_their_gpu(gpus: list[str], backend: str, memory: str, tmp_path: Path) -> None:
    """And over NCCL hold what they send there, over gloo in the CPU's memory."""
    settings = Settings(rendezvous=tmp_path / "store", output_dir=tmp_path, backend=backend, gpus=(3,))
    params = Training(2, (4000,) * 3, compute_s=0.01, program="fsdp", overlap=1.0, real_compute=True)
    run(params, settings)
    assert gpus[:4] == ["cuda:1", "cuda:1", backend, memory]
    assert set(gpus[4:]) == {memory, "synchronize"}
    assert len(read_spans(next(tmp_path.glob("spans/*.spans")))) == 2


def test_allreduce_prints_its_table() -> None:
    sweep = ["--nproc-per-node=2", "-m", "workloads.programs.allreduce", "--sizes=1000,100000", "--iterations=3"]
    table = [line.split() for line in shell.run([*TORCHRUN, *sweep], timeout_s=60).splitlines()]
    assert [row[:2] for row in table if row[0].isdigit()] == [["1000", "250"], ["100000", "25000"]]
