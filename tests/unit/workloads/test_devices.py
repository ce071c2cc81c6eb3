"""Which device and backend ranks get, by figures of machines that are not at hand, and what they find set."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.devices import Accelerators, Choice, DeviceError, Wanted, choose, machine_gpus, visible_to
from workloads.launch_messages import Command, LaunchJob, RankPlace, Training
from workloads.rank import rank_environment

NONE, ONE, EIGHT = Accelerators(0, False), Accelerators(1, True), Accelerators(8, True)
RING = frozenset({"ring-all-reduce"})


def wanted(
    device: str = "auto",
    backend: str = "auto",
    *,
    computes: bool = True,
    gpus: tuple[int, ...] = (0, 1, 4, 5),
    collectives: frozenset[str] = RING,
) -> Wanted:
    return Wanted(device, backend, computes, gpus, collectives)


@pytest.mark.parametrize(
    ("job", "found", "device", "backend"),
    [
        (wanted(), NONE, "cpu", "gloo"),
        (wanted("cpu"), EIGHT, "cpu", "gloo"),
        (wanted(computes=False), EIGHT, "cpu", "gloo"),
        (wanted(), EIGHT, "cuda:4", "nccl"),
        (wanted("cuda", computes=False), EIGHT, "cuda:4", "nccl"),
        (wanted(backend="nccl", computes=False), EIGHT, "cuda:4", "nccl"),
        (wanted(backend="gloo"), EIGHT, "cuda:4", "gloo"),
        # One GPU for all: they compute on it, and talk through the CPU's memory.
        (wanted(), ONE, "cuda:0", "gloo"),
        # Two of its ranks would share a GPU.
        (wanted(gpus=(0, 1, 8, 9)), EIGHT, "cuda:0", "gloo"),
        (wanted(), Accelerators(8, False), "cuda:4", "gloo"),
        (wanted(collectives=RING | {"parameter-server"}), EIGHT, "cuda:4", "gloo"),
    ],
)
def test_what_rank_2_gets(job: Wanted, found: Accelerators, device: str, backend: str) -> None:
    assert choose(job, 2, found) == Choice(device, backend)


@pytest.mark.parametrize(
    ("job", "found", "why"),
    [
        (wanted("cuda"), NONE, "device cuda: torch can use no GPU here"),
        (wanted(backend="nccl"), NONE, "backend nccl: this torch has no NCCL; use gloo"),
        (wanted(backend="nccl"), Accelerators(0, True), "backend nccl: torch can use no GPU here; use gloo"),
        (wanted("cpu", "nccl"), EIGHT, "backend nccl moves data between GPUs, but the job's device is cpu"),
        (wanted(backend="nccl"), ONE, "it needs a GPU for each rank, but 4 ranks share 1; use gloo"),
        (wanted(backend="nccl", collectives=frozenset({"broadcast"})), EIGHT, "backend nccl: it has no broadcast"),
    ],
)
def test_what_cannot_be_had_is_told(job: Wanted, found: Accelerators, why: str) -> None:
    with pytest.raises(DeviceError, match=why):
        choose(job, 0, found)


def test_the_gpus_of_a_machine(tmp_path: Path) -> None:
    assert machine_gpus({}, tmp_path / "none") == ()
    for address in ("0000:01:00.0", "0000:41:00.0"):
        (tmp_path / address).mkdir()
    assert machine_gpus({}, tmp_path) == ("0", "1")
    assert machine_gpus({"CUDA_VISIBLE_DEVICES": "3,GPU-5f"}, tmp_path) == ("3", "GPU-5f")
    assert machine_gpus({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == ()


def test_a_script_sees_the_gpus_of_its_own_host() -> None:
    """So that the one with number LOCAL_RANK is the rank's own."""
    machine = ("0", "1", "2", "3")
    assert visible_to((4, 5), machine, "auto") == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert visible_to((2,), ("GPU-a", "GPU-b"), "cuda") == {"CUDA_VISIBLE_DEVICES": "GPU-a"}
    assert visible_to((2, 3), ("0",), "auto") == {"CUDA_VISIBLE_DEVICES": "0"}
    assert visible_to((2,), machine, "cpu") == {"CUDA_VISIBLE_DEVICES": ""}
    assert visible_to((2,), (), "auto") == {}


def test_a_rank_is_kept_on_its_fabric() -> None:
    """Sockets of the job's own address, and no way beside it."""
    places = tuple(RankPlace(rank, rank % 2, f"/run/netns/h{rank // 2}", gpu=rank) for rank in range(4))
    command = LaunchJob(
        "j", 0, Command(("python",), "/"), places, "/run", 5, nic_label="eth0j3",
        environment={"CUDA_VISIBLE_DEVICES": "0,1,2,7", "NCCL_NET": "IB"},
    )  # fmt: skip
    environment = rank_environment(command, places[3])
    assert (environment["NCCL_SOCKET_IFNAME"], environment["GLOO_SOCKET_IFNAME"]) == ("=eth0j3", "eth0j3")
    assert environment["NCCL_NET"] == "Socket"
    assert {environment[f"NCCL_{way}_DISABLE"] for way in ("P2P", "SHM", "IB")} == {"1"}
    assert environment["CUDA_VISIBLE_DEVICES"] == "2,7"
    built_in = LaunchJob("j", 0, Training(1, (4,)), places, "/run", 5, environment={"CUDA_VISIBLE_DEVICES": "0,1"})
    environment = rank_environment(built_in, places[3])
    assert environment["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "NCCL_SOCKET_IFNAME" not in environment
