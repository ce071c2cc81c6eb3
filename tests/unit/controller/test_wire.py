"""Framing and the client's end: whatever the other side does, an error with a cause and in time."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.emulate import wire
from harmonics_emu.emulate.control import (
    ControllerClient,
    ControllerError,
    Datapaths,
    Failure,
    Install,
    JobRoutes,
    NetworkState,
    PairPath,
    Report,
    RuleReport,
    RulesDiffer,
    network_state,
)
from harmonics_emu.emulate.wire import Channel, Frame, WireError
from harmonics_emu.schedulers.interface import JobPlan, Plan
from topologies.rack_spine import rack_spine
from workloads.job import Background, Job

FABRIC = rack_spine(racks=2, hosts_per_rack=2, spines=2, host_rate_bps=10**9, uplink_rate_bps=10**9)
Serve = Callable[[Callable[[socket.socket], None]], Path]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serve one connection with the given function; returns the socket's path."""
    listeners: list[socket.socket] = []

    def start(converse: Callable[[socket.socket], None]) -> Path:
        listener = wire.listen(tmp_path / "s")
        listeners.append(listener)

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                converse(connection)

        threading.Thread(target=accept, daemon=True).start()
        return tmp_path / "s"

    yield start
    for listener in listeners:
        listener.close()


def answering(*answers: object) -> Callable[[socket.socket], None]:
    """Answer the requests of a connection with these, in order."""

    def converse(connection: socket.socket) -> None:
        for answer in answers:
            request = wire.receive_frame(connection, time.monotonic() + 5)
            assert request is not None
            reply = Frame(wire.VERSION, request.request, 0.0, msgspec.Raw(msgspec.msgpack.encode(answer)))
            wire.send_frame(connection, reply, time.monotonic() + 5)

    return converse


@given(st.binary(max_size=3 * 2**20), st.integers(0, 2**40))
def test_frames_arrive_as_they_were_sent(content: bytes, request: int) -> None:
    near, far = socket.socketpair()
    frame = Frame(wire.VERSION, request, 1.5, msgspec.Raw(msgspec.msgpack.encode(content)))
    deadline = time.monotonic() + 5
    with near, far:
        sender = threading.Thread(target=wire.send_frame, args=(near, frame, deadline))
        sender.start()
        received = wire.receive_frame(far, deadline)
        sender.join()
    assert received is not None
    assert (received.request, received.timeout_s) == (request, 1.5)
    assert msgspec.msgpack.decode(received.body) == content


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (b"", "controller: it closed the connection"),
        (b"\0\0", "ended inside a message"),
        (struct.pack("!I", 10) + b"abc", "ended inside a message"),
        (struct.pack("!I", wire.MAX_BYTES + 1), "above the limit"),
        (struct.pack("!I", 3) + b"abc", "no valid frame"),
        (struct.pack("!I", 6) + msgspec.msgpack.encode((9, 1, 0.0, None))[:6], "no valid frame"),
    ],
)
def test_what_is_no_answer_is_an_error(serve: Serve, said: bytes, cause: str) -> None:
    def converse(connection: socket.socket) -> None:
        wire.receive_frame(connection, None)
        connection.sendall(said)

    channel = Channel(serve(converse), "controller")
    with pytest.raises(WireError, match=cause):
        channel.call(msgspec.msgpack.encode(None), timeout_s=5)
    channel.close()


def test_another_version_is_an_error(serve: Serve) -> None:
    def converse(connection: socket.socket) -> None:
        wire.receive_frame(connection, None)
        reply = Frame(wire.VERSION + 1, 1, 0.0, msgspec.Raw(msgspec.msgpack.encode(None)))
        wire.send_frame(connection, reply, time.monotonic() + 5)

    with pytest.raises(WireError, match="speaks version 2 of the control protocol, this one 1"):
        Channel(serve(converse), "controller").call(msgspec.msgpack.encode(None), timeout_s=5)


def test_silence_ends_at_the_deadline_and_a_late_answer_is_skipped(serve: Serve) -> None:
    asked = threading.Event()

    def converse(connection: socket.socket) -> None:
        first = wire.receive_frame(connection, None)
        assert first is not None
        asked.wait(5)
        second = wire.receive_frame(connection, None)
        assert second is not None
        for request in (first, second):
            body = msgspec.Raw(msgspec.msgpack.encode(request.request))
            wire.send_frame(connection, Frame(wire.VERSION, request.request, 0.0, body), time.monotonic() + 5)

    channel = Channel(serve(converse), "controller")
    with pytest.raises(WireError, match="controller: no complete message came: its time ran out"):
        channel.call(msgspec.msgpack.encode(None), timeout_s=0.05)
    asked.set()
    assert msgspec.msgpack.decode(channel.call(msgspec.msgpack.encode(None), timeout_s=5)) == 2
    channel.close()


def test_nobody_there_is_an_error_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(WireError, match=r"controller: nothing answers at .*none after 0.05 s: No such file"):
        ControllerClient(tmp_path / "none", timeout_s=0.05)
    with pytest.raises(WireError, match="longer than the 107 bytes"):
        ControllerClient(tmp_path / ("x" * 110), timeout_s=0.05)


def test_failures_become_errors(serve: Serve) -> None:
    rule = RuleReport("leaf0", 1, 0, 200, 5, {"in_port": 2}, (("output", 3),), "pair", "a", "r0h0", "r1h0")
    wrong = msgspec.structs.replace(rule, error="the switch does not hold it")
    client = ControllerClient(
        serve(answering(Datapaths((1, 3)), Failure("no switch is there"), Report([rule, wrong]), Datapaths(())))
    )
    with pytest.raises(ControllerError, match=r"2 of 4 switches connected within 5 s; missing datapath ids: 2, 4"):
        client.wait_for_switches(4, timeout_s=5)
    with pytest.raises(ControllerError, match="controller: no switch is there"):
        client.counters(timeout_s=5)
    with pytest.raises(RulesDiffer) as caught:
        client.install(NetworkState(FABRIC, 0), timeout_s=5)
    assert str(caught.value) == (
        "1 of 2 rules are not as wanted; the first: "
        "pair rule of leaf0 (table 0, in_port=2): the switch does not hold it"
    )
    with pytest.raises(ControllerError, match="answered Datapaths, not Done"):
        client.ping()
    client.close()


def test_a_state_says_what_the_plan_says_and_survives_the_wire() -> None:
    job = Job("a", 3, "ddp", ("r0h0", "r0h0", "r1h1"), 1)
    path = FABRIC.paths("r0h0", "r1h1")[1]
    plan = Plan("test", {"a": JobPlan(level=2, paths={("r0h0", "r1h1"): path})})
    state = network_state(FABRIC, [job], plan, 5, frozenset({"leaf0>spine0"}), [Background("r0h1", "r1h0", 10**6)])
    assert state.jobs == (JobRoutes("a", 3, ("r0h0", "r1h1"), 2, (PairPath("r0h0", "r1h1", path),)),)
    assert state.background == (("r0h1", "r1h0"),)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(Install(state)), type=Install).state == state
