"""Background traffic: a TCP flow between two hosts, paced by the kernel. Rank 0 sends, rank 1 listens and receives.

It runs until its job's stop is requested, and counts the bytes that passed in its page.
"""

from __future__ import annotations

import socket
import struct
import time

from workloads.job_page import JobPage, State
from workloads.launch_messages import BackgroundFlow
from workloads.programs.runtime import Settings
from workloads.timer import Timeout, Timer

SO_MAX_PACING_RATE = 47
CHUNK = 64 * 1024
STOP_CHECK_S = 0.1
"""How long a send or receive may block before the stop is looked for."""
RETRY_S = 0.02


def run(params: BackgroundFlow, settings: Settings, rank: int) -> None:
    """Send or receive until stopped.

    Timeout if the two do not meet in time, OSError if the flow breaks, ValueError without a page to be stopped by.
    """
    if settings.page_path is None:
        raise ValueError("background traffic needs a page: nothing else can stop it")
    page = JobPage.open(settings.page_path)
    deadline = time.monotonic() + settings.timeout_s
    connection = _connect(params, deadline) if rank == 0 else _accept(params, deadline)
    with connection:
        connection.settimeout(STOP_CHECK_S)
        page.mark(rank, State.READY)
        page.wait_for_start(Timer(), settings.timeout_s)
        page.mark(rank, State.RUNNING)
        if rank == 0:
            _send(connection, page)
        else:
            _receive(connection, page)
    page.mark(rank, State.DONE)


def _connect(params: BackgroundFlow, deadline: float) -> socket.socket:
    """A paced connection to the receiver, tried until it listens."""
    bytes_per_second = struct.pack("L", max(1, params.rate_bps // 8))
    while True:
        sender = socket.socket()
        sender.settimeout(STOP_CHECK_S)
        sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, bytes_per_second)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * CHUNK)
        try:
            sender.connect((params.address, params.port))
            return sender
        except OSError as error:
            sender.close()
            if time.monotonic() > deadline:
                raise Timeout(f"no connection to {params.address}:{params.port}: {error}") from None
        time.sleep(RETRY_S)


def _accept(params: BackgroundFlow, deadline: float) -> socket.socket:
    """The sender's connection."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((params.address, params.port))
        listener.listen(1)
        listener.settimeout(max(RETRY_S, deadline - time.monotonic()))
        try:
            return listener.accept()[0]
        except TimeoutError:
            raise Timeout(f"nobody connected to {params.address}:{params.port}") from None


def _send(connection: socket.socket, page: JobPage) -> None:
    chunk = bytes(CHUNK)
    total = 0
    while page.stop_before is None:
        try:
            total += connection.send(chunk)
        except TimeoutError:
            continue
        page.count_bytes(0, total)


def _receive(connection: socket.socket, page: JobPage) -> None:
    chunk = bytearray(4 * CHUNK)
    total = 0
    while True:
        try:
            received = connection.recv_into(chunk)
        except TimeoutError:
            if page.stop_before is not None:
                return
            continue
        if not received:
            if page.stop_before is None:
                raise ConnectionError("the sender closed the flow before it was stopped")
            return
        total += received
        page.count_bytes(1, total)
