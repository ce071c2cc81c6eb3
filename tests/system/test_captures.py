"""Captures during runs: nothing of a link is missing, what is lost is told, and no tcpdump outlives its run."""

from __future__ import annotations

import csv
import itertools
import json
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harmonics_emu.emulate.capture import Captures, Tap
from harmonics_emu.emulate.sandbox import STATE
from harmonics_emu.errors import RunFailed
from harmonics_emu.evidence.capture.reader import Capture, read_all, read_capture
from harmonics_emu.shell import run
from tests.system.runs import SMALL, harmonics, processes_in_sandbox, start, wait_for_iterations

USER = (12345, 12346)
ETH_P_ALL, SOL_PACKET, PACKET_STATISTICS = 3, 263, 6
FRAME = bytes.fromhex("020000000002020000000001") + b"\x88\xb5" + bytes(200)


@pytest.fixture
def wire() -> Iterator[socket.socket]:
    """A cable whose one end is `near`, and a socket that sends from the other."""
    run(["ip", "link", "add", "near", "type", "veth", "peer", "name", "far"])
    for end in ("near", "far"):
        Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
        run(["ip", "link", "set", end, "up"])
    STATE.mkdir()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind(("far", 0))
        yield sender


def packets_seen(receiver: socket.socket) -> int:
    """By a packet socket since it was asked last, whether or not there was room for them."""
    seen, _ = struct.unpack("II", receiver.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    return seen


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def captures_of(directory: Path, interface: str = "near", **limits: int) -> Captures:
    # Other users may reach what pytest keeps to itself: the folder's own rights are what counts here.
    for folder in (directory, *directory.parents[:2]):
        folder.chmod(0o755)
    os.chown(directory, *USER)
    return Captures((Tap("near-far", interface, "near-far.pcap"),), directory, USER, **limits)


@pytest.mark.netns
@pytest.mark.sandboxed(deadline_s=30)
def test_a_capture_holds_all_packets_and_belongs_to_the_user(wire: socket.socket, tmp_path: Path) -> None:
    captures = captures_of(tmp_path)
    captures.start()
    # The kernel throws away what is under way to an interface that goes down, or from one that has no carrier yet.
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as beside:
        beside.bind(("near", ETH_P_ALL))
        for _ in range(1000):
            wire.send(FRAME)
        arrived = itertools.accumulate(iter(lambda: packets_seen(beside), None))
        wait_until(lambda: next(arrived) >= 1000)
    run(["ip", "link", "set", "near", "down"])
    captures.watch(1.0)
    run(["ip", "link", "set", "near", "up"])
    wait_until(lambda: Path("/sys/class/net/far/operstate").read_text() == "up\n")
    wire.send(FRAME)
    accounts = captures.stop()
    assert captures.stop() == {}
    (account,) = accounts.values()
    assert (account.link, account.packets, account.drops, account.incomplete) == ("near-far", 1001, 0, None)
    path = tmp_path / "near-far.pcap"
    assert (path.stat().st_uid, path.stat().st_gid, path.stat().st_size) == (*USER, account.bytes)
    packets = read_all(str(path))
    assert len(packets) == 1001
    assert set(packets["wire_bytes"].tolist()) == {len(FRAME)}
    assert account.bytes == 24 + 1001 * (16 + 96), "headers only"


@pytest.mark.netns
@pytest.mark.sandboxed(deadline_s=30)
def test_a_capture_that_is_too_large_or_dies_is_told_from_when_on(wire: socket.socket, tmp_path: Path) -> None:
    captures = captures_of(tmp_path, most_bytes=50_000)
    captures.start()
    deadline = time.monotonic() + 10
    while not captures.taps or (tmp_path / "near-far.pcap").stat().st_size < 60_000:
        assert time.monotonic() < deadline
        wire.send(FRAME)
        time.sleep(0.0005)
    captures.watch(2.5)
    account = captures.stop()["near-far.pcap"]
    assert account.incomplete is not None
    assert "ended 2.5 s into the run, as the file had grown" in account.incomplete
    capture = Capture(str(tmp_path / "near-far.pcap"))
    assert sum(len(chunk) for chunk in read_capture(capture.path, capture)) == account.packets
    assert capture.damage is None

    captures.start()
    (pid,) = processes_in_sandbox("tcpdump")
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    captures.watch(0.5)
    account = captures.stop()["near-far.pcap"]
    assert account.drops is None
    assert account.incomplete is not None
    assert "it ended 0.5 s into the run (tcpdump: listening on near" in account.incomplete


@pytest.mark.netns
@pytest.mark.sandboxed(deadline_s=30)
@pytest.mark.usefixtures("wire")
def test_a_capture_that_does_not_begin_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"the capture of near-far did not begin: .*No such device"):
        captures_of(tmp_path, "nowhere").start()


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.format(name="small", iterations=20).replace("workers: 2", "workers: 2, placement: spread"))
    return str(path)


@pytest.mark.ovs
@pytest.mark.torch
@pytest.mark.sandboxed(deadline_s=120)
def test_captures_of_a_run_have_every_byte_that_its_links_counted(scenario: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = harmonics("run", scenario, "--capture", "all", "--out", str(out))
    assert done.returncode in (0, 3), done.stderr
    carried: dict[str, int] = {}
    for row in csv.DictReader((out / "links.csv").open()):
        carried[row["link"]] = int(row["bytes"])
    files = sorted((out / "captures").glob("*.pcap"))
    assert len(files) == 6
    read = harmonics("pcap", *map(str, files), "--json")
    shown = json.loads(read.stdout)
    assert (shown["grouping"], shown["directions"]) == ("run", "run")
    assert all(file["complete"] and file["reported_drops"] == 0 for file in shown["files"])
    seen: dict[str, int] = {}
    for flow in shown["flows"]:
        seen[flow["link"]] = seen.get(flow["link"], 0) + flow["counts"]["bytes"]
    assert seen == carried
    assert [job["collectives"] for job in shown["jobs"]] == [20, 20]
    explained = json.loads(harmonics("explain", str(out), "--json").stdout)
    assert len(explained["links"]) == 4
    for link in explained["links"]:
        spans, packets = link["contended_s"]["spans"], link["contended_s"]["packets"]
        # Spans also hold what a busy machine adds to each collective; packets are seen where they were sent.
        assert 0 < packets <= 1.4 * spans


@pytest.mark.ovs
@pytest.mark.torch
@pytest.mark.sandboxed(deadline_s=90)
def test_captures_end_with_a_run_that_is_killed_and_can_be_read(tmp_path: Path) -> None:
    endless = tmp_path / "endless.yaml"
    text = SMALL.format(name="endless", iterations=100000).replace("workers: 2", "workers: 2, placement: spread")
    endless.write_text(text + 'capture: ["spine0>leaf1"]\n')
    out = tmp_path / "run"
    process = start("run", str(endless), "--out", str(out))
    wait_for_iterations(out, process)
    assert len(processes_in_sandbox("tcpdump")) == 1
    deadline = time.monotonic() + 20
    while (out / "captures" / "leaf1-spine0.pcap").stat().st_size < 50_000:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.kill()
    process.communicate()
    while processes_in_sandbox("tcpdump"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    read = harmonics("pcap", "--run", str(out), "--json")
    assert read.returncode == 0, read.stderr
    (file,) = json.loads(read.stdout)["files"]
    assert (file["link"], file["packets"] > 100) == ("leaf1-spine0", True)


def test_wrong_captures_are_refused_before_anything_is_built(scenario: str, tmp_path: Path) -> None:
    done = harmonics("run", scenario, "--capture", "leaf0-spine9", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "the fabric has no link 'leaf0-spine9' to capture" in done.stderr
    assert "leaf0-spine0" in done.stderr
    assert not (tmp_path / "run").exists()
