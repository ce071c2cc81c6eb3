"""`bench capture`: how fast captures are read, beside scapy, dpkt and tshark on the same file."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click

from harmonics_emu.bench.synthetic_capture import write_capture
from harmonics_emu.cli.output import print_json, print_table

SIZES = (1_000_000, 10_000_000)
FEW = {"scapy": 50_000, "dpkt": 200_000}
"""Packets that slow readers are given: the first of the same file."""
TSHARK_TIMEOUT_S = 600.0


@click.command("capture")
@click.option("--packets", type=click.IntRange(1), multiple=True, metavar="N", help="Default: 1 and 10 million.")
@click.option("--others/--no-others", default=True, help="Beside scapy, dpkt and tshark, where they are installed.")
@click.option("--json", "as_json", is_flag=True, help='Print {"rows": [...], "others": [...]}.')
def command(packets: tuple[int, ...], others: bool, as_json: bool) -> None:
    """Time `pcap` on made-up captures of two jobs, 80 bytes kept of each packet.

    wall_s: from the file to all that `pcap` tells, in a fresh process, with what was compiled once and kept and with
    the start of Python's modules left out. peak_rss_bytes: of the whole process.

    Others read the smallest file, or its first packets. scapy and dpkt decode each packet and count bytes of each flow,
    tshark prints its table of TCP conversations (-z conv,tcp).
    """
    sizes = sorted(packets or SIZES)
    with tempfile.TemporaryDirectory(prefix="harmonics-emu-") as folder:
        files = {size: Path(folder) / f"{size}.pcap" for size in sizes}
        for size, path in files.items():
            write_capture(path, size)
        rows = [{"reader": "harmonics-emu", **_apart(_examine, files[size], size)} for size in sizes]
        beside = []
        if others:
            for name, read in OTHERS.items():
                if _is_there(name):
                    count = min(sizes[0], FEW.get(name, sizes[0]))
                    beside.append({"reader": name, **_apart(read, files[sizes[0]], count)})
    if as_json:
        print_json({"rows": rows, "others": beside})
        return
    print_table(
        ("reader", "packets", "wall", "packets/s", "peak RSS"),
        (
            (
                row["reader"],
                row["packets"],
                f"{row['wall_s']:.2f} s",
                f"{row['packets_per_s']:.0f}",
                f"{row['peak_rss_bytes'] / 1e6:.0f} MB",
            )
            for row in (*rows, *beside)
        ),
    )
    if len(rows) > 1:
        more, longer = (rows[-1][key] - rows[0][key] for key in ("packets", "wall_s"))
        click.echo(f"Beyond start-up: {more / longer:.0f} packets/s")
    for name in OTHERS if others else ():
        if not _is_there(name):
            click.echo(f"{name} is not installed.")


def _apart(read: Callable[[str, int], float], path: Path, packets: int) -> dict[str, Any]:
    """A row, measured in a process of its own: peak memory never goes down within one."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        wall_s, peak = pool.submit(_measured, read, str(path), packets).result()
    return {"packets": packets, "wall_s": wall_s, "packets_per_s": packets / wall_s, "peak_rss_bytes": peak}


def _measured(read: Callable[[str, int], float], path: str, packets: int) -> tuple[float, int]:
    wall_s = read(path, packets)
    who = resource.RUSAGE_CHILDREN if read is _tshark else resource.RUSAGE_SELF
    return wall_s, resource.getrusage(who).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _examine(path: str, packets: int) -> float:
    from harmonics_emu.evidence.examine import examine

    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.pcap"
        write_capture(small, 1000)
        examine([str(small)])
    began = time.perf_counter()
    examine([path])
    return time.perf_counter() - began


def _scapy(path: str, packets: int) -> float:
    # Through import_module: its layers come with the modules that define them.
    utils = import_module("scapy.utils")
    import_module("scapy.layers.l2")
    inet = import_module("scapy.layers.inet")
    flows: dict[tuple[str, int, str, int], int] = {}
    began = time.perf_counter()
    with utils.PcapReader(path) as reader:
        for packet in islice(reader, packets):
            ip, tcp = packet[inet.IP], packet[inet.TCP]
            key = (ip.src, tcp.sport, ip.dst, tcp.dport)
            flows[key] = flows.get(key, 0) + packet.wirelen
    return time.perf_counter() - began


def _dpkt(path: str, packets: int) -> float:
    dpkt = import_module("dpkt")
    flows: dict[tuple[bytes, int, bytes, int], int] = {}
    began = time.perf_counter()
    with open(path, "rb") as file:
        for _, content in islice(dpkt.pcap.Reader(file), packets):
            ip = dpkt.ethernet.Ethernet(content).data
            key = (ip.src, ip.data.sport, ip.dst, ip.data.dport)
            flows[key] = flows.get(key, 0) + ip.len + 14
    return time.perf_counter() - began


def _tshark(path: str, packets: int) -> float:
    from harmonics_emu import shell

    began = time.perf_counter()
    shell.run(["tshark", "-r", path, "-q", "-n", "-z", "conv,tcp"], timeout_s=TSHARK_TIMEOUT_S)
    return time.perf_counter() - began


OTHERS = {"scapy": _scapy, "dpkt": _dpkt, "tshark": _tshark}


def _is_there(name: str) -> bool:
    from shutil import which

    return which(name) is not None if name == "tshark" else find_spec(name) is not None
