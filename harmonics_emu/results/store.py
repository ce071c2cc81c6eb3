"""A whole run to its directory, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harmonics_emu.ownership import Owner
from harmonics_emu.records import JobOutcome, Records
from harmonics_emu.results import rows
from harmonics_emu.results.run_directory import MANIFEST, replacing, write_file
from harmonics_emu.results.schema import Comparison, Result, UnreadableResult, read_result, to_json

LINK_BYTES = "link_bytes.csv"


@dataclass(frozen=True)
class Run:
    """A run as read from its directory; `scenario` is the resolved scenario's YAML text."""

    directory: Path
    result: Result
    records: Records
    manifest: dict[str, Any]
    scenario: str


def write_run(
    directory: Path,
    result: Result,
    records: Records,
    scenario: str,
    manifest: Mapping[str, Any],
    owner: Owner | None,
) -> None:
    """Write manifest.json, scenario.yaml, iterations.csv, links.csv, decisions.jsonl, rules.jsonl and result.json, of
    emulated runs also link_bytes.csv.

    `directory` comes from prepare_run_directory; `scenario` is the resolved scenario's YAML text. result.json comes
    last: a directory that has one holds a whole run.
    """
    content = to_json(result)
    write_file(directory, "scenario.yaml", scenario.encode(), owner)
    with replacing(directory, "iterations.csv", owner) as sink:
        rows.write_iterations(sink, records.iterations)
    with replacing(directory, "links.csv", owner) as sink:
        rows.write_links(sink, records.links)
    if records.link_bytes is not None:
        with replacing(directory, LINK_BYTES, owner) as sink:
            rows.write_link_bytes(sink, records.link_bytes)
    with replacing(directory, "decisions.jsonl", owner) as sink:
        rows.write_lines(sink, records.decisions)
    with replacing(directory, "rules.jsonl", owner) as sink:
        rows.write_lines(sink, records.rules)
    _write_manifest(directory, manifest, owner)
    write_file(directory, "result.json", content, owner)


def write_comparison(directory: Path, comparison: Comparison, manifest: Mapping[str, Any], owner: Owner | None) -> None:
    """Write manifest.json and comparison.json into a directory from prepare_run_directory."""
    content = to_json(comparison)
    _write_manifest(directory, manifest, owner)
    write_file(directory, "comparison.json", content, owner)


def holds_result(directory: Path) -> bool:
    """Whether a whole run lies there: what a comparison need not run again."""
    return (directory / "result.json").is_file()


def load_run(directory: Path) -> Run:
    """Read a run directory. UnreadableResult names the file, line or field that does not fit."""
    result = read_result(directory / "result.json")
    records = Records(
        engine=result.engine,
        policy=result.policy,
        seed=result.seed,
        iterations=rows.read_iterations(directory / "iterations.csv"),
        outcomes={job.name: JobOutcome(job.name, job.status, job.start_s, job.end_s, job.error) for job in result.jobs},
        links=rows.read_links(directory / "links.csv"),
        link_bytes=rows.read_link_bytes(directory / LINK_BYTES),
        decisions=rows.read_decisions(directory / "decisions.jsonl"),
        rules=rows.read_rules(directory / "rules.jsonl"),
        gates_failed_open=result.scheduling.gates_failed_open,
    )
    try:
        manifest = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=dict[str, Any])
        scenario = (directory / "scenario.yaml").read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableResult(f"cannot read {error.filename}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UnreadableResult(f"{directory / MANIFEST} is no manifest: {error}") from None
    except UnicodeDecodeError as error:
        raise UnreadableResult(f"{directory / 'scenario.yaml'} is not UTF-8: {error}") from None
    return Run(directory, result, records, manifest, scenario)


def _write_manifest(directory: Path, manifest: Mapping[str, Any], owner: Owner | None) -> None:
    write_file(directory, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n", owner)
