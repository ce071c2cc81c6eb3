"""What every collective and program puts on every link of an emulated fabric, against what the catalogue says of it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from harmonics_emu.scenario import load_scenario
from topologies.fabric import Fabric
from topologies.shaping import FRAME_BYTES, SEGMENT_PAYLOAD_BYTES
from workloads.collectives import COLLECTIVES, job_transfers
from workloads.job import Job

pytestmark = [pytest.mark.ovs, pytest.mark.torch, pytest.mark.slow]

WITHIN = 0.02
HEADER_BYTES = FRAME_BYTES - SEGMENT_PAYLOAD_BYTES
"""Of each packet that is counted: a switch counts an offloaded segment as one, and so a bare ACK."""
FABRIC = "{kind: rack-spine, racks: 2, hosts_per_rack: 4, spines: 1, host_rate: 200Mbit, uplink_rate: 100Mbit}"
ITERATIONS = 6
APART_S = 1.2
OPTIONS = {"parameter-server": "servers: 2, ", "pipeline": "stages: 4, ", "stage-all-reduce": "stages: 2, "}
BACKWARDS = ("all-gather",)
"""gloo's own ring, which goes the other way round than the catalogue says: the same on every link but for the pairs."""
PROGRAMS = {
    "ps": "gradients: 600kB, servers: 2",
    "hierarchical": "gradients: 600kB",
    "fsdp": "gradients: 600kB, layers: 2",
    "tensor": "activations: 120kB, layers: 2",
    "moe": "activations: 400kB, layers: 1",
    "pipeline": "activations: 300kB, gradients: 600kB, stages: 2",
}


@pytest.mark.sandboxed(deadline_s=120)
def test_every_collective_and_program_loads_the_links_as_predicted(tmp_path: Path) -> None:
    """One job each, one after another as far as they are that fast; each must have summed up rightly, too."""
    scenario, out = tmp_path / "every.yaml", tmp_path / "run"
    sent = [
        f"name: {name}, collective: {name}, {OPTIONS.get(name, '')}gradients: 600kB, bucket: 300kB"
        for name in COLLECTIVES
    ]
    sent += [f"name: program {name}, program: {name}, {fields}" for name, fields in PROGRAMS.items()]
    jobs = [
        f"  - {{{fields}, workers: 8, compute: {{iteration: 20ms}}, iterations: {ITERATIONS}, "
        f"start: {number * APART_S:g}s}}"
        for number, fields in enumerate(sent)
    ]
    scenario.write_text(f"name: every\nfabric: {FABRIC}\nshare_gpus: true\njobs:\n" + "\n".join(jobs))
    command = [sys.executable, "-P", "-m", "harmonics_emu", "run", str(scenario), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode in (0, 3), done.stderr
    result = json.loads((out / "result.json").read_text())
    assert [job["status"] for job in result["jobs"]] == ["done"] * len(sent)

    loaded = load_scenario(str(scenario))
    fabric = loaded.fabric()
    rules = [json.loads(line) for line in (out / "rules.jsonl").read_text().splitlines()]
    pairs = [rule for rule in rules if rule["purpose"] == "pair"]
    for job in loaded.jobs():
        measured, predicted = payload_on_links(fabric, job.name, pairs), predicted_on_links(fabric, job)
        largest = max(predicted.values())
        assert set(predicted) <= set(measured)
        for link, size in measured.items():
            # What comes the other way than the data is acknowledgements and gloo's own words.
            allowed = WITHIN * predicted.get(link, largest)
            assert size == pytest.approx(predicted.get(link, 0.0), abs=allowed), (job.name, link)
        if job.collective not in BACKWARDS and job.program != "fsdp":
            between = payload_between(job.name, pairs)
            for pair, size in job_transfers(job, fabric.rack_of).items():
                assert between[pair] == pytest.approx(job.iterations * size, rel=WITHIN), (job.name, pair)
    on_links: Counter[str] = Counter()
    for rule in pairs:
        on_links.update(dict.fromkeys(path(fabric, rule), rule["bytes"]))
    counted = bytes_on_links(out / "links.csv")
    assert set(counted) == set(on_links)
    for link, size in counted.items():
        assert size == pytest.approx(on_links[link], rel=WITHIN), link


def payload_between(job: str, pairs: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """TCP payload that hosts of one job sent to each other, by the counters of its rules."""
    return {
        (rule["src"], rule["dst"]): rule["bytes"] - HEADER_BYTES * rule["packets"]
        for rule in pairs
        if rule["job"] == job
    }


def payload_on_links(fabric: Fabric, job: str, pairs: list[dict[str, Any]]) -> dict[str, float]:
    """TCP payload of one job on each directed link, by the counters of its rules."""
    found: defaultdict[str, float] = defaultdict(float)
    for rule in pairs:
        if rule["job"] == job:
            for link in path(fabric, rule):
                found[link] += rule["bytes"] - HEADER_BYTES * rule["packets"]
    return found


def predicted_on_links(fabric: Fabric, job: Job) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for (src, dst), size in job_transfers(job, fabric.rack_of).items():
        for link in fabric.paths(src, dst)[0]:
            found[link] += job.iterations * size
    return found


def path(fabric: Fabric, rule: dict[str, Any]) -> tuple[str, ...]:
    """The only path there is, with one spine."""
    (only,) = fabric.paths(rule["src"], rule["dst"])
    return only


def bytes_on_links(table: Path) -> dict[str, int]:
    """What the interfaces counted on each link from first to last sample, headers and all."""
    last: dict[str, int] = {}
    for row in csv.DictReader(table.open()):
        last[row["link"]] = int(row["bytes"])
    return last
