"""Scenarios written on the command line: a few settings and a command for each job, and a fabric for all of them.

    name=a workers=4 -- python train.py --epochs 2

A job is KEY=VALUE settings, `--` and the command; without `--` all of it is the command. Quotes are the shell's.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from harmonics_emu.errors import UsageError
from harmonics_emu.scenario.loader import parse_scenario
from harmonics_emu.scenario.problems import did_you_mean
from harmonics_emu.scenario.scenario import Scenario

JOB_KEYS = ("name", "hosts", "workers", "placement", "start", "weight", "priority", "warmup")
FABRIC: Mapping[str, str] = {"racks": "2", "spines": "1", "host_rate": "200Mbit", "uplink_rate": "100Mbit"}
"""What a fabric that is not written down is like; it has as many hosts as the jobs need."""
FABRIC_KEYS = ("racks", "hosts_per_rack", "spines", "gpus_per_host", "host_rate", "uplink_rate", "intra_host_rate")
WORKERS = 2
NUMBERS = frozenset({"workers", "weight", "priority", "warmup", "racks", "hosts_per_rack", "spines", "gpus_per_host"})


def write_scenario(jobs: Sequence[str], fabric: str) -> Scenario:
    """The scenario of jobs and a fabric as they are written on the command line. UsageError for what can't be read.

    fabric: KEY=VALUE settings of a rack-spine fabric, may be empty.
    """
    sections = [_job(text, number) for number, text in enumerate(jobs)]
    settings = {**FABRIC, **_settings(_split(fabric, "--fabric"), FABRIC_KEYS, "--fabric")}
    if "hosts_per_rack" not in settings:
        settings["hosts_per_rack"] = str(_hosts_per_rack(sections, settings))
    document = {
        "name": "+".join(str(section["name"]) for section in sections),
        "fabric": {"kind": "rack-spine", **{key: _value(key, text) for key, text in settings.items()}},
        "jobs": sections,
    }
    return parse_scenario(json.dumps(document, ensure_ascii=False, indent=1).encode(), "--job")


def _job(text: str, number: int) -> dict[str, object]:
    where = f"--job {text!r}"
    words = _split(text, where)
    before, command = ([], words) if "--" not in words else _cut(words)
    if not command:
        raise UsageError(f"{where} runs nothing; write the command, as --job 'workers=4 -- python train.py'")
    settings = _settings(before, JOB_KEYS, where)
    section: dict[str, object] = {"name": f"job{number}"}
    section |= {key: _value(key, value) for key, value in settings.items() if key != "hosts"}
    if "hosts" in settings:
        if "placement" in settings:
            raise UsageError(f"{where} gives hosts and placement; keep one of them")
        section["placement"] = settings["hosts"].split(",")
    elif "workers" not in settings:
        section["workers"] = WORKERS
    return {**section, "program": {"command": command}}


def _cut(words: list[str]) -> tuple[list[str], list[str]]:
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _split(text: str, where: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{where}: {str(error).lower()}") from None


def _settings(words: Sequence[str], known: Sequence[str], where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise UsageError(f"{where}: {word!r} is no KEY=VALUE; a command comes after --")
        if key not in known:
            raise UsageError(f"{where}: there is no key {key!r}; {did_you_mean(key, known)}")
        if key in found:
            raise UsageError(f"{where} gives {key} twice")
        found[key] = value
    return found


def _value(key: str, text: str) -> object:
    """Numbers as such, where they are some; anything else is for the scenario's checks to judge."""
    if key in NUMBERS:
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
    return text


def _hosts_per_rack(sections: Sequence[Mapping[str, object]], settings: Mapping[str, str]) -> int:
    """Room for all jobs on hosts of their own, and for the hosts that they name."""
    try:
        racks, gpus = max(1, int(settings["racks"])), max(1, int(settings.get("gpus_per_host", "1")))
    except ValueError:
        return 1  # which the scenario's checks say
    ranks, named = 0, 0
    for section in sections:
        placement, workers = section.get("placement"), section.get("workers")
        if isinstance(placement, list):
            numbers = [host.rpartition("h")[2] for host in placement]
            named = max([named, *(int(number) + 1 for number in numbers if number.isascii() and number.isdecimal())])
        elif isinstance(workers, int):
            ranks += workers
    return max(1, named + -(-ranks // (racks * gpus)))
