"""What the kernel should report of a shaped interface, what it does report, and the first difference between the two.

Both are flat tables of facts, so that every class, queue and filter is compared field by field and named in errors.
"""

from __future__ import annotations

from dataclasses import dataclass

from harmonics_emu.emulate.rtnetlink import HtbClass, Interface, Qdisc, U32Filter
from harmonics_emu.errors import HarmonicsError
from topologies.shaping import DEFAULT_LEVEL, FRAME_BYTES, Band, EgressShape, Filter

ROOT = 0x1
PARENT = 0x1
FIRST_BAND = 0x10
"""Minor number of band 0's class, and major number of its queue; the others follow."""
PROTOCOLS = {"ip": 0x0800, "arp": 0x0806}
FIRST_JOB = 0x100
"""Minor number of the class that job 0 has while it has a rate, and major number of its queue; the others follow."""
IN_FLIGHT_MARGIN = 1.5
"""netem counts what a link has in flight against its packet limit: it is given room for this many times that."""

Facts = dict[tuple[str, str], object]
"""What there is on an interface: (object, field) to value."""


class ShapingError(HarmonicsError):
    """The kernel's shaping is not what the plan says, or tc complained."""


def netem_limit(shape: EgressShape, band: Band) -> int:
    in_flight = IN_FLIGHT_MARGIN * shape.rate_bps * shape.delay_s / 8
    return int((band.limit_bytes + in_flight) / FRAME_BYTES) + 1


def wanted_facts(shape: EgressShape) -> Facts:
    """What the kernel should report of a shaped interface."""
    facts: Facts = {
        ("root qdisc", "kind"): "htb",
        ("root qdisc", "handle"): ROOT,
        ("root qdisc", "default"): FIRST_BAND + DEFAULT_LEVEL,
    }
    if shape.on_host:
        facts |= {("interface", "mtu"): shape.mtu_bytes, ("interface", "gso_max_size"): shape.segment_bytes}
    link = Band(0, shape.rate_bps, shape.rate_bps, shape.burst_bytes, shape.burst_bytes, shape.quantum_bytes, 0)
    facts.update(_wanted_class(PARENT, 0xFFFF, link))
    for band in shape.bands:
        minor = FIRST_BAND + band.level
        facts.update(_wanted_class(minor, PARENT, band))
        queue = f"queue of class {ROOT:x}:{minor:x}"
        if shape.delay_s or shape.loss:
            limit = netem_limit(shape, band)
            facts |= {(queue, "kind"): "netem", (queue, "limit"): limit, (queue, "handle"): minor}
            facts |= {(queue, "delay_s"): Near(shape.delay_s, 1e-6), (queue, "loss"): Near(shape.loss, 1e-6)}
        else:
            facts |= {(queue, "kind"): "bfifo", (queue, "limit"): band.limit_bytes, (queue, "handle"): minor}
    for rule in shape.filters:
        facts.update(wanted_filter(rule))
    return facts


@dataclass(frozen=True, slots=True)
class Near:
    """A wanted value that the kernel keeps only roughly; equal to what lies within `tolerance` of it."""

    value: float
    tolerance: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, float)) and abs(other - self.value) <= self.tolerance

    def __hash__(self) -> int:
        return hash((self.value, self.tolerance))

    def __repr__(self) -> str:
        return f"{self.value:g}"


def _wanted_class(minor: int, parent_minor: int, band: Band) -> Facts:
    name = f"class {ROOT:x}:{minor:x}"

    def seconds(size: int, rate_bps: int) -> Near:
        # tc states a burst as a time in whole microseconds, at the class's rate in whole bytes a second.
        return Near(size / (rate_bps // 8), 1.1e-6)

    return {
        (name, "parent"): parent_minor,
        (name, "rate_bps"): band.rate_bps // 8 * 8,
        (name, "ceil_bps"): band.ceil_bps // 8 * 8,
        (name, "burst_s"): seconds(band.burst_bytes, band.rate_bps),
        (name, "cburst_s"): seconds(band.cburst_bytes, band.ceil_bps),
        (name, "quantum_bytes"): band.quantum_bytes,
        (name, "prio"): band.level,
    }


def found_interface(found: Interface) -> Facts:
    return {("interface", "mtu"): found.mtu, ("interface", "gso_max_size"): found.gso_max_size}


def found_class(found: HtbClass) -> Facts:
    name = f"class {found.handle >> 16:x}:{found.handle & 0xFFFF:x}"
    return {
        (name, "parent"): found.parent & 0xFFFF,
        (name, "rate_bps"): found.rate_bps,
        (name, "ceil_bps"): found.ceil_bps,
        (name, "burst_s"): found.burst_s,
        (name, "cburst_s"): found.cburst_s,
        (name, "quantum_bytes"): found.quantum_bytes,
        (name, "prio"): found.prio,
    }


def found_qdisc(found: Qdisc) -> Facts:
    if found.parent >> 16 != ROOT:
        facts: Facts = {("root qdisc", "kind"): found.kind, ("root qdisc", "handle"): found.handle >> 16}
        return facts | {("root qdisc", "default"): found.htb_default} if found.kind == "htb" else facts
    queue = f"queue of class {ROOT:x}:{found.parent & 0xFFFF:x}"
    facts = {(queue, "kind"): found.kind, (queue, "handle"): found.handle >> 16}
    if found.kind == "netem":
        limit, delay_s, loss = found.netem
        return facts | {(queue, "limit"): limit, (queue, "delay_s"): delay_s, (queue, "loss"): loss}
    return facts | {(queue, "limit"): found.fifo_limit} if found.kind == "bfifo" else facts


def wanted_filter(rule: Filter) -> Facts:
    name = f"filter {rule.number} of priority {rule.priority}"
    return {
        (name, "protocol"): PROTOCOLS[rule.protocol],
        (name, "matches"): tuple((match.value, match.mask, match.offset) for match in rule.matches),
        (name, "class"): f"{ROOT:x}:{FIRST_BAND + rule.level:x}",
    }


def found_filter(found: U32Filter) -> Facts:
    name = f"filter {filter_number(found)} of priority {found.priority}"
    return {
        (name, "protocol"): found.protocol,
        (name, "matches"): found.keys,
        (name, "class"): f"{found.flowid >> 16:x}:{found.flowid & 0xFFFF:x}",
    }


def compare(where: str, wanted: Facts, found: Facts, *, only_wanted: bool = False) -> None:
    """ShapingError for the first difference; with only_wanted, what is there beside the wanted does not count."""
    for (name, field), value in wanted.items():
        if (name, field) not in found:
            raise ShapingError(f"{where}: {name} is missing (or has no {field})")
        if value != found[name, field]:
            raise ShapingError(f"{where}: {name}: {field} is {found[name, field]}, wanted {value}")
    for name, field in found:
        if (name, field) not in wanted and not only_wanted:
            raise ShapingError(f"{where}: {name} is there but not in the plan ({field} {found[name, field]})")


def filter_number(found: U32Filter) -> int:
    return found.handle & 0xFFF
