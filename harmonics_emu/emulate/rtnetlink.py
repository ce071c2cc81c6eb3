"""What the kernel says of interfaces, qdiscs, classes and filters, as exact numbers.

Read from rtnetlink rather than from tc's output: tc 6.1 prints HTB classes as text only, with rounded rates, repeats
a JSON key for each match of a u32 filter, and costs a process for each namespace and each kind of object. Message
layouts are those of linux/rtnetlink.h, linux/pkt_sched.h and linux/pkt_cls.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from harmonics_emu.errors import HarmonicsError

TIMEOUT_S = 5.0
ATTEMPTS = 10
"""Dumps that a concurrent change interrupted are repeated so often."""
TICK_S = 64e-9
"""HTB states a burst as the time it takes, in ticks of this length (see /proc/net/psched)."""

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_TC = struct.Struct("=BxHiIII")
_LINK = struct.Struct("=BxHiII")
_HTB_OPTIONS = struct.Struct("=BBHhHI BBHhHI IIIII")
_U32_SELECTOR = struct.Struct(">BBBxHHhhI")
_U32_KEY = struct.Struct(">II")
_U32_KEY_OFFSET = struct.Struct("=i")
_NETEM = struct.Struct("=IIIIII")

_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_DUMP, _NLM_F_DUMP_INTR = 0x01, 0x04, 0x300, 0x10
_RTM_NEWLINK, _RTM_GETLINK, _RTM_GETQDISC, _RTM_GETTCLASS, _RTM_GETTFILTER = 16, 18, 38, 42, 46
_IFLA_IFNAME, _IFLA_MTU, _IFLA_EXT_MASK, _IFLA_GSO_MAX_SIZE = 3, 4, 29, 41
_RTEXT_FILTER_SKIP_STATS = 1 << 3
_TCA_KIND, _TCA_OPTIONS, _TCA_STATS2 = 1, 2, 7
_STATS_BASIC, _STATS_QUEUE = 1, 3
_HTB_PARMS, _HTB_INIT, _HTB_RATE64, _HTB_CEIL64 = 1, 2, 6, 7
_U32_CLASSID, _U32_SEL = 1, 5
_NETEM_LATENCY64 = 10


class NetlinkError(HarmonicsError):
    """The kernel refused a request, or gave no answer in time."""


@dataclass(frozen=True, slots=True)
class Interface:
    index: int
    name: str
    mtu: int
    gso_max_size: int


@dataclass(frozen=True, slots=True)
class Qdisc:
    """A queueing discipline. `options` is its kind's own structure, undecoded; the counters are its own."""

    index: int
    kind: str
    handle: int
    parent: int
    options: bytes
    sent_bytes: int
    packets: int
    drops: int
    backlog_bytes: int

    @property
    def htb_default(self) -> int:
        """Minor number of the class that takes unclassified packets."""
        default: int = struct.unpack_from("=III", _attributes(self.options)[_HTB_INIT])[2]
        return default

    @property
    def fifo_limit(self) -> int:
        limit: int = struct.unpack_from("=I", self.options)[0]
        return limit

    @property
    def netem(self) -> tuple[int, float, float]:
        """(limit in packets, delay in seconds, loss as a fraction)."""
        ticks, limit, loss, _, _, _ = _NETEM.unpack_from(self.options)
        exact = _attributes(self.options[_NETEM.size :]).get(_NETEM_LATENCY64)
        delay_s = struct.unpack("=q", exact)[0] / 1e9 if exact else ticks * TICK_S
        return limit, delay_s, loss / (2**32 - 1)


@dataclass(frozen=True, slots=True)
class HtbClass:
    """Rates in bits per second (the kernel keeps whole bytes), bursts in seconds at those rates."""

    handle: int
    parent: int
    rate_bps: int
    ceil_bps: int
    burst_s: float
    cburst_s: float
    quantum_bytes: int
    prio: int


@dataclass(frozen=True, slots=True)
class U32Filter:
    """`keys` holds (value, mask, offset) of each 32-bit word compared; `handle` names the filter to tc."""

    priority: int
    protocol: int
    handle: int
    flowid: int
    keys: tuple[tuple[int, int, int], ...]


class Rtnetlink:
    """A conversation with the network namespace that the calling thread is in when it opens this."""

    def __enter__(self) -> Self:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.settimeout(TIMEOUT_S)
        self._socket.bind((0, 0))
        self._sequence = 0
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def interfaces(self) -> list[Interface]:
        skip_stats = _attribute(_IFLA_EXT_MASK, struct.pack("=I", _RTEXT_FILTER_SKIP_STATS))
        found = []
        for body in self._dump(_RTM_GETLINK, _LINK.pack(0, 0, 0, 0, 0) + skip_stats):
            attributes = _attributes(body[_LINK.size :])
            mtu, gso = (struct.unpack("=I", attributes[kind])[0] for kind in (_IFLA_MTU, _IFLA_GSO_MAX_SIZE))
            found.append(Interface(_LINK.unpack_from(body)[2], _text(attributes[_IFLA_IFNAME]), mtu, gso))
        return found

    def set_sizes(self, interface: int, mtu: int, gso_max_size: int) -> None:
        """Set an interface's MTU and the largest offloaded segment. NetlinkError if the driver refuses."""
        sizes = ((_IFLA_MTU, mtu), (_IFLA_GSO_MAX_SIZE, gso_max_size))
        attributes = b"".join(_attribute(kind, struct.pack("=I", size)) for kind, size in sizes)
        self._send(_RTM_NEWLINK, _NLM_F_REQUEST | _NLM_F_ACK, _LINK.pack(0, 0, interface, 0, 0) + attributes)
        for _ in self._answers():
            pass

    def qdiscs(self) -> list[Qdisc]:
        """Those of every interface of the namespace, in one request."""
        found = []
        for body in self._dump(_RTM_GETQDISC, _TC.pack(0, 0, 0, 0, 0, 0)):
            _, _, index, handle, parent, _ = _TC.unpack_from(body)
            attributes = _attributes(body[_TC.size :])
            statistics = _attributes(attributes[_TCA_STATS2])
            sent, packets = struct.unpack_from("=QI", statistics[_STATS_BASIC])
            _, backlog, drops = struct.unpack_from("=III", statistics[_STATS_QUEUE])
            kind, options = _text(attributes[_TCA_KIND]), attributes.get(_TCA_OPTIONS, b"")
            found.append(Qdisc(index, kind, handle, parent, options, sent, packets, drops, backlog))
        return found

    def htb_classes(self, interface: int) -> list[HtbClass]:
        found = []
        for body in self._dump(_RTM_GETTCLASS, _TC.pack(0, 0, interface, 0, 0, 0)):
            _, _, _, handle, parent, _ = _TC.unpack_from(body)
            attributes = _attributes(body[_TC.size :])
            if _text(attributes[_TCA_KIND]) == "htb":
                found.append(_htb_class(handle, parent, _attributes(attributes[_TCA_OPTIONS])))
        return found

    def u32_filters(self, interface: int) -> list[U32Filter]:
        """The filters of the interface's root qdisc."""
        found = []
        for body in self._dump(_RTM_GETTFILTER, _TC.pack(0, 0, interface, 0, 0, 0)):
            _, _, _, handle, _, info = _TC.unpack_from(body)
            attributes = _attributes(body[_TC.size :])
            options = _attributes(attributes.get(_TCA_OPTIONS, b""))
            # Hash tables are listed too, without a selector.
            if _text(attributes[_TCA_KIND]) == "u32" and _U32_SEL in options:
                (flowid,) = struct.unpack("=I", options.get(_U32_CLASSID, bytes(4)))
                protocol = socket.ntohs(info & 0xFFFF)
                found.append(U32Filter(info >> 16, protocol, handle, flowid, _u32_keys(options[_U32_SEL])))
        return found

    def _dump(self, request: int, body: bytes) -> list[bytes]:
        """Bodies of the answers. Repeated if what is listed changed while it was listed."""
        for _ in range(ATTEMPTS):
            self._send(request, _NLM_F_REQUEST | _NLM_F_DUMP, body)
            bodies, interrupted = [], False
            for flags, answer in self._answers():
                interrupted |= bool(flags & _NLM_F_DUMP_INTR)
                bodies.append(answer)
            if not interrupted:
                return bodies
        raise NetlinkError(f"interfaces changed during each of {ATTEMPTS} attempts to list their qdiscs")

    def _send(self, request: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), request, flags, self._sequence, 0) + body)

    def _answers(self) -> Iterator[tuple[int, bytes]]:
        """(flags, body) of each answer to the last request, up to the one that ends them."""
        while True:
            try:
                received = self._socket.recv(1 << 17)
            except TimeoutError:
                raise NetlinkError(f"the kernel gave no answer over rtnetlink within {TIMEOUT_S:g} s") from None
            start = 0
            while start < len(received):
                length, kind, flags, sequence, _ = _HEADER.unpack_from(received, start)
                body = received[start + _HEADER.size : start + length]
                start += (length + 3) & ~3
                if sequence != self._sequence:
                    continue
                if kind in (_NLMSG_DONE, _NLMSG_ERROR):
                    error = struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
                    if error < 0:
                        raise NetlinkError(f"the kernel refused an rtnetlink request: {os.strerror(-error)}")
                    return
                yield flags, body


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value


def _attributes(data: bytes) -> dict[int, bytes]:
    found, start = {}, 0
    while start + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, start)
        if length < _ATTRIBUTE.size:
            break
        found[kind & 0x3FFF] = data[start + _ATTRIBUTE.size : start + length]
        start += (length + 3) & ~3
    return found


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")


def _htb_class(handle: int, parent: int, options: dict[int, bytes]) -> HtbClass:
    parameters = _HTB_OPTIONS.unpack_from(options[_HTB_PARMS])
    rate, ceil = parameters[5], parameters[11]
    burst, cburst, quantum, _, prio = parameters[12:]
    # Rates of 2^32 bytes a second and more do not fit the structure and have attributes of their own.
    rate = struct.unpack("=Q", options[_HTB_RATE64])[0] if _HTB_RATE64 in options else rate
    ceil = struct.unpack("=Q", options[_HTB_CEIL64])[0] if _HTB_CEIL64 in options else ceil
    return HtbClass(handle, parent, 8 * rate, 8 * ceil, burst * TICK_S, cburst * TICK_S, quantum, prio)


def _u32_keys(selector: bytes) -> tuple[tuple[int, int, int], ...]:
    count = _U32_SELECTOR.unpack_from(selector)[2]
    keys = []
    for start in range(_U32_SELECTOR.size, _U32_SELECTOR.size + 16 * count, 16):
        mask, value = _U32_KEY.unpack_from(selector, start)
        (offset,) = _U32_KEY_OFFSET.unpack_from(selector, start + 8)
        keys.append((value, mask, offset))
    return tuple(keys)
