"""Measures what the fabric carries between two hosts, and refuses link rates that this machine can't keep up with."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeVar

from harmonics_emu.emulate.network import namespace_of
from harmonics_emu.emulate.sandbox import across
from harmonics_emu.errors import HarmonicsError, UsageError
from topologies.addressing import host_interface
from topologies.fabric import Fabric
from topologies.shaping import goodput_bps

MODEST_BPS = 500_000_000
"""Rates up to here are carried by any machine that runs at all, and are not tried."""
ENOUGH = 0.90
"""Of the goodput that a link allows: below it the machine, not the link, sets the pace."""
PORT = 28000
CONNECTIONS = 4
TRY_S = 0.4
TRIES = 4
"""The best one counts: other work on the machine can only make a try look worse."""
SETTLE_S = 0.1
CHUNK = 2**18
DEADLINE_S = 10.0

T = TypeVar("T")
counting = threading.Lock()


def require_capacity(fabric: Fabric) -> float | None:
    """Send over the fastest path of a fabric that stands; UsageError, with the measured rate, if it falls short.

    Returns the goodput in bits per second, None where every link is modest and nothing was tried.
    """
    if max(link.rate_bps for link in fabric.links.values()) <= MODEST_BPS:
        return None
    src, dst, rate_bps = fastest_pair(fabric)
    measured = 0.0
    for _ in range(TRIES):
        measured = max(measured, measure_goodput(fabric, src, dst))
        if measured >= ENOUGH * goodput_bps(rate_bps):
            break
    else:
        raise UsageError(
            f"this machine carries {measured / 1e9:.2f} Gbit/s from {src} to {dst}, where the scenario's links have "
            f"{rate_bps / 1e9:g} Gbit/s: lower the rates (and scale.rate with them), or use a faster machine"
        )
    return measured


def fastest_pair(fabric: Fabric) -> tuple[str, str, int]:
    """Two hosts between which a path has the highest slowest link, the longest such path, and that link's rate.

    Asked of the first two hosts of each rack, which is enough for fabrics whose racks are alike.
    """
    chosen: dict[int, list[str]] = {}
    for host in fabric.hosts:
        chosen.setdefault(host.rack, []).append(host.name)
    hosts = [name for names in chosen.values() for name in names[:2]][:16]
    pairs = [(src, dst) for src, dst in product(hosts, hosts) if src != dst and fabric.paths(src, dst)]

    def slowest_link(pair: tuple[str, str]) -> int:
        return min(fabric.links[name].rate_bps for name in fabric.paths(*pair)[0])

    best = max(pairs, key=lambda pair: (slowest_link(pair), len(fabric.paths(*pair)[0])))
    return (*best, slowest_link(best))


@dataclass(frozen=True, slots=True)
class Stream:
    """TCP from one host to an address of another: its base address, or the one that it has in a job's subnet."""

    src: str
    dst: str
    address: str
    connections: int = 1


def measure_goodput(fabric: Fabric, src: str, dst: str, seconds: float = TRY_S) -> float:
    """TCP payload per second, bits, from one host to another over a few connections."""
    address = str(host_interface(fabric.host_index[dst]).ip)
    return measure_streams([Stream(src, dst, address, CONNECTIONS)], seconds)[0]


def measure_streams(streams: Sequence[Stream], seconds: float, settle_s: float = SETTLE_S) -> list[float]:
    """TCP payload per second, bits, of streams that all run at once, counted after `settle_s`. HarmonicsError if a
    connection can't be made.
    """
    stop = threading.Event()
    received = [0] * len(streams)
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []
    try:
        for number, stream in enumerate(streams):
            listener = _in_namespace(stream.dst, partial(_listen, stream, PORT + number))
            listeners.append(listener)
            for _ in range(stream.connections):
                sender = _in_namespace(stream.src, _client)
                sender.connect((stream.address, PORT + number))
                receiver, _ = listener.accept()
                receiver.settimeout(DEADLINE_S)
                threads.append(threading.Thread(target=_send, args=(sender, stop), daemon=True))
                threads.append(threading.Thread(target=_receive, args=(receiver, received, number), daemon=True))
        for thread in threads:
            thread.start()
        time.sleep(settle_s)
        first, began = list(received), time.monotonic()
        time.sleep(seconds)
        last, ended = list(received), time.monotonic()
    except OSError as error:
        raise HarmonicsError(f"no TCP connection over the fabric: {error}") from None
    finally:
        stop.set()
        for listener in listeners:
            listener.close()
        for thread in threads:
            thread.join(timeout=DEADLINE_S)
    return [(after - before) * 8 / (ended - began) for before, after in zip(first, last, strict=True)]


def _in_namespace(host: str, make: Callable[[], T]) -> T:
    """What `make` returns when it is called in a host's namespace: a socket stays in the one it was made in."""
    return across([namespace_of(host)], lambda _: make())[0]


def _client() -> socket.socket:
    client = socket.socket()
    client.settimeout(DEADLINE_S)
    return client


def _listen(stream: Stream, port: int) -> socket.socket:
    listener = _client()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((stream.address, port))
    listener.listen(stream.connections)
    return listener


def _send(sender: socket.socket, stop: threading.Event) -> None:
    payload = bytes(CHUNK)
    with sender:
        while not stop.is_set():
            try:
                sender.send(payload)
            except OSError:
                return


def _receive(receiver: socket.socket, received: list[int], number: int) -> None:
    buffer = bytearray(CHUNK)
    with receiver:
        while True:
            try:
                count = receiver.recv_into(buffer)
            except OSError:
                return
            if not count:
                return
            with counting:
                received[number] += count
