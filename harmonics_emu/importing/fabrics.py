"""The fabric of an imported scenario, as its file writes it."""

from __future__ import annotations

from typing import Any

from harmonics_emu.importing.options import INTRA_HOST_BPS, ImportOptions
from harmonics_emu.scenario.quantities import format_rate
from workloads.traces.lingjun import ClosTopology


def rack_spine(options: ImportOptions, host_rate_bps: int) -> dict[str, Any]:
    """Racks as the options say."""
    return {
        "kind": "rack-spine",
        "racks": options.racks,
        "hosts_per_rack": options.hosts_per_rack,
        "spines": options.spines,
        "host_rate": _rate(host_rate_bps, options),
        "oversubscription": options.oversubscription,
        **_gpus(options),
    }


def two_racks(workers: int, options: ImportOptions, host_rate_bps: int) -> dict[str, Any]:
    """Just large enough for one recorded job, with uplinks that are never its bottleneck."""
    return {
        "kind": "dumbbell",
        "hosts_per_side": -(-workers // 2),
        "host_rate": _rate(host_rate_bps, options),
        "uplink_rate": _rate(host_rate_bps * max(1, -(-workers // 2)), options),
    }


def clos(topology: ClosTopology, options: ImportOptions, host_rate_bps: int) -> dict[str, Any]:
    """A fabric of the topology's hosts and switches. Each tier's links upwards are oversubscribed as the options say.

    A core switch above a single aggregation switch would lead nowhere, and is left out.
    """
    hosts: list[str] = []
    links: list[dict[str, Any]] = []
    below: dict[str, int] = {}
    for leaf, count in topology.hosts.items():
        own = [f"{leaf}-h{number}" for number in range(count)]
        hosts += own
        links += [{"between": [host, leaf], "rate": _rate(host_rate_bps, options)} for host in own]
        up_bps = _uplink(host_rate_bps * count, options)
        links.append({"between": [leaf, topology.aggregation[leaf]], "rate": _rate(up_bps, options)})
        below[topology.aggregation[leaf]] = below.get(topology.aggregation[leaf], 0) + up_bps
    for switch, received_bps in below.items():
        core = topology.core[switch]
        if sum(topology.core[other] == core for other in below) > 1:
            links.append({"between": [switch, core], "rate": _rate(_uplink(received_bps, options), options)})
    return {"kind": "custom", "hosts": hosts, "links": links, **_gpus(options)}


def _uplink(received_bps: int, options: ImportOptions) -> int:
    return max(1, round(received_bps / options.oversubscription))


def _rate(real_bps: int, options: ImportOptions) -> str:
    """The emulated rate as a file writes it."""
    return format_rate(max(1, round(real_bps * options.scale)))


def _gpus(options: ImportOptions) -> dict[str, Any]:
    if options.gpus_per_host == 1:
        return {}
    return {"gpus_per_host": options.gpus_per_host, "intra_host_rate": _rate(INTRA_HOST_BPS, options)}
