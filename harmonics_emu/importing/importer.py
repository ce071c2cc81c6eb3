"""Trace files to a scenario file, and a report of what was read, taken and left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harmonics_emu.errors import UsageError
from harmonics_emu.importing import fabrics
from harmonics_emu.importing.jobs import Names, benchmark_job, logged_job, mccs_job, recorded_job
from harmonics_emu.importing.options import DEFAULT_HOST_RATE_BPS, ImportOptions
from harmonics_emu.importing.selection import at_once, select_jobs
from harmonics_emu.scenario import Scenario, parse_scenario
from harmonics_emu.scenario.estimate import estimate_alone
from harmonics_emu.scenario.quantities import MAX_RATE_BPS, format_scale, format_time
from workloads.models import find_model, model_names
from workloads.traces import formats
from workloads.traces.chakra import read_chakra_json, read_chakra_protobuf
from workloads.traces.kineto import read_kineto
from workloads.traces.lingjun import ClosTopology, read_lingjun
from workloads.traces.logged_job import LoggedJob
from workloads.traces.mccs import MccsJob, read_mccs
from workloads.traces.muri import read_muri
from workloads.traces.nccl_tests import Calibration, read_nccl_tests
from workloads.traces.phases import Phases, Unusable, phases_of
from workloads.traces.philly import read_philly
from workloads.traces.slurm_log import read_slurm_log
from workloads.traces.source import Skipped, TraceError

_LOGS = {formats.MURI: read_muri, formats.SLURM: read_slurm_log, formats.PHILLY: read_philly}
_RECORDINGS = {
    formats.KINETO: read_kineto,
    formats.CHAKRA: read_chakra_protobuf,
    formats.CHAKRA_JSON: read_chakra_json,
}


@dataclass(frozen=True)
class Imported:
    """text: the scenario file. scenario: what it loads to. report: per file, JSON values."""

    text: bytes
    scenario: Scenario
    report: dict[str, Any]


@dataclass
class _Read:
    """All that the files hold, by kind."""

    logs: list[Iterator[LoggedJob]] = field(default_factory=list)
    mccs: list[MccsJob] = field(default_factory=list)
    recorded: list[tuple[str, Phases]] = field(default_factory=list)
    benchmarks: list[Calibration] = field(default_factory=list)
    topology: ClosTopology | None = None
    sources: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def import_traces(paths: Sequence[Path], options: ImportOptions, name: str) -> Imported:
    """A scenario called `name` of all jobs in the files, on their topology or on the options' racks.

    UsageError, naming file and place, for files that can't be read or hold no job.
    """
    unknown = [model for model in options.models if model not in model_names()]
    if unknown:
        raise UsageError(f"the catalogue has no model {unknown[0]!r}; `harmonics-emu models` lists it")
    measured = [model for model in options.models if find_model(model).default_compute is not None]
    if len(measured) < len(options.models):
        raise UsageError("--models takes models with a measured compute time; `harmonics-emu models` marks estimates")
    try:
        return _import(_read_all(paths, options), options, name)
    except TraceError as error:
        raise UsageError(str(error)) from None


def _read_all(paths: Sequence[Path], options: ImportOptions) -> _Read:
    read = _Read()
    for path in paths:
        kind, skipped = formats.detect(path), Skipped()
        source: dict[str, Any] = {"file": str(path), "format": kind}
        read.sources.append(source)
        read.skipped.append(skipped)
        if kind in _LOGS:
            read.logs.append(_LOGS[kind](path, skipped))
        elif kind in _RECORDINGS:
            try:
                phases = phases_of(_RECORDINGS[kind](path, skipped), options.workers)
            except Unusable as error:
                raise TraceError(path, f"{error}{_skipped_too(skipped)}") from None
            read.recorded.append((path.name.split(".")[0], phases))
            source["phases"] = _phases_report(phases)
        elif kind == formats.MCCS:
            read.mccs.append(read_mccs(path))
        elif kind == formats.NCCL_TESTS:
            read.benchmarks.append(read_nccl_tests(path, skipped))
            source["calibration"] = _calibration_report(read.benchmarks[-1])
        elif read.topology is None:
            read.topology = read_lingjun(path, skipped)
        else:
            raise TraceError(path, "is a second topology; a scenario has one fabric")
    return read


def _skipped_too(skipped: Skipped) -> str:
    if not skipped.total:
        return ""
    why, count = skipped.counts.most_common(1)[0]
    return f" ({skipped.total:,} rows were skipped; {count:,} as: {why}, first in row {skipped.first[why]:,})"


def _import(read: _Read, options: ImportOptions, name: str) -> Imported:
    if read.topology is not None and not (read.logs or read.mccs or read.recorded):
        raise UsageError("a topology alone holds no jobs: name a job log beside it")
    rate_bps, fabric = _fabric(read, options)
    gpus = _gpus(fabric)
    selection = select_jobs((job for log in read.logs for job in log), options.jobs, gpus)
    taken = at_once(selection.jobs, gpus) if options.queue == "none" else selection.jobs
    names = Names()
    first_s = taken[0].submit_s if taken else 0.0
    jobs = [logged_job(job, names, options, rate_bps, first_s) for job in taken]
    jobs += [mccs_job(job, names, options) for job in read.mccs]
    jobs += [recorded_job(stem, phases, names, options) for stem, phases in read.recorded]
    jobs += [benchmark_job(calibration, names, options) for calibration in read.benchmarks]
    for source, skipped in zip(read.sources, read.skipped, strict=True):
        source["skipped"] = {
            why: {"rows": count, "first": skipped.first[why]} for why, count in skipped.counts.most_common()
        }
    if not jobs:
        skipped = next((each for each in read.skipped if each.total), Skipped())
        raise UsageError(f"{read.sources[0]['file']}: no job of it can be run on {gpus} GPUs{_skipped_too(skipped)}")
    report: dict[str, Any] = {
        "name": name,
        "files": read.sources,
        "jobs": len(jobs),
        "gpus": gpus,
        "left_out": {
            "too_large": selection.too_large,
            "later": selection.read - selection.too_large - len(taken),
        },
    }
    file: dict[str, Any] = {"name": name, "description": _description(read, options), "fabric": fabric}
    if options.scale != 1:
        file["scale"] = {"rate": format_scale(options.scale)}
    if options.queue != "none" and sum(job["workers"] for job in jobs) > gpus:
        file["queue"] = options.queue
    file["jobs"] = jobs
    text, scenario = _written(file, name)
    if read.recorded:
        text, scenario = _written(_fitted(file, scenario, read, len(jobs)), name)
        _report_replay(report, scenario, read)
    return Imported(text, scenario, report)


def _fabric(read: _Read, options: ImportOptions) -> tuple[int, dict[str, Any]]:
    """The hosts' rate, and the fabric section: a single recorded or measured job gets a fabric of its own size."""
    measured = [phases.link_Bps for _, phases in read.recorded] + [each.bus_Bps for each in read.benchmarks]
    rate_bps = options.host_rate_bps or DEFAULT_HOST_RATE_BPS
    if measured and options.host_rate_bps is None:
        rate_bps = max(1, round(min(MAX_RATE_BPS / 1000, 8 * max(measured))))
    if read.topology is not None:
        return rate_bps, fabrics.clos(read.topology, options, rate_bps)
    if len(measured) == 1 and not read.logs and not read.mccs:
        workers = read.recorded[0][1].ranks if read.recorded else read.benchmarks[0].ranks
        return rate_bps, fabrics.two_racks(workers, options, rate_bps)
    return rate_bps, fabrics.rack_spine(options, rate_bps)


def _gpus(fabric: dict[str, Any]) -> int:
    hosts = (
        len(fabric["hosts"])
        if fabric["kind"] == "custom"
        else 2 * fabric["hosts_per_side"]
        if fabric["kind"] == "dumbbell"
        else fabric["racks"] * fabric["hosts_per_rack"]
    )
    return int(hosts * fabric.get("gpus_per_host", 1))


def _description(read: _Read, options: ImportOptions) -> str:
    parts = [f"Imported from {', '.join(Path(source['file']).name for source in read.sources)}"]
    if options.shrink != 1 and read.logs:
        parts.append(f"Iterations and submission times are divided by {options.shrink:g}.")
    return "\n".join(parts) if len(parts) > 1 else parts[0]


def _written(file: dict[str, Any], name: str) -> tuple[bytes, Scenario]:
    text = yaml.safe_dump(file, sort_keys=False, default_flow_style=None, width=110).encode()
    return text, parse_scenario(text, f"the scenario made of it ({name})")


def _fitted(file: dict[str, Any], scenario: Scenario, read: _Read, count: int) -> dict[str, Any]:
    """The file with recorded jobs' compute changed so that alone they take as long as was recorded.

    They take longer where communication was hidden that equal buckets, ready at even intervals, can't hide; and medians
    of parts don't quite come to the median of the whole.
    """
    jobs = list(file["jobs"])
    first = count - len(read.recorded) - len(read.benchmarks)
    for index, (_, phases) in enumerate(read.recorded, start=first):
        excess_s = estimate_alone(scenario.fabric(), scenario.jobs()[index]).iteration_s - phases.period_s
        if excess_s < phases.compute_s:
            compute_s = round(phases.compute_s - excess_s, 9)
            jobs[index] = jobs[index] | {"compute": jobs[index]["compute"] | {"iteration": format_time(compute_s)}}
    return file | {"jobs": jobs}


def _report_replay(report: dict[str, Any], scenario: Scenario, read: _Read) -> None:
    """What each recorded job takes alone in the scenario, beside what was recorded."""
    sources = [source for source in report["files"] if "phases" in source]
    first = len(scenario.jobs()) - len(read.recorded) - len(read.benchmarks)
    for index, source in enumerate(sources, start=first):
        job = scenario.jobs()[index]
        source["phases"]["replayed_period_s"] = estimate_alone(scenario.fabric(), job).iteration_s
        source["phases"]["replayed_bytes"] = job.bytes


def _phases_report(phases: Phases) -> dict[str, Any]:
    return {
        "iterations": phases.iterations,
        "ranks": phases.ranks,
        "period_s": phases.period_s,
        "compute_s": phases.compute_s,
        "overlap": phases.overlap,
        "communication_s": phases.communication_s,
        "collective": phases.kind,
        "sizes": list(phases.sizes),
        "bytes": phases.bytes,
        "link_bps": 8 * phases.link_Bps,
    }


def _calibration_report(calibration: Calibration) -> dict[str, Any]:
    return {
        "ranks": calibration.ranks,
        "latency_s": calibration.latency_s,
        "algorithm_bps": 8 * calibration.algorithm_Bps,
        "bus_bps": 8 * calibration.bus_Bps,
        "worst_error": calibration.worst_error,
        "sizes": len(calibration.sizes),
    }
