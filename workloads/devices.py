"""What ranks compute on and talk by: CPU or GPU, gloo or NCCL. A plain decision; torch is asked elsewhere.

Ranks of an emulated cluster share one machine's GPUs: number g of the cluster is GPU g modulo how many there are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.collectives import ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER, RING_ALL_REDUCE

AUTO, CPU, CUDA = "auto", "cpu", "cuda"
GLOO, NCCL = "gloo", "nccl"
NCCL_COLLECTIVES = frozenset({RING_ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER})
"""Those that NCCL has itself; the others are made of sends and receives, over gloo."""
NCCL_ON_THE_FABRIC: Mapping[str, str] = {
    "NCCL_NET": "Socket",
    "NCCL_IB_DISABLE": "1",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
}
"""Keeps NCCL off the ways inside one machine (NVLink, PCIe, shared memory), so that data crosses the fabric."""
DRIVER = Path("/proc/driver/nvidia/gpus")


class DeviceError(Exception):
    """A job asks for a device or backend that it can't have here."""


@dataclass(frozen=True)
class Accelerators:
    """What there is. gpus: how many torch can use. nccl: whether this torch has NCCL."""

    gpus: int
    nccl: bool


@dataclass(frozen=True)
class Wanted:
    """What a job asks for. computes: whether its ranks compute, rather than sleep. gpus: of each rank, its number in
    the cluster. collectives: those that it has.
    """

    device: str
    backend: str
    computes: bool
    gpus: tuple[int, ...]
    collectives: frozenset[str]


@dataclass(frozen=True)
class Choice:
    """device: 'cpu' or 'cuda:N'. backend: 'gloo' or 'nccl'."""

    device: str
    backend: str


def choose(wanted: Wanted, rank: int, found: Accelerators) -> Choice:
    """The device and backend of one rank. DeviceError for what it can't have.

    auto: a GPU for ranks that compute where there is one; NCCL where every rank has a GPU of its own, and it has the
    job's collectives. What goes over gloo stays in the CPU's memory.
    """
    if wanted.device == CUDA and not found.gpus:
        raise DeviceError(
            "device cuda: torch can use no GPU here (see torch.cuda.is_available() and CUDA_VISIBLE_DEVICES); "
            "use device: cpu"
        )
    _refuse_nccl(wanted, found)
    use_gpu = wanted.device == CUDA or wanted.backend == NCCL
    if wanted.device == AUTO and wanted.computes and found.gpus:
        use_gpu = True
    if not use_gpu:
        return Choice(CPU, GLOO)
    by_nccl = wanted.backend == NCCL or (wanted.backend == AUTO and not _against_nccl(wanted, found))
    return Choice(f"{CUDA}:{wanted.gpus[rank] % found.gpus}", NCCL if by_nccl else GLOO)


def _refuse_nccl(wanted: Wanted, found: Accelerators) -> None:
    if wanted.backend != NCCL:
        return
    if wanted.device == CPU:
        raise DeviceError("backend nccl moves data between GPUs, but the job's device is cpu; use gloo")
    against = _against_nccl(wanted, found)
    if against is not None:
        raise DeviceError(f"backend nccl: {against}; use gloo")


def _against_nccl(wanted: Wanted, found: Accelerators) -> str | None:
    if not found.nccl:
        return "this torch has no NCCL"
    if not found.gpus:
        return "torch can use no GPU here"
    ranks, own = len(wanted.gpus), len({gpu % found.gpus for gpu in wanted.gpus})
    if own < ranks:
        return f"it needs a GPU for each rank, but {ranks} ranks share {own}"
    missing = sorted(wanted.collectives - NCCL_COLLECTIVES)
    return f"it has no {missing[0]}" if missing else None


def fabric_variables(interface: str) -> dict[str, str]:
    """Environment that keeps gloo and NCCL on one interface."""
    # Without the equals sign NCCL would take every interface whose name begins so.
    return {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": f"={interface}", **NCCL_ON_THE_FABRIC}


def machine_gpus(environment: Mapping[str, str], driver: Path = DRIVER) -> tuple[str, ...]:
    """The GPUs that a job may use, as CUDA_VISIBLE_DEVICES names them: all of the machine's, or those it allows."""
    allowed = environment.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None:
        return tuple(name for name in allowed.split(",") if name)
    try:
        return tuple(str(number) for number in range(len(os.listdir(driver))))
    except OSError:
        return ()


def visible_to(gpus: Sequence[int], machine: Sequence[str], device: str) -> dict[str, str]:
    """Environment by which a script that takes GPU LOCAL_RANK gets its own. gpus: of the ranks on its host, in order.

    Empty where the machine has none, so that scripts see what they would see anyway.
    """
    if device == CPU:
        return {"CUDA_VISIBLE_DEVICES": ""}
    if not machine:
        return {}
    # CUDA stops reading at a name that it has seen.
    names = dict.fromkeys(machine[gpu % len(machine)] for gpu in gpus)
    return {"CUDA_VISIBLE_DEVICES": ",".join(names)}
