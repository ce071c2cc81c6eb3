"""In which queue of its hosts' NICs each job waits: the band of its level, or a class of its own where it has a rate.

A job with a rate has an HTB class beside the bands, of the same kind: next to nothing of its own, its level as `prio`,
and the rate as its ceiling. The job's filter then points to that class. A class stays when its job loses its rate, for
what still waits in it. Changes go over one open rtnetlink socket a host, one write for all of a host's jobs, and what
the kernel says in answer is compared with what was wanted: 64 jobs take a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from harmonics_emu.emulate.network import namespace_of
from harmonics_emu.emulate.rtnetlink import (
    Change,
    HtbClass,
    Rtnetlink,
    U32Filter,
    class_change,
    fifo_change,
    filter_change,
    filter_query,
)
from harmonics_emu.emulate.sandbox import across
from harmonics_emu.emulate.tc_facts import (
    FIRST_BAND,
    FIRST_JOB,
    PARENT,
    PROTOCOLS,
    ROOT,
    Facts,
    Near,
    ShapingError,
    compare,
    filter_number,
    found_class,
)
from topologies.addressing import NIC
from topologies.fabric import Fabric
from topologies.shaping import (
    CLASSES_PRIORITY,
    FRAME_BYTES,
    QUANTUM_BYTES,
    band_rate_bps,
    burst_bytes,
    job_filter,
    queue_bytes,
    tcp_window_bytes,
)


@dataclass(frozen=True, slots=True)
class Lane:
    """How a job leaves its hosts: at which level, and with what rate at most (None: the link's)."""

    level: int
    rate_bps: int | None = None


@dataclass
class _Host:
    """One host's open conversation and what is known to be there: filter handles and lanes by job, classes of jobs."""

    kernel: Rtnetlink
    nic: int
    handles: dict[int, int]
    lanes: dict[int, Lane] = field(default_factory=dict)
    classes: set[int] = field(default_factory=set)


class JobQueues:
    """The job queues of a fabric's hosts, as a context. Hosts must be shaped already."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._limit_bytes = queue_bytes(tcp_window_bytes(fabric))
        self._hosts: dict[str, _Host] = {}
        self._open = ExitStack()

    def __enter__(self) -> JobQueues:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._hosts.clear()
        self._open.close()

    def set(self, wanted: Mapping[str, Mapping[int, Lane]]) -> None:
        """Bring jobs (by index) of hosts to their lanes; jobs that are not named stay. Nothing is done twice.

        ShapingError where the kernel has something else afterwards, NetlinkError where it refuses.
        """
        self._reach([host for host, lanes in wanted.items() if lanes])
        for host, lanes in wanted.items():
            there = self._hosts.get(host)
            if there is not None:
                self._set(host, there, {job: lane for job, lane in lanes.items() if there.lanes.get(job) != lane})

    def _reach(self, hosts: Iterable[str]) -> None:
        """Open conversations from inside the hosts' namespaces, to which they then belong."""
        new = {namespace_of(host): host for host in hosts if host not in self._hosts}

        def enter(netns: str | None) -> _Host:
            kernel = Rtnetlink().__enter__()
            nic = next((found.index for found in kernel.interfaces() if found.name == NIC), None)
            if nic is None:
                raise ShapingError(f"there is no interface {NIC} to shape in {netns}")
            present = (found for found in kernel.u32_filters(nic) if found.priority == CLASSES_PRIORITY)
            return _Host(kernel, nic, {filter_number(found) - 1: found.handle for found in present})

        for netns, there in zip(new, across(new, enter), strict=True):
            self._open.callback(there.kernel.__exit__)
            self._hosts[new[netns]] = there

    def _set(self, host: str, there: _Host, lanes: Mapping[int, Lane]) -> None:
        if not lanes:
            return
        link_bps = self._fabric.links[f"{host}>{self._fabric.leaf_of(host)}"].rate_bps
        changes: list[Change] = []
        wanted_classes: list[HtbClass] = []
        wanted_filters: list[U32Filter] = []
        for job, lane in lanes.items():
            if lane.rate_bps is not None:
                wanted_classes.append(job_class(job, lane.level, min(lane.rate_bps, link_bps), link_bps))
                changes.append(class_change(there.nic, wanted_classes[-1]))
                if job not in there.classes:
                    handle = (FIRST_JOB + job) << 16
                    changes.append(fifo_change(there.nic, ROOT << 16 | FIRST_JOB + job, handle, self._limit_bytes))
            wanted_filters.append(_filter(job, lane, there.handles.get(job)))
            changes.append(filter_change(there.nic, ROOT << 16, wanted_filters[-1], new=job not in there.handles))
            if job in there.handles:
                changes.append(filter_query(there.nic, ROOT << 16, wanted_filters[-1]))
        classes, filters = there.kernel.change(changes)
        where = f"{host} {NIC}"
        found: Facts = {}
        for each in classes:
            found |= found_class(each)
        for wanted in wanted_classes:
            compare(where, _class_facts(wanted), found, only_wanted=True)
        _check_filters(where, wanted_filters, filters)
        there.lanes.update(lanes)
        there.handles.update({filter_number(each) - 1: each.handle for each in filters})
        there.classes.update(job for job, lane in lanes.items() if lane.rate_bps is not None)


def job_class(job: int, level: int, rate_bps: int, link_bps: int) -> HtbClass:
    """The class of a job with a rate, on a link of `link_bps`."""
    own_bps = min(band_rate_bps(link_bps), rate_bps)
    return HtbClass(
        handle=ROOT << 16 | FIRST_JOB + job,
        parent=ROOT << 16 | PARENT,
        rate_bps=own_bps // 8 * 8,
        ceil_bps=rate_bps // 8 * 8,
        burst_s=8 * FRAME_BYTES / own_bps,
        cburst_s=8 * burst_bytes(rate_bps) / rate_bps,
        quantum_bytes=QUANTUM_BYTES,
        prio=level,
    )


def _class_facts(wanted: HtbClass) -> Facts:
    """As `tc_facts.found_class` has it, bursts as exactly as the kernel keeps them."""
    facts = found_class(wanted)
    return {
        key: Near(value, 1.1e-6) if key[1].endswith("burst_s") and isinstance(value, float) else value
        for key, value in facts.items()
    }


def _filter(job: int, lane: Lane, handle: int | None) -> U32Filter:
    """The filter that sends a job to its lane; `handle` as the kernel gave it, None where there is none yet."""
    rule = job_filter(job, lane.level)
    minor = FIRST_BAND + lane.level if lane.rate_bps is None else FIRST_JOB + job
    return U32Filter(
        priority=rule.priority,
        protocol=PROTOCOLS[rule.protocol],
        handle=rule.number if handle is None else handle,
        flowid=ROOT << 16 | minor,
        keys=tuple((match.value, match.mask, match.offset) for match in rule.matches),
    )


def _check_filters(where: str, wanted: Iterable[U32Filter], found: Iterable[U32Filter]) -> None:
    there = {filter_number(each): each for each in found}
    for each in wanted:
        number = filter_number(each)
        if number not in there:
            raise ShapingError(f"{where}: filter {number} was not echoed by the kernel")
        if (there[number].flowid, there[number].keys) != (each.flowid, each.keys):
            raise ShapingError(f"{where}: filter {number} is {there[number]}, wanted {each}")
