"""The topology of Alibaba's Lingjun cluster (2023): each host's place in a Clos network of three layers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workloads.traces.source import Skipped, TraceError
from workloads.traces.tables import BadRow, Ids, read_table

MAX_HOSTS = 15_000
"""Each is several values of the scenario, which has a limit of its own."""
COLUMNS = ("ip", "DSW", "PSW", "ASW")


@dataclass(frozen=True)
class ClosTopology:
    """hosts: how many hang on each leaf. aggregation: the switch above each leaf. core: the one above each of those.

    A leaf is named PSW-ASW: labels of access switches repeat under other aggregation switches.
    """

    hosts: dict[str, int]
    aggregation: dict[str, str]
    core: dict[str, str]


def read_lingjun(path: Path, skipped: Skipped) -> ClosTopology:
    """The topology in topo.csv, leaves in order of their names. Skipped rows as in tables.read_table.

    TraceError if no host is left, or an aggregation switch hangs on two core switches.
    """
    ids = Ids()

    def parse(row: list[str]) -> tuple[str, str, str]:
        host, dsw, psw, asw = row
        for name, label in (("DSW", dsw), ("PSW", psw), ("ASW", asw)):
            if not label.isascii() or not label.isalnum() or len(label) > 40:
                raise BadRow(f"{name} is no label")
        ids.require_new(host, "ip")
        return dsw, psw, asw

    hosts: dict[str, int] = {}
    aggregation: dict[str, str] = {}
    core: dict[str, str] = {}
    for number, (dsw, psw, asw) in enumerate(read_table(path, COLUMNS, skipped, parse), start=1):
        if number > MAX_HOSTS:
            raise TraceError(path, f"has more than {MAX_HOSTS:,} hosts; keep a part of them")
        leaf = f"{psw}-{asw}"
        hosts[leaf] = hosts.get(leaf, 0) + 1
        aggregation[leaf] = psw
        if core.setdefault(psw, dsw) != dsw:
            raise TraceError(path, f"{psw} hangs on {core[psw]} and on {dsw}")
    if not hosts:
        raise TraceError(path, "holds no host")
    return ClosTopology(dict(sorted(hosts.items())), aggregation, core)
