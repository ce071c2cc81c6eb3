"""Applies shaping plans with tc, reads every object back from the kernel, and refuses any difference.

A namespace is named as `ip netns` names it; None is the caller's own. Each takes one `tc -batch`. tc is started from
a thread that has entered the namespace, because `tc -n` mounts a /sys of its own for each call and so takes twice as
long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from harmonics_emu import shell
from harmonics_emu.emulate.network import namespace_of
from harmonics_emu.emulate.rtnetlink import Interface, Qdisc, Rtnetlink
from harmonics_emu.emulate.sandbox import across
from harmonics_emu.emulate.tc_facts import (
    FIRST_BAND,
    PARENT,
    ROOT,
    Facts,
    ShapingError,
    compare,
    found_class,
    found_filter,
    found_interface,
    found_qdisc,
    netem_limit,
    wanted_facts,
)
from harmonics_emu.errors import UsageError
from topologies.fabric import Fabric
from topologies.shaping import (
    DEFAULT_LEVEL,
    LEVELS,
    Band,
    EgressShape,
    Filter,
    plan_shaping,
    with_rate,
)


@dataclass(frozen=True, slots=True)
class BandCounters:
    """One band's queue: bytes and packets sent, packets dropped, bytes waiting now; bytes of frames with their headers.

    At a userspace switch's port `packets` misses offloaded segments, whose frames the kernel doesn't know there.
    """

    bytes: int
    packets: int
    drops: int
    backlog_bytes: int


@dataclass(frozen=True, slots=True)
class PortCounters:
    """One interface's counters: all bands together (as BandCounters has them), and each by itself, band 0 first."""

    bytes: int
    packets: int
    drops: int
    backlog_bytes: int
    bands: tuple[BandCounters, ...]


def apply(shapes: Iterable[EgressShape]) -> None:
    """Shape every interface, hosts in their namespaces and several at a time, and check the result.

    The interfaces must have no root qdisc of their own yet. ShapingError names the first thing that is not as planned;
    UsageError if the plan has delay or loss and the kernel has no netem.
    """
    plan = _by_namespace(shapes)
    if any(shape.delay_s or shape.loss for shapes in plan.values() for shape in shapes):
        require_netem()
    across(plan, lambda netns: _apply_here(plan[netns]))


def verify(shapes: Iterable[EgressShape]) -> None:
    """Compare what is in force with the plan. ShapingError names interface, object, field, wanted and found value."""
    plan = _by_namespace(shapes)
    across(plan, lambda netns: _verify_here(plan[netns]))


def set_rate(fabric: Fabric, link: str, rate_bps: int) -> None:
    """Give a shaped link (by its directed name) another rate while it carries traffic, and check it."""
    planned = next(shape for shape in plan_shaping(fabric) if shape.link == link)
    # The filters are left alone: levels may have changed since they were planned.
    shape = replace(with_rate(planned, rate_bps), filters=())

    def change() -> None:
        _tc(_class_lines(shape, "change") + _queue_lines(shape, "change"))
        _verify_here([shape], only_wanted=True)

    across(_by_namespace([shape]), lambda _: change())


def read_counters(netns: str | None = None) -> dict[str, PortCounters]:
    """Counters of every shaped interface of a namespace, by name."""

    def read() -> dict[str, PortCounters]:
        with Rtnetlink() as kernel:
            names = {interface.index: interface.name for interface in kernel.interfaces()}
            qdiscs = kernel.qdiscs()
        bands: dict[int, dict[int, BandCounters]] = {}
        for qdisc in qdiscs:
            level = (qdisc.parent & 0xFFFF) - FIRST_BAND
            # Jobs with a rate have classes of their own there (job_queues), which are counted in the root only.
            if qdisc.parent >> 16 == ROOT and level < LEVELS:
                counters = BandCounters(qdisc.sent_bytes, qdisc.packets, qdisc.drops, qdisc.backlog_bytes)
                bands.setdefault(qdisc.index, {})[level] = counters
        return {
            names[root.index]: PortCounters(
                root.sent_bytes,
                root.packets,
                root.drops,
                root.backlog_bytes,
                tuple(bands[root.index][level] for level in range(LEVELS)),
            )
            for root in qdiscs
            if _is_ours(root) and root.index in names and len(bands.get(root.index, ())) == LEVELS
        }

    (counters,) = across([netns], lambda _: read())
    return counters


def try_queue(interface: str, queue: str) -> None:
    """Put `queue` (`htb default 1`, say) at an interface's root; CommandFailed where the kernel can't."""
    shell.run(["tc", "qdisc", "add", "dev", interface, "root", *queue.split()])


def require_netem() -> None:
    """UsageError unless the kernel can delay and drop packets."""
    if not netem_works():
        raise UsageError(
            "the fabric has links with a delay or a loss, but this kernel has no netem (sch_netem): "
            "leave them out, or use a kernel that has it"
        )


@cache
def netem_works() -> bool:
    """Whether a netem queue can be made, tried in a scratch namespace."""
    try:
        shell.run(
            ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms", "loss", "1%"]
        )
    except shell.CommandFailed:
        return False
    return True


def _by_namespace(shapes: Iterable[EgressShape]) -> dict[str | None, list[EgressShape]]:
    """Shapes by where their interfaces are: each host's in its namespace, the switches' in the caller's."""
    found: dict[str | None, list[EgressShape]] = {}
    for shape in shapes:
        found.setdefault(namespace_of(shape.node) if shape.on_host else None, []).append(shape)
    return found


def _apply_here(shapes: Sequence[EgressShape]) -> None:
    with Rtnetlink() as kernel:
        interfaces = kernel.interfaces()
        for shape in shapes:
            if shape.mtu_bytes is not None and shape.segment_bytes is not None:
                nic = _interface(interfaces, shape.interface).index
                kernel.set_sizes(nic, shape.mtu_bytes, shape.segment_bytes)
    _tc(line for shape in shapes for line in render(shape))
    _verify_here(shapes)


def _tc(lines: Iterable[str]) -> None:
    """Run a batch. Even a warning is an error: what tc warns of is not what was meant."""
    batch = "".join(f"{line}\n" for line in lines)
    if not batch:
        return
    try:
        _, said = shell.run_checked(["tc", "-batch", "-"], stdin=batch, timeout_s=30.0)
    except shell.CommandFailed as error:
        raise ShapingError(str(error)) from None
    if said.strip():
        raise ShapingError(f"tc warned: {said.strip()}")


def render(shape: EgressShape) -> list[str]:
    """The tc commands, without `tc`, that shape one fresh interface. Numbers of classes and handles are hexadecimal."""
    device = f"dev {shape.interface}"
    lines = [f"qdisc add {device} root handle {ROOT:x}: htb default {FIRST_BAND + DEFAULT_LEVEL:x}"]
    lines += _class_lines(shape, "add")
    lines += _queue_lines(shape, "add")
    lines += [_filter_line(shape.interface, rule) for rule in shape.filters]
    return lines


def _class_lines(shape: EgressShape, verb: str) -> list[str]:
    where = f"class {verb} dev {shape.interface} parent {ROOT:x}:"
    link = f"rate {shape.rate_bps}bit ceil {shape.rate_bps}bit burst {shape.burst_bytes}b cburst {shape.burst_bytes}b"
    lines = [f"{where} classid {ROOT:x}:{PARENT:x} htb {link} quantum {shape.quantum_bytes}"]
    for band in shape.bands:
        lines.append(
            f"{where}{PARENT:x} classid {ROOT:x}:{FIRST_BAND + band.level:x} htb "
            f"rate {band.rate_bps}bit ceil {band.ceil_bps}bit burst {band.burst_bytes}b cburst {band.cburst_bytes}b "
            f"quantum {band.quantum_bytes} prio {band.level}"
        )
    return lines


def _queue_lines(shape: EgressShape, verb: str) -> list[str]:
    numbered = [(f"{FIRST_BAND + band.level:x}", band) for band in shape.bands]
    return [
        f"qdisc {verb} dev {shape.interface} parent {ROOT:x}:{number} handle {number}: {_queue(shape, band)}"
        for number, band in numbered
    ]


def _queue(shape: EgressShape, band: Band) -> str:
    if not (shape.delay_s or shape.loss):
        return f"bfifo limit {band.limit_bytes}"
    delay_ns = round(shape.delay_s * 1e9)
    return f"netem limit {netem_limit(shape, band)} delay {delay_ns}ns loss {100 * shape.loss:.7f}%"


def _filter_line(interface: str, rule: Filter) -> str:
    """The command that adds a filter."""
    matches = " ".join(f"match u32 0x{m.value:08x} 0x{m.mask:08x} at {m.offset}" for m in rule.matches)
    return (
        f"filter add dev {interface} parent {ROOT:x}: protocol {rule.protocol} prio {rule.priority} "
        f"handle ::{rule.number:x} u32 {matches} flowid {ROOT:x}:{FIRST_BAND + rule.level:x}"
    )


def _verify_here(shapes: Sequence[EgressShape], *, only_wanted: bool = False) -> None:
    with Rtnetlink() as kernel:
        interfaces = kernel.interfaces()
        qdiscs: dict[int, list[Qdisc]] = {}
        for qdisc in kernel.qdiscs():
            qdiscs.setdefault(qdisc.index, []).append(qdisc)
        for shape in shapes:
            there = _interface(interfaces, shape.interface)
            found: Facts = found_interface(there) if shape.on_host else {}
            for qdisc in qdiscs.get(there.index, ()):
                found.update(found_qdisc(qdisc))
            for each in kernel.htb_classes(there.index):
                found.update(found_class(each))
            for rule in kernel.u32_filters(there.index):
                found.update(found_filter(rule))
            compare(f"{shape.node} {shape.interface}", wanted_facts(shape), found, only_wanted=only_wanted)


def _interface(interfaces: Sequence[Interface], name: str) -> Interface:
    for interface in interfaces:
        if interface.name == name:
            return interface
    raise ShapingError(f"there is no interface {name} to shape")


def _is_ours(qdisc: Qdisc) -> bool:
    return qdisc.kind == "htb" and qdisc.handle == ROOT << 16
