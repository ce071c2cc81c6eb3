"""A rank of real DistributedDataParallel training over gloo that profiles itself; test_profile_replay starts two.

Arguments: rank, world size, folder for the rendezvous and for what rank 0 writes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

WARMUP, ACTIVE = 3, 12
WIDTH = 512
PAUSE_S = 0.03


def main(rank: int, ranks: int, folder: Path) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(8)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    began = []
    plan = schedule(wait=0, warmup=WARMUP, active=ACTIVE, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, record_shapes=True) as profiler:
        for _ in range(WARMUP + ACTIVE):
            began.append(time.monotonic())
            optimizer.zero_grad()
            model(torch.randn(16, WIDTH)).sum().backward()
            optimizer.step()
            time.sleep(PAUSE_S)
            profiler.step()
    if rank == 0:
        profiler.export_chrome_trace(str(folder / "profile.json.gz"))
        count = sum(parameter.numel() for parameter in model.parameters())
        (folder / "truth.json").write_text(json.dumps({"began": began[WARMUP:], "bytes": 4 * count}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
