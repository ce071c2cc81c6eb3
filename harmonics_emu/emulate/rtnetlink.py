"""What the kernel says of interfaces, qdiscs, classes and filters, as exact numbers, and changes of the last two.

Read from rtnetlink rather than from tc's output: tc 6.1 prints HTB classes as text only, with rounded rates, repeats
a JSON key for each match of a u32 filter, and costs a process for each namespace and each kind of object. Message
layouts are those of linux/rtnetlink.h, linux/pkt_sched.h and linux/pkt_cls.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from harmonics_emu.errors import HarmonicsError

TIMEOUT_S = 5.0
ATTEMPTS = 10
"""Dumps that a concurrent change interrupted are repeated so often."""
AT_ONCE = 32
"""Changes in one write: their answers must fit the socket's buffer, which is an ordinary one."""
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
_NLM_F_ECHO, _NLM_F_EXCL, _NLM_F_CREATE = 0x08, 0x200, 0x400
_RTM_NEWLINK, _RTM_GETLINK, _RTM_GETQDISC, _RTM_GETTCLASS, _RTM_GETTFILTER = 16, 18, 38, 42, 46
_RTM_NEWQDISC, _RTM_NEWTCLASS, _RTM_NEWTFILTER = 36, 40, 44
_IFLA_IFNAME, _IFLA_MTU, _IFLA_EXT_MASK, _IFLA_GSO_MAX_SIZE = 3, 4, 29, 41
_RTEXT_FILTER_SKIP_STATS = 1 << 3
_TCA_KIND, _TCA_OPTIONS, _TCA_STATS2 = 1, 2, 7
_STATS_BASIC, _STATS_QUEUE = 1, 3
_HTB_PARMS, _HTB_INIT, _HTB_RATE64, _HTB_CEIL64 = 1, 2, 6, 7
_U32_CLASSID, _U32_SEL = 1, 5
_U32_TERMINAL = 1
_ETHERNET = 1
"""The link layer of a rate: with it the kernel needs no table of transmission times."""
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


@dataclass(frozen=True, slots=True)
class Change:
    """A request to make or change an object: message type, flags beside the usual ones, and body."""

    kind: int
    flags: int
    body: bytes


def class_change(interface: int, wanted: HtbClass) -> Change:
    """Make an HTB class, or give one that is there other parameters."""
    bursts = (round(seconds / TICK_S) for seconds in (wanted.burst_s, wanted.cburst_s))
    rate, ceil = wanted.rate_bps // 8, wanted.ceil_bps // 8
    packed = (min(rate, 2**32 - 1), min(ceil, 2**32 - 1))
    parameters = _HTB_OPTIONS.pack(
        *(0, _ETHERNET, 0, 0, 0, packed[0]),
        *(0, _ETHERNET, 0, 0, 0, packed[1]),
        *(*bursts, wanted.quantum_bytes, 0, wanted.prio),
    )
    options = _attribute(_HTB_PARMS, parameters)
    options += b"".join(
        _attribute(kind, struct.pack("=Q", value))
        for kind, value in ((_HTB_RATE64, rate), (_HTB_CEIL64, ceil))
        if value >= 2**32
    )
    body = _TC.pack(0, 0, interface, wanted.handle, wanted.parent, 0)
    return Change(
        _RTM_NEWTCLASS, _NLM_F_CREATE, body + _attribute(_TCA_KIND, b"htb\0") + _attribute(_TCA_OPTIONS, options)
    )


def fifo_change(interface: int, parent: int, handle: int, limit_bytes: int) -> Change:
    """Make the queue of a class one that is limited in bytes."""
    body = _TC.pack(0, 0, interface, handle, parent, 0)
    options = _attribute(_TCA_OPTIONS, struct.pack("=I", limit_bytes))
    return Change(_RTM_NEWQDISC, _NLM_F_CREATE, body + _attribute(_TCA_KIND, b"bfifo\0") + options)


def filter_change(interface: int, parent: int, wanted: U32Filter, *, new: bool) -> Change:
    """Make a u32 filter, whose handle is then its number; or send what one that is there takes to another class.

    The kernel replaces a filter in one step: no packet meets a missing one.
    """
    keys = b"".join(
        _U32_KEY.pack(mask, value) + _U32_KEY_OFFSET.pack(offset) + bytes(4) for value, mask, offset in wanted.keys
    )
    selector = _U32_SELECTOR.pack(_U32_TERMINAL, 0, len(wanted.keys), 0, 0, 0, 0, 0)
    options = _attribute(_U32_CLASSID, struct.pack("=I", wanted.flowid)) + _attribute(_U32_SEL, selector + keys)
    info = wanted.priority << 16 | socket.htons(wanted.protocol)
    body = _TC.pack(0, 0, interface, wanted.handle, parent, info)
    flags = _NLM_F_CREATE | _NLM_F_EXCL if new else 0
    return Change(_RTM_NEWTFILTER, flags, body + _attribute(_TCA_KIND, b"u32\0") + _attribute(_TCA_OPTIONS, options))


def filter_query(interface: int, parent: int, wanted: U32Filter) -> Change:
    """Ask for a filter: the kernel's echo of a change is of what it replaced."""
    info = wanted.priority << 16 | socket.htons(wanted.protocol)
    body = _TC.pack(0, 0, interface, wanted.handle, parent, info)
    return Change(_RTM_GETTFILTER, 0, body + _attribute(_TCA_KIND, b"u32\0"))


class Rtnetlink:
    """A conversation with the network namespace that the calling thread is in when it opens this.

    It stays with that namespace, whoever uses it later.
    """

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
        dumped = self._dump(_RTM_GETTCLASS, _TC.pack(0, 0, interface, 0, 0, 0))
        return [found for body in dumped if (found := _class_of(body)) is not None]

    def u32_filters(self, interface: int) -> list[U32Filter]:
        """The filters of the interface's root qdisc."""
        dumped = self._dump(_RTM_GETTFILTER, _TC.pack(0, 0, interface, 0, 0, 0))
        return [found for body in dumped if (found := _filter_of(body)) is not None]

    def change(self, changes: Sequence[Change]) -> tuple[list[HtbClass], list[U32Filter]]:
        """Carry out changes in order; the classes and filters that the kernel names, in the same order.

        NetlinkError for the first that it refuses; those before it stay.
        """
        classes: list[HtbClass] = []
        filters: list[U32Filter] = []
        for start in range(0, len(changes), AT_ONCE):
            for kind, body in self._write(changes[start : start + AT_ONCE]):
                if kind == _RTM_NEWTCLASS and (htb := _class_of(body)) is not None:
                    classes.append(htb)
                elif kind == _RTM_NEWTFILTER and (u32 := _filter_of(body)) is not None:
                    filters.append(u32)
        return classes, filters

    def _write(self, changes: Sequence[Change]) -> Iterator[tuple[int, bytes]]:
        """Send changes in one write; (message type, body) of all that comes until the last one is acknowledged."""
        messages, first = b"", self._sequence + 1
        for change in changes:
            self._sequence += 1
            flags = _NLM_F_REQUEST | _NLM_F_ACK | _NLM_F_ECHO | change.flags
            padding = bytes(-len(change.body) % 4)
            length = _HEADER.size + len(change.body)
            messages += _HEADER.pack(length, change.kind, flags, self._sequence, 0) + change.body + padding
        self._socket.send(messages)
        acknowledged = first - 1
        while acknowledged < self._sequence:
            for _, sequence, kind, body in self._received():
                if sequence >= first and kind == _NLMSG_ERROR:
                    _refuse(body)
                    acknowledged = sequence
                elif sequence >= first:
                    yield kind, body

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
            for flags, sequence, kind, body in self._received():
                if sequence != self._sequence:
                    continue
                if kind in (_NLMSG_DONE, _NLMSG_ERROR):
                    _refuse(body)
                    return
                yield flags, body

    def _received(self) -> Iterator[tuple[int, int, int, bytes]]:
        """(flags, sequence, kind, body) of each message of the next datagram."""
        try:
            received = self._socket.recv(1 << 17)
        except TimeoutError:
            raise NetlinkError(f"the kernel gave no answer over rtnetlink within {TIMEOUT_S:g} s") from None
        start = 0
        while start < len(received):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(received, start)
            yield flags, sequence, kind, received[start + _HEADER.size : start + length]
            start += (length + 3) & ~3


def _refuse(body: bytes) -> None:
    """NetlinkError if an acknowledgement says no."""
    error = struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
    if error < 0:
        raise NetlinkError(f"the kernel refused an rtnetlink request: {os.strerror(-error)}")


def _class_of(body: bytes) -> HtbClass | None:
    """The HTB class that a message is about, None if it is about something else."""
    _, _, _, handle, parent, _ = _TC.unpack_from(body)
    attributes = _attributes(body[_TC.size :])
    if _text(attributes[_TCA_KIND]) != "htb":
        return None
    return _htb_class(handle, parent, _attributes(attributes[_TCA_OPTIONS]))


def _filter_of(body: bytes) -> U32Filter | None:
    """The u32 filter that a message is about. Hash tables are listed like filters, but without a selector: None."""
    _, _, _, handle, _, info = _TC.unpack_from(body)
    attributes = _attributes(body[_TC.size :])
    options = _attributes(attributes.get(_TCA_OPTIONS, b""))
    if _text(attributes[_TCA_KIND]) != "u32" or _U32_SEL not in options:
        return None
    (flowid,) = struct.unpack("=I", options.get(_U32_CLASSID, bytes(4)))
    return U32Filter(info >> 16, socket.ntohs(info & 0xFFFF), handle, flowid, _u32_keys(options[_U32_SEL]))


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


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
