"""Framing of control messages between the processes of one run, over Unix stream sockets.

A frame is a 4-byte big-endian length and one msgpack array: protocol version, request id, seconds that the sender will
wait, body. Which bodies there are is the business of the modules that use this one (see `control`). The answer to
a request carries its id, so a late answer to a request that was given up is told from the one that is awaited.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from pathlib import Path

import msgspec

from harmonics_emu.errors import HarmonicsError

VERSION = 1
MAX_BYTES = 64 * 2**20
"""The largest frame: more than the rules of any fabric that one machine can emulate."""
SOCKET_PATH_BYTES = 107
_HEADER = struct.Struct("!I")
_CHUNK = 2**20


class WireError(HarmonicsError):
    """The other process could not be reached, did not answer in time, or sent what is no frame."""


class Frame(msgspec.Struct, array_like=True, frozen=True):
    """One message. timeout_s is how long the sender of a request waits for its answer; 0 in answers."""

    version: int
    request: int
    timeout_s: float
    body: msgspec.Raw


_frames = msgspec.msgpack.Decoder(Frame)


def send_frame(connection: socket.socket, frame: Frame, deadline: float) -> None:
    """Write one frame before `deadline` (time.monotonic seconds). WireError if it is too large or can't be sent."""
    payload = msgspec.msgpack.encode(frame)
    if len(payload) > MAX_BYTES:
        raise WireError(f"a message of {len(payload)} bytes is above the limit of {MAX_BYTES}")
    try:
        connection.settimeout(_remaining(deadline))
        connection.sendall(_HEADER.pack(len(payload)) + payload)
    except OSError as error:
        raise WireError(f"the message could not be sent: {_reason(error)}") from None


def receive_frame(connection: socket.socket, deadline: float | None) -> Frame | None:
    """Read one frame before `deadline`, or whenever it comes if that is None. None at the end of the stream.

    WireError on a timeout, a stream that ends inside a frame, a frame above the limit, of another version or malformed.
    """
    header = _receive(connection, _HEADER.size, deadline)
    if header is None:
        return None
    (length,) = _HEADER.unpack(header)
    if length > MAX_BYTES:
        raise WireError(f"the other side announced {length} bytes, above the limit of {MAX_BYTES}")
    payload = _receive(connection, length, deadline)
    if payload is None:
        raise WireError("the connection ended inside a message")
    try:
        frame = _frames.decode(payload)
    except msgspec.MsgspecError as error:
        raise WireError(f"the other side sent no valid frame: {error}") from None
    if frame.version != VERSION:
        raise WireError(f"the other side speaks version {frame.version} of the control protocol, this one {VERSION}")
    return frame


class Channel:
    """The asking end of a connection: one request at a time, each with a deadline.

    peer: what the other process is called in error messages. Waits up to `timeout_s` for the socket to appear.
    """

    def __init__(self, path: Path, peer: str, timeout_s: float = 10.0) -> None:
        self._peer = peer
        self._request = 0
        self._connection = connect(path, peer, timeout_s)

    def call(self, body: bytes, timeout_s: float) -> bytes:
        """Send a request and return the body of its answer. WireError names the peer and what went wrong."""
        deadline = time.monotonic() + timeout_s
        self._request += 1
        try:
            send_frame(self._connection, Frame(VERSION, self._request, timeout_s, msgspec.Raw(body)), deadline)
            while True:
                answer = receive_frame(self._connection, deadline)
                if answer is None:
                    raise WireError("it closed the connection: see its log")
                if answer.request == self._request:
                    return bytes(answer.body)
        except WireError as error:
            raise WireError(f"{self._peer}: {error}") from None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.close()


def listen(path: Path) -> socket.socket:
    """A listening Unix socket at `path`, which must be free. WireError says why not."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        listener.listen()
    except OSError as error:
        listener.close()
        raise WireError(f"can't listen at {path}: {_reason(error)}") from None
    return listener


def connect(path: Path, peer: str, timeout_s: float) -> socket.socket:
    """A connection to the socket of `peer`, once that has appeared. WireError if it does not within `timeout_s`."""
    if len(str(path).encode()) > SOCKET_PATH_BYTES:
        raise WireError(f"{peer}: the socket path {path} is longer than the {SOCKET_PATH_BYTES} bytes of a Unix socket")
    deadline = time.monotonic() + timeout_s
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(path))
            return connection
        except OSError as error:
            connection.close()
            if time.monotonic() > deadline:
                raise WireError(f"{peer}: nothing answers at {path} after {timeout_s:g} s: {_reason(error)}") from None
        time.sleep(0.01)


def _receive(connection: socket.socket, length: int, deadline: float | None) -> bytes | None:
    """Exactly `length` bytes, or None if the stream ends before the first of them."""
    received = bytearray()
    while len(received) < length:
        try:
            connection.settimeout(None if deadline is None else _remaining(deadline))
            piece = connection.recv(min(_CHUNK, length - len(received)))
        except OSError as error:
            raise WireError(f"no complete message came: {_reason(error)}") from None
        if not piece:
            if received:
                raise WireError("the connection ended inside a message")
            return None
        received += piece
    return bytes(received)


def _remaining(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _reason(error: OSError) -> str:
    return "its time ran out" if isinstance(error, TimeoutError) else error.strerror or str(error)
