"""Real ranks from a real launcher, each in a network namespace of its own on one bridge."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from harmonics_emu import shell
from tests.system.rank_hosts import Supervisor, connections, make_hosts, open_to_everyone, sent_bytes
from workloads.job_page import JobPage, State
from workloads.launch_messages import (
    AllReduce,
    BackgroundFlow,
    Command,
    JobFinished,
    JobStarted,
    RankExited,
    Rejected,
    Shutdown,
    StopJob,
    Training,
    User,
)
from workloads.output_files import log_path, spans_path, sweep_path, timer_path
from workloads.own_scripts.watching import lay_out
from workloads.spans import read_spans

pytestmark = [pytest.mark.netns, pytest.mark.torch, pytest.mark.sandboxed(deadline_s=60)]

REPOSITORY = Path(__file__).parents[2]
NOBODY = User(uid=65534, gid=65534)
"""Whom the ranks of most tests run as, though the files of a real user's clone may be closed to them."""
SHORT = Training(iterations=6, bucket_bytes=(40_000,) * 12, compute_s=0.04, overlap=0.5, compute_cv=0.1)
ENDLESS = Training(iterations=10**6, bucket_bytes=(40_000,) * 2, compute_s=0.01)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A run directory that belongs to the user of the ranks, below nothing that is closed to them."""
    path = Path(tempfile.mkdtemp(prefix="launcher-test-"))
    os.chown(path, NOBODY.uid, NOBODY.gid)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def supervisor(directory: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor(directory)
    yield supervisor
    supervisor.process.kill()
    supervisor.process.wait()


def paged(page: JobPage | None) -> JobPage:
    assert page is not None
    return page


def shell_script(*lines: str) -> Command:
    return Command(("sh", "-c", "\n".join(lines)), "/tmp")


def is_gone(pid: int, timeout_s: float = 3.0) -> bool:
    """Whether a process ends in time; as process 1 the test reaps what it inherits."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                return True
        except ChildProcessError:
            if not Path(f"/proc/{pid}").exists():
                return True
        time.sleep(0.01)
    return False


def test_two_jobs_train_on_their_own_subnets(supervisor: Supervisor) -> None:
    """Two jobs share four hosts: each has its own addresses, its own spans, and moves the bytes of its ring."""
    hosts = make_hosts(4, jobs=2)
    sent_before = sent_bytes(0)
    pages = [
        paged(supervisor.launch(f"job {index}", SHORT, [*hosts], index=index, user=NOBODY, seed=7)) for index in (0, 1)
    ]
    for page in pages:
        supervisor.wait_for(page, State.READY)
    found = connections(0)
    assert found
    for local, remote in found:
        assert local.split(".")[:2] == remote.split(".")[:2]
        assert local in ("10.1.0.1", "10.2.0.1")
    zero_ns = time.monotonic_ns() + 30_000_000
    pages[0].release(zero_ns)
    pages[1].release(zero_ns + 50_000_000, zero_ns)
    assert {supervisor.expect(JobFinished).status for _ in pages} == {"done"}
    each_ring = 2 * 3 / 4 * sum(SHORT.bucket_bytes) * SHORT.iterations
    assert sent_bytes(0) - sent_before > 2 * each_ring
    computes = []
    for index, page in enumerate(pages):
        assert page.all_at_least(State.DONE)
        for rank in range(4):
            rows = read_spans(spans_path(supervisor.directory, f"job {index}", rank))
            assert rows["iteration"].tolist() == list(range(SHORT.iterations))
            assert rows["start_s"][0] == pytest.approx(0.05 * index, abs=1e-6)
            np.testing.assert_array_equal(rows["start_s"][1:], rows["end_s"][:-1])
            assert (rows["end_s"] - rows["start_s"] > rows["compute_s"]).all()
            assert 0.8 < rows["compute_s"].mean() / SHORT.compute_s < 2
            assert not rows["gate_s"].any()
            computes.append(tuple(rows["compute_s"].round(3)))
            assert json.loads(timer_path(supervisor.directory, f"job {index}", rank).read_text())["sleeps"] > 6
            assert log_path(supervisor.directory, f"job {index}", rank).stat().st_uid == NOBODY.uid
    assert len(set(computes)) == 8


def test_gates_and_a_stop_reach_every_rank(supervisor: Supervisor) -> None:
    hosts = make_hosts(3, jobs=1)
    page = paged(supervisor.launch("gated", ENDLESS, [*hosts]))
    supervisor.wait_for(page, State.READY)
    zero_ns = time.monotonic_ns() + 30_000_000
    page.set_gates(0, [zero_ns + 200_000_000])
    page.hold_gates_until(zero_ns + 60_000_000_000)
    page.release(zero_ns)
    time.sleep(0.5)
    page.request_stop()
    assert supervisor.expect(JobFinished).status == "done"
    rows = [read_spans(spans_path(supervisor.directory, "gated", rank)) for rank in range(3)]
    assert len({len(of_rank) for of_rank in rows}) == 1
    for of_rank in rows:
        first = of_rank[0]
        assert first["end_s"] > 0.2
        assert 0.01 <= first["compute_s"] < 0.1
        assert 0.1 < first["gate_s"] <= first["end_s"] - first["compute_s"]


def test_a_ranks_failure_ends_its_job_with_its_last_words(supervisor: Supervisor) -> None:
    """Every rank of one kind of failure after another; each job is over in 5 s though its other ranks would not end."""
    hosts = make_hosts(3, jobs=1)
    failing = shell_script(
        'if [ "$RANK" != 2 ]; then sleep 60; fi', "echo loading data", "echo no dataset in /data >&2", "exit 3"
    )
    cases = [
        (failing, "rank 2 ended with status 3: no dataset in /data"),
        (Command(("no-such-program",), "/tmp"), "can't run no-such-program in /tmp: No such file or directory"),
        (Command(("true",), "/no/such/directory"), "can't run true in /no/such/directory: No such file or directory"),
    ]
    for number, (command, error) in enumerate(cases):
        began = time.monotonic()
        supervisor.launch(f"case {number}", command, [*hosts], paged=False, user=NOBODY)
        pids = supervisor.expect(JobStarted).pids
        finished = supervisor.expect(JobFinished)
        assert time.monotonic() - began < 5
        assert finished.status == "failed"
        assert error in str(finished.error)
        assert all(is_gone(pid) for pid in pids)
    living = [line.split() for line in shell.run(["ps", "-eo", "stat=,comm="]).splitlines()]
    assert not [stat for stat, name in living if name == "sleep" and not stat.startswith("Z")]
    assert ("loading data", "no dataset in /data") in [
        supervisor.expect(RankExited).tail for _ in range(3 * len(cases))
    ]


def test_a_rank_that_can_not_be_set_up_says_why(supervisor: Supervisor) -> None:
    supervisor.launch("lost", SHORT, ["/run/netns/nowhere"], paged=False)
    assert "/run/netns/nowhere" in str(supervisor.expect(JobFinished).error)
    os.chmod(supervisor.directory, 0o755)
    os.chown(supervisor.directory, 0, 0)
    supervisor.launch("shut out", SHORT, [None], paged=False, user=NOBODY)
    assert "Permission denied" in str(supervisor.expect(JobFinished).error)


def test_a_killed_rank_is_named_though_others_see_a_lost_connection(supervisor: Supervisor) -> None:
    hosts = make_hosts(4, jobs=1)
    page = paged(supervisor.launch("victim", ENDLESS, [*hosts], user=NOBODY))
    pids = supervisor.expect(JobStarted).pids
    supervisor.release(page)
    time.sleep(0.3)
    began = time.monotonic()
    os.kill(pids[1], signal.SIGKILL)
    finished = supervisor.expect(JobFinished)
    assert time.monotonic() - began < 5
    assert (finished.status, finished.error) == ("failed", "rank 1 was killed by SIGKILL")
    assert all(is_gone(pid) for pid in pids)
    assert len(read_spans(spans_path(supervisor.directory, "victim", 1))) > 5


@pytest.mark.parametrize("how", ["killed", "closed", "shut down"])
def test_no_rank_outlives_its_launcher(supervisor: Supervisor, how: str) -> None:
    hosts = make_hosts(2, jobs=1)
    page = paged(supervisor.launch("orphans", ENDLESS, [*hosts], user=NOBODY))
    supervisor.launch("more orphans", Command(("sleep", "60"), "/"), [*hosts], paged=False, index=1)
    pids = supervisor.expect(JobStarted).pids + supervisor.expect(JobStarted).pids
    supervisor.release(page)
    if how == "killed":
        supervisor.process.kill()
    elif how == "closed":
        assert supervisor.process.stdin is not None
        supervisor.process.stdin.close()
    else:
        supervisor.send(Shutdown())
        assert {supervisor.expect(JobFinished).status for _ in range(2)} == {"killed"}
    assert supervisor.process.wait(timeout=5) == (-signal.SIGKILL if how == "killed" else 0)
    assert all(is_gone(pid) for pid in pids)


def test_garbage_is_answered_and_survived(supervisor: Supervisor) -> None:
    bad = [
        b"\n",
        b"garbage\n",
        b"\xff\xfe\n",
        b'{"type": "Nonsense"}\n',
        b'{"type": "StopJob"}\n',
        b"[" * 10**5 + b"\n",
    ]
    supervisor.send_raw(b"".join(bad))
    for _ in bad[1:]:
        assert "not a request" in supervisor.expect(Rejected).error
    supervisor.send(StopJob("nobody"))
    assert supervisor.expect(Rejected).job == "nobody"
    supervisor.launch("empty", SHORT, [], paged=False)
    assert "numbered from 0" in supervisor.expect(Rejected).error
    supervisor.launch("flow", BackgroundFlow("127.0.0.1", 29000, 10**6), [None], paged=False)
    assert "two ranks" in supervisor.expect(Rejected).error
    supervisor.launch("twin", Command(("sleep", "60"), "/"), [None], paged=False, timeout_s=0.5)
    supervisor.launch("twin", Command(("sleep", "60"), "/"), [None], paged=False)
    assert "of this name is running" in supervisor.expect(Rejected).error
    late = supervisor.expect(JobFinished)
    assert (late.job, late.status) == ("twin", "killed")
    assert "deadline of 0.5 s" in str(late.error)
    stubborn = shell_script("trap '' TERM", "sleep 60", "sleep 60")
    supervisor.launch("stubborn", stubborn, [None], paged=False)
    supervisor.expect(JobStarted)
    supervisor.send(StopJob("stubborn"))
    assert supervisor.expect(JobFinished, timeout_s=5).error == "stopped on request"


USER_SCRIPT = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(200, 200))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 200) + dist.get_rank()).square().mean().backward()
    optimizer.step()
weights = [torch.zeros(200, 200) for _ in range(dist.get_world_size())]
dist.all_gather(weights, model.module.weight.data)
assert all(torch.equal(weights[0], other) for other in weights)
print("trained as", os.getuid(), os.environ["HOME"], os.environ["LOCAL_WORLD_SIZE"], os.environ["FLAVOUR"])
open(f"rank{dist.get_rank()}.out", "w").close()
dist.destroy_process_group()
"""


def test_a_users_own_script_trains_unchanged(supervisor: Supervisor) -> None:
    """Over TCPStore in the job's subnet, started when the job is released, in the user's own directory.

    Its second iteration is held at the gate until that is given a time.
    """
    hosts = make_hosts(3, jobs=1)
    open_to_everyone({REPOSITORY, Path(sys.prefix), Path(sys.base_prefix)})
    (supervisor.directory / "train.py").write_text(USER_SCRIPT)
    watch = supervisor.directory / "watch"
    lay_out(watch)
    command = Command((sys.executable, "train.py"), str(supervisor.directory), str(watch))
    environment = {"HOME": "/root", "FLAVOUR": "plain", "PATH": os.environ["PATH"]}
    home = pwd.getpwuid(NOBODY.uid).pw_dir
    page = paged(supervisor.launch("own", command, [*hosts], user=NOBODY, environment=environment, timeout_s=50))
    supervisor.wait_for(page, State.READY)
    assert not list(supervisor.directory.glob("*.out"))
    page.hold_gates_until(time.monotonic_ns() + 60 * 10**9)
    page.set_gates(1, [2**62])
    supervisor.release(page)
    while min(page.progress(rank).iterations for rank in range(3)) < 1:
        time.sleep(0.02)
    time.sleep(0.2)
    assert [page.progress(rank).begun for rank in range(3)] == [1, 1, 1]
    page.set_gates(1, [time.monotonic_ns() + 20_000_000])
    finished = supervisor.expect(JobFinished, timeout_s=50)
    assert finished.status == "done", finished
    said = supervisor.expect(RankExited).tail
    assert f"trained as {NOBODY.uid} {home} 1 plain" in said
    assert len(list(supervisor.directory.glob("*.out"))) == 3
    spans = [read_spans(spans_path(supervisor.directory, "own", rank)) for rank in range(3)]
    assert [rows["iteration"].tolist() for rows in spans] == [[0, 1, 2]] * 3
    assert [(rows["gate_s"] > 0.1).tolist() for rows in spans] == [[False, True, False]] * 3
    assert page.progress(2).bytes == 3 * 4 * 200 * 201


def test_ranks_need_no_file_that_the_launcher_could_read(supervisor: Supervisor) -> None:
    """Hide the whole project, its virtual environment included, before ranks drop their privileges."""
    hide = Command(("mount", "-t", "tmpfs", "-o", "mode=0700", "tmpfs", str(REPOSITORY)), "/")
    supervisor.launch("hide", hide, [None], paged=False, output_dir="/run")
    assert supervisor.expect(JobFinished).status == "done"
    for index, program in enumerate((SHORT, AllReduce((1000,)))):
        page = paged(
            supervisor.launch(f"hidden {index}", program, [None, None], nic_label="lo", index=index, user=NOBODY)
        )
        supervisor.release(page)
        finished = supervisor.expect(JobFinished)
        assert finished.status == "done", finished
    shell.run(["umount", str(REPOSITORY)])


def test_a_sweep_leaves_its_table(supervisor: Supervisor) -> None:
    hosts = make_hosts(3, jobs=1)
    supervisor.release(
        paged(supervisor.launch("sweep", AllReduce((4000, 400_001), iterations=5), [*hosts], user=NOBODY))
    )
    assert supervisor.expect(JobFinished).status == "done"
    table = json.loads(sweep_path(supervisor.directory, "sweep").read_text())
    assert [row["bytes"] for row in table["rows"]] == [4000, 400_004]
    for row in table["rows"]:
        assert row["algbw_Bps"] == pytest.approx(row["bytes"] / row["time_s"])
        assert row["busbw_Bps"] == pytest.approx(row["algbw_Bps"] * 4 / 3)
    printed = log_path(supervisor.directory, "sweep", 0).read_text().splitlines()
    assert len(printed) == 4
    assert len(read_spans(spans_path(supervisor.directory, "sweep", 1))) == 10


def test_background_traffic_keeps_its_rate_until_stopped(supervisor: Supervisor) -> None:
    hosts = make_hosts(2, jobs=0)
    rate_bps = 40_000_000
    flow = BackgroundFlow("10.0.0.2", 29000, rate_bps)
    page = paged(supervisor.launch("flow", flow, [*hosts], user=NOBODY, nic_label=None))
    supervisor.release(page)
    supervisor.wait_for(page, State.RUNNING)
    time.sleep(0.5)
    before, before_ns = page.progress(1).bytes, time.monotonic_ns()
    time.sleep(2)
    received, elapsed_s = page.progress(1).bytes - before, (time.monotonic_ns() - before_ns) / 1e9
    assert received * 8 / elapsed_s == pytest.approx(rate_bps, rel=0.1)
    assert set(connections(0)) == {("10.0.0.1", "10.0.0.2")}
    page.request_stop()
    assert supervisor.expect(JobFinished, timeout_s=5).status == "done"
    assert page.progress(0).bytes >= page.progress(1).bytes > 0


def test_sixteen_ranks_are_ready_at_once(
    supervisor: Supervisor, record_property: Callable[[str, object], None]
) -> None:
    """Far under a second on an idle machine; the bound is for a busy one."""
    hosts = make_hosts(8, jobs=1)
    began_ns = time.monotonic_ns()
    page = paged(supervisor.launch("crowd", SHORT, [*hosts, *hosts], user=NOBODY))
    supervisor.wait_for(page, State.READY)
    ready_s = (max(page.progress(rank).progress_ns for rank in range(16)) - began_ns) / 1e9
    record_property("ready_s", ready_s)
    print(f"imported in {supervisor.import_s:.2f} s, 16 ranks ready {ready_s:.3f} s after the request")
    assert ready_s < 4
    supervisor.release(page)
    assert supervisor.expect(JobFinished).status == "done"
