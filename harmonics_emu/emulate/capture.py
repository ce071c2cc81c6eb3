"""Records the packets of cables during a run: one tcpdump a cable, headers only, each to a file named after it.

A cable's port at its lower switch sees both directions, after the queues have shaped them. tcpdump writes to a file
that is open already and belongs to the run's user, so it needs no right to any path. Its ring in the kernel and its
file are bounded; what is lost in either is told.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from harmonics_emu import shell
from harmonics_emu.emulate.sandbox import STATE
from harmonics_emu.errors import RunFailed
from harmonics_emu.ownership import Owner, acting_as
from harmonics_emu.results.captures import CaptureAccount
from harmonics_emu.results.run_directory import file_name
from topologies.addressing import port_name
from topologies.fabric import Fabric

SNAPSHOT_BYTES = 96
"""Ethernet, IP and TCP with all of its options."""
RING_KIB = 8192
MOST_BYTES = 4 * 2**30
"""Of all files of a run together: some 35 million packets."""
READY_S = 10.0
STOP_S = 10.0
DELIVERED_S = 1.1
"""The kernel hands packets over in blocks, one that is not full after a second."""
COUNTERS = re.compile(rb"(\d+) packets? (captured|dropped by kernel|dropped by interface)")


@dataclass(frozen=True, slots=True)
class Tap:
    """A cable to record: the interface that sees it, and the file's name."""

    cable: str
    interface: str
    file: str


def plan_taps(fabric: Fabric, names: Iterable[str]) -> tuple[Tap, ...]:
    """The taps for cables, or links of them, in the fabric's order and each once. KeyError for another name."""
    wanted = {link.name for name in names for link in fabric.links_named(name)}
    taps = []
    for name, cable in fabric.cables.items():
        if wanted & {cable.up, cable.down}:
            link = fabric.links[cable.up]
            inner, outer = (link.dst, link.src) if link.src in fabric.host_index else (link.src, link.dst)
            taps.append(Tap(name, port_name(inner, outer), f"{file_name(name)}.pcap"))
    return tuple(taps)


@dataclass
class Tcpdump:
    """One running tcpdump, and what became of it: `lost` says from when on packets are missing, None for none."""

    tap: Tap
    packets: BinaryIO
    said: Path
    process: subprocess.Popen[bytes]
    lost: str | None = None

    def is_ready(self) -> bool:
        return b"listening on" in self.said.read_bytes()

    def ended(self) -> bool:
        return self.process.poll() is not None

    def size(self) -> int:
        return os.fstat(self.packets.fileno()).st_size

    def last_line(self) -> str:
        lines = [line for line in self.said.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it said nothing"

    def account(self, zero_unix_s: float | None) -> CaptureAccount:
        """What the ended program counted."""
        counts = {what: int(number) for number, what in COUNTERS.findall(self.said.read_bytes())}
        drops = None
        if b"dropped by kernel" in counts:
            drops = counts[b"dropped by kernel"] + counts.get(b"dropped by interface", 0)
        reasons = [self.lost] if self.lost else []
        if drops:
            reasons.append(f"{drops} packets were lost before they reached the file")
        elif drops is None:
            reasons.append(f"tcpdump did not say what it lost ({self.last_line()})")
        return CaptureAccount(
            link=self.tap.cable,
            bytes=self.size(),
            packets=counts.get(b"captured"),
            drops=drops,
            incomplete="; ".join(reasons) or None,
            zero_unix_s=zero_unix_s,
        )


@dataclass
class Captures:
    """The captures of one run, in its sandbox. Not started, it does nothing and has nothing to tell.

    directory: where files go, of `owner`'s. Call from a thread that outlives the run: the programs die with it.
    zero_unix_s: the run's time zero, seconds since 1970, once it is known.
    """

    taps: tuple[Tap, ...]
    directory: Path
    owner: Owner | None
    most_bytes: int = MOST_BYTES
    zero_unix_s: float | None = None
    _running: list[Tcpdump] = field(default_factory=list)

    def start(self) -> None:
        """Return once every tcpdump listens. RunFailed, with its last line, if one does not within READY_S."""
        for number, tap in enumerate(self.taps):
            self._running.append(self._start(number, tap))
        deadline = time.monotonic() + READY_S
        for one in self._running:
            while not one.is_ready():
                if one.ended() or time.monotonic() > deadline:
                    raise RunFailed(f"the capture of {one.tap.cable} did not begin: {one.last_line()}")
                time.sleep(0.005)

    def watch(self, time_s: float) -> None:
        """Stop what has grown too large, and note what has ended by itself. time_s: since time zero."""
        for one in self._running:
            if one.lost is not None:
                continue
            if one.ended():
                one.lost = f"it ended {time_s:.1f} s into the run ({one.last_line()})"
            elif one.size() > self.most_bytes // len(self._running):
                one.process.send_signal(signal.SIGTERM)
                one.lost = f"it was ended {time_s:.1f} s into the run, as the file had grown to {one.size()} bytes"

    def stop(self) -> dict[str, CaptureAccount]:
        """End all captures once the kernel has handed over what was sent by now; each file's account by its name."""
        if not self._running:
            return {}
        time.sleep(DELIVERED_S)
        for one in self._running:
            with contextlib.suppress(ProcessLookupError):
                one.process.send_signal(signal.SIGTERM)
        for one in self._running:
            try:
                one.process.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
        accounts = {one.tap.file: one.account(self.zero_unix_s) for one in self._running}
        for one in self._running:
            one.packets.close()
        self._running.clear()
        return accounts

    def _start(self, number: int, tap: Tap) -> Tcpdump:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with acting_as(self.owner):
            packets = open(os.open(self.directory / tap.file, flags, 0o644), "wb")  # noqa: SIM115 - closed by stop
        said = STATE / f"capture{number}.log"
        command = ["tcpdump", "-p", "-n", "-s", str(SNAPSHOT_BYTES), "-B", str(RING_KIB)]
        command += ["--time-stamp-precision=nano", "-i", tap.interface, "-w", "-"]
        with said.open("wb") as log:
            process = shell.start(command, log=log, stdout=packets.fileno())
        return Tcpdump(tap, packets, said, process)
