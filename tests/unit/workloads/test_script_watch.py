"""What looks on while a user's script runs: on a page, and in processes of scripts with a torch of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workloads.job_page import JobPage
from workloads.output_files import spans_path
from workloads.own_scripts.script_watch import Watch, sizes_of
from workloads.own_scripts.watching import lay_out, watched
from workloads.span_writer import SpanWriter
from workloads.spans import read_spans

TORCH = {
    "torch/__init__.py": "import torch.autograd, torch.optim.optimizer\n",
    "torch/autograd/__init__.py": "def backward(*losses):\n    pass\n",
    "torch/optim/__init__.py": "",
    "torch/optim/optimizer.py": """
hooks = []
def register_optimizer_step_post_hook(hook):
    hooks.append(hook)
def step():
    for hook in hooks:
        hook(None, (), {})
""",
    "torch/distributed/__init__.py": "from torch.distributed.distributed_c10d import *\n",
    "torch/distributed/distributed_c10d.py": """
import time
class Work:
    def wait(self):
        time.sleep(0.02)
class Tensor:
    def __init__(self, size):
        self.size = size
    def numel(self):
        return self.size
    def element_size(self):
        return 4
def all_reduce(tensor, async_op=False):
    work = Work()
    if async_op:
        return work
    work.wait()
def barrier():
    all_reduce(Tensor(1))
""",
}
"""As much of torch as is looked at."""
TRAIN = """
import torch, torch.distributed as dist, time
from torch.optim.optimizer import step
dist.barrier()
for _ in range(3):
    time.sleep(0.03)
    dist.all_reduce(dist.Tensor(1000))
    dist.all_reduce(dist.Tensor(500), async_op=True).wait()
    STEP
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with `torch`, and `watch`, laid out."""
    for name, text in TORCH.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lay_out(tmp_path / "watch")
    return tmp_path


def run_script(place: Path, text: str, page: Path | None = None) -> subprocess.CompletedProcess[str]:
    """As rank 0 of a job with a page, unless another is named."""
    if page is None:
        page = place / "page"
        started = JobPage.create(page, 1)
        started.release(time.monotonic_ns())
        started.close()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(place / "site")}
    environment = watched(environment, place / "watch", page, place, "job", 0)
    return subprocess.run(
        [sys.executable, "-c", text], env=environment, cwd=place, capture_output=True, text=True, timeout=30
    )


@pytest.mark.parametrize("step", ["step()", "pass"])
def test_iterations_of_a_script_that_knows_nothing(place: Path, step: str) -> None:
    """With an optimizer they end with its step, without one where the first collective comes again."""
    done = run_script(place, TRAIN.replace("STEP", step))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rows = read_spans(spans_path(place, "job", 0))
    assert rows["iteration"].tolist() == [0, 1, 2]
    assert (rows["end_s"][:-1] == rows["start_s"][1:]).all()
    waiting = rows["end_s"] - rows["start_s"] - rows["compute_s"]
    assert ((waiting >= 0.04) & (waiting < 0.1)).all()
    page = JobPage.open(place / "page")
    assert (page.progress(0).iterations, page.progress(0).begun, page.progress(0).bytes) == (3, 3, 3 * 6000)


def test_the_first_collective_of_an_iteration_waits_at_the_gate(tmp_path: Path) -> None:
    page = JobPage.create(tmp_path / "page", 1)
    now_ns = time.monotonic_ns()
    page.release(now_ns)
    page.hold_gates_until(now_ns + 10**9)
    page.set_gates(0, [now_ns + 20_000_000, now_ns + 60_000_000])
    watch = Watch(page, 0, SpanWriter(tmp_path / "spans", 0))
    for _ in range(2):
        for size in (10, 20, 10):
            watch.collective("all_reduce", [size])
        watch.stepped()
    rows = read_spans(tmp_path / "spans")
    # Until there was a step, the first collective's coming again began an iteration.
    assert len(rows) == 3
    assert (rows["gate_s"][:2] > 0.01).all()
    assert rows["gate_s"][2] == 0
    assert time.monotonic_ns() >= now_ns + 60_000_000


@pytest.mark.parametrize(
    ("page", "said"),
    [("nowhere", "no gates and no iterations of this rank: FileNotFoundError"), ("other", "ValueError")],
)
def test_a_script_runs_on_without_a_page(place: Path, page: str, said: str) -> None:
    (place / "other").write_text("something else")
    done = run_script(place, TRAIN.replace("STEP", "print('trained')"), page=place / page)
    assert (done.returncode, done.stdout) == (0, 3 * "trained\n")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


def test_a_script_runs_on_when_looking_fails(place: Path) -> None:
    """A full disk, say: the spans can't be written any more."""
    spoil = "import os; os.close(3); os.close(4)\n"
    done = run_script(place, "import torch\n" + spoil + TRAIN.replace("STEP", "step()\n    print('trained')"))
    assert (done.returncode, done.stdout) == (0, 3 * "trained\n")
    assert done.stderr.count("\n") == 1
    assert "no more gates and iterations of this rank" in done.stderr


def test_a_script_keeps_its_own_modules_and_site_settings(place: Path) -> None:
    (place / "site" / "sitecustomize.py").write_text("print('site')\n")
    (place / "site" / "workloads.py").write_text("print('own workloads')\n")
    done = run_script(place, "import workloads, sitecustomize; print(sitecustomize.__file__)")
    assert done.stdout == f"site\nown workloads\n{place / 'site' / 'sitecustomize.py'}\n", done.stderr


def test_processes_that_a_script_forks_are_not_looked_at(place: Path) -> None:
    fork = "import os\nif os.fork() == 0:\n    dist.all_reduce(dist.Tensor(9))\n    os._exit(0)\nos.wait()\n"
    done = run_script(place, TRAIN.replace("STEP", "step()") + fork)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(read_spans(spans_path(place, "job", 0))) == 3


def test_sizes_are_those_of_tensors_and_lists_of_them() -> None:
    class Tensor:
        def numel(self) -> int:
            return 3

        def element_size(self) -> int:
            return 2

    class Operation:
        tensor = Tensor()

    assert sizes_of(([Tensor(), Tensor()], Tensor(), "sum", None, [Operation()], [])) == [12, 6, 6]
