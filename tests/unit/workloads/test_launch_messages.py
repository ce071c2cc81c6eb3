"""The launcher's protocol: what is sent is what arrives, however the stream is cut, and garbage stays garbage."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.launch_messages import (
    MAX_LINE,
    AllReduce,
    BackgroundFlow,
    Command,
    JobFinished,
    LaunchJob,
    LineBuffer,
    Program,
    RankExited,
    RankPlace,
    Shutdown,
    StopJob,
    Training,
    User,
    decode_reply,
    decode_request,
    encode_line,
)

PROGRAMS: list[Program] = [
    Training(10, (1, 2, 3), 0.075, 0.5, 0.1),
    AllReduce((8, 16)),
    BackgroundFlow("10.0.0.2", 29000, 10**9),
    Command(("python", "train.py"), "/home/somebody"),
]


def launch(program: Program) -> LaunchJob:
    places = (RankPlace(0, 0, "/proc/7/ns/net"), RankPlace(1, 0))
    return LaunchJob(
        "vision", 3, program, places, "/runs/1", 60.0, user=User(1000, 1000, (27,)), environment={"A": "ä"}
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_launch_arrives_as_it_was_sent(program: Program) -> None:
    assert decode_request(encode_line(launch(program)).rstrip()) == launch(program)


def test_replies_arrive_as_they_were_sent() -> None:
    for reply in (RankExited("vision", 1, None, "SIGKILL", ("last\nwords",)), JobFinished("vision", "done")):
        line = encode_line(reply)
        assert line.count(b"\n") == 1
        assert decode_reply(line) == reply


@given(st.data())
def test_lines_do_not_depend_on_how_the_stream_is_cut(data: st.DataObject) -> None:
    requests = [launch(PROGRAMS[0]), StopJob("x"), Shutdown()]
    stream = b"".join(map(encode_line, requests))
    buffer, decoded = LineBuffer(), []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        decoded += [decode_request(line) for line in buffer.feed(stream[:cut])]
        stream = stream[cut:]
    assert decoded == requests


@given(st.binary())
def test_garbage_raises_nothing_but_what_is_documented(line: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        decode_request(line)


def test_an_endless_line_is_cut_off_and_the_next_one_read() -> None:
    buffer = LineBuffer()
    lines = [line for _ in range(3) for line in buffer.feed(b"x" * (MAX_LINE // 2 + 1))]
    lines += buffer.feed(b"rest\nnext\n")
    assert [len(line) for line in lines] == [MAX_LINE, 4]
    assert lines[-1] == b"next"
