"""Which format a trace file has, by its first bytes: names of files mean nothing."""

from __future__ import annotations

from pathlib import Path

from workloads.traces import lingjun, muri, slurm_log
from workloads.traces.source import TraceError, head

MURI, SLURM, PHILLY, MCCS, LINGJUN, KINETO, CHAKRA, CHAKRA_JSON, NCCL_TESTS = (
    "muri",
    "helios",
    "philly",
    "mccs",
    "lingjun",
    "kineto",
    "chakra",
    "chakra-json",
    "nccl-tests",
)
FORMATS = (MURI, SLURM, PHILLY, MCCS, LINGJUN, KINETO, CHAKRA, CHAKRA_JSON, NCCL_TESTS)
"""What `detect` can find. Acme's logs have the columns of Helios and count as that."""
_TABLES = ((MURI, muri.COLUMNS), (SLURM, slurm_log.COLUMNS), (LINGJUN, lingjun.COLUMNS))
_HEAD_BYTES = 65_536


def detect(path: Path) -> str:
    """One of FORMATS. TraceError for an empty file or one of no known format."""
    raw = head(path, _HEAD_BYTES)
    if not raw.strip():
        raise TraceError(path, "is empty")
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if text.startswith("["):
        return MCCS if "[[traces]]" in text else KINETO if '"ph"' in text else PHILLY
    if text.startswith("{"):
        return KINETO if '"traceEvents"' in text or '"nodes"' not in text else CHAKRA_JSON
    if b"\0" not in raw and "[[traces]]" in text:
        return MCCS
    first = {name.strip() for name in text.split("\n", 1)[0].split(",")}
    for name, columns in _TABLES:
        if first >= set(columns):
            return name
    if "algbw" in text or "nccl-tests" in text:
        return NCCL_TESTS
    if any(byte < 9 for byte in raw[:64]):
        return CHAKRA
    nearest = max(_TABLES, key=lambda table: len(first & set(table[1])))
    missing = [column for column in nearest[1] if column not in first]
    if len(missing) < len(nearest[1]):
        raise TraceError(path, f"row 1 looks like a {nearest[0]} table, but has no column {missing[0]!r}")
    raise TraceError(path, f"has none of the known formats ({', '.join(FORMATS)})")
