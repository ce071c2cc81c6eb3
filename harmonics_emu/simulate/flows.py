"""Finish times of plain flows under max-min sharing with strict priorities: the kernel without fabric or jobs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harmonics_emu.errors import UsageError
from harmonics_emu.input_file import IrregularFile, read_regular_file
from harmonics_emu.simulate.kernel.loop import DONE, Progress, admit, advance, new_clock
from harmonics_emu.simulate.kernel.queue import empty_queue
from harmonics_emu.simulate.kernel.sharing import Floats, new_sharing
from harmonics_emu.simulate.sharing import Crossings, flatten
from harmonics_emu.simulate.state import job_arrays

MAX_FILE_BYTES = 256 * 2**20
MAX_PRIORITY = 2**31
MAX_NUMBER = 1e300
FLOW_KEYS = {"id", "start", "bytes", "links", "priority"}


def finish_times(case: Mapping[str, Any]) -> dict[str, float]:
    """When each flow of a case finishes, in seconds, by flow id in the case's order.

    case: `links` maps a link's name to its capacity in bytes/s; each of `flows` has `id`, `start` (s), `bytes`,
    `links` (names, each once) and perhaps `priority` (0, the default, is served first). UsageError names the case and
    the flow that can't be.
    """
    name = case.get("name", "unnamed") if isinstance(case, dict) else "unnamed"
    try:
        capacity, flows = _checked(case)
    except ValueError as error:
        raise UsageError(f"case {name}: {error}") from None
    index = {link: position for position, link in enumerate(capacity)}
    if not flows:
        return {}
    finish = _run(
        capacity=np.array(list(capacity.values()), np.float64),
        crossings=[[(index[link], 1.0) for link in flow["links"]] for flow in flows],
        start=[flow["start"] for flow in flows],
        size=[flow["bytes"] for flow in flows],
        level=[flow.get("priority", 0) for flow in flows],
    )
    for flow, at in zip(flows, finish, strict=True):
        if not math.isfinite(at):
            raise UsageError(f"case {name}: flow {flow['id']} would finish later than numbers reach")
    return {flow["id"]: float(at) for flow, at in zip(flows, finish, strict=True)}


def read_cases(path: Path) -> dict[str, Any]:
    """A file that holds one case or {"cases": [...]}, as it is. UsageError if it is neither, or too large."""
    try:
        raw = read_regular_file(path, MAX_FILE_BYTES)
        if len(raw) > MAX_FILE_BYTES:
            raise UsageError(f"{path} has more than the {MAX_FILE_BYTES:,} bytes that are read; split its cases")
        document = json.loads(raw, object_pairs_hook=_unique)
    except IrregularFile as error:
        raise UsageError(f"{path} is {error.strerror}; name a file of flows") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply to be a file of flows") from None
    except ValueError as error:  # JSON and UTF-8 errors alike
        raise UsageError(f"{path} is not JSON that can be read: {error}") from None
    if not isinstance(document, dict) or not ("cases" in document or {"links", "flows"} <= document.keys()):
        raise UsageError(f'{path} holds no flows: it needs "links" and "flows", or "cases": a list of such objects')
    if not isinstance(document.get("cases", []), list):
        raise UsageError(f'{path}: "cases" must be a list')
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. ValueError for a key given twice, of which the last would count without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return found


def _checked(case: Mapping[str, Any]) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Capacities and flows of a case. ValueError says what in it can't be."""
    if not isinstance(case, dict):
        raise ValueError("it is no object")
    capacity, flows = case.get("links"), case.get("flows")
    if not isinstance(capacity, dict) or not isinstance(flows, list):
        raise ValueError('it needs "links" (an object) and "flows" (a list)')
    for link, rate in capacity.items():
        if not _is_number(rate):
            raise ValueError(f"link {link}: its capacity must be zero or more, and finite, in bytes/s, not {rate!r}")
    seen: set[str] = set()
    for position, flow in enumerate(flows):
        if not isinstance(flow, dict) or not isinstance(flow.get("id"), str):
            raise ValueError(f'flows[{position}] needs an "id" that is a string')
        problem = "its id is used twice" if flow["id"] in seen else _problem(flow, capacity)
        if problem:
            raise ValueError(f"flow {flow['id']}: {problem}")
        seen.add(flow["id"])
    return capacity, flows


def _problem(flow: Mapping[str, Any], capacity: Mapping[str, float]) -> str | None:
    unknown = flow.keys() - FLOW_KEYS
    if unknown:
        return f"unknown key {min(unknown)!r}; it may have {', '.join(sorted(FLOW_KEYS))}"
    for key in ("start", "bytes"):
        if not _is_number(flow.get(key)):
            return f"{key} must be zero or more, and finite, not {flow.get(key)!r}"
    priority = flow.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority < MAX_PRIORITY:
        return f"priority must be a whole number from 0 (served first), not {priority!r}"
    links = flow.get("links")
    if not isinstance(links, list) or not links:
        return "it crosses no link, so nothing limits it: give it at least one"
    for link in links:
        if not isinstance(link, str) or link not in capacity:
            return f"link {link!r} is none of the case's links"
        if capacity[link] == 0 and flow["bytes"] > 0:
            return f"link {link} has capacity 0, so it would never finish"
    if len(set(links)) < len(links):
        return "it crosses a link twice"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER


def _run(
    capacity: Floats,
    crossings: Crossings,
    start: Sequence[float],
    size: Sequence[float],
    level: Sequence[int],
) -> Floats:
    """Finish times: each flow is a job that computes until its start and sends once. Infinity where none is reached."""
    count = len(start)
    one_each = np.ones(count, np.int64)
    sharing = new_sharing(*flatten(crossings), capacity, np.full(count, np.inf), np.array(level, np.int64))
    progress = Progress(
        left=np.zeros(count),
        sent=np.zeros(count),
        since=np.zeros(count),
        scale=np.ones(count),
        weight=np.ones(count),
        job=np.arange(count),
    )
    jobs = job_arrays(
        entities=one_each,
        buckets=one_each,
        bucket_bytes=np.array(size, np.float64),
        bucket_ready=np.ones(count),
        bucket_weight=np.ones(count),
        iterations=one_each,
        compute=np.array(start, np.float64),
        factor=np.ones((count, 1)),
        drawn=one_each,
    )
    queue = empty_queue(2 * count)
    admit(sharing, queue, jobs, np.arange(count), 0.0)
    advance(sharing, queue, progress, jobs, new_clock(), np.inf, False)
    return np.where(jobs.phase == DONE, jobs.ended, np.inf)
