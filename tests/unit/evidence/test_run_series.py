"""Series of a run as files: they say what the records say, with units in the names, in CSV and Parquet alike."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from harmonics_emu.cli.main import main
from harmonics_emu.evidence.attribution import explain
from harmonics_emu.evidence.recorded_run import load_recorded_run
from harmonics_emu.evidence.run_series import run_series
from harmonics_emu.evidence.witnesses import witnesses
from harmonics_emu.results.series_files import Series, write_series
from harmonics_emu.runs import run
from tests.unit.evidence.captures import pcap, segment

TABLES = ["contention", "decisions", "iterations", "links", "plans"]
UNITS = ("_s", "_bytes", "_ratio", "_bits_per_s", "_packets")
PLAIN = {"job", "iteration", "link", "names", "jobs", "decision", "policy", "fallback", "why", "level", "bytes"}
PLAIN |= {"src", "src_port", "dst", "dst_port"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("series") / "run"
    run("four-tenants", policy="priority", out=where)
    return where


def columns_of(path: Path) -> dict[str, list[str]]:
    with path.open(newline="") as source:
        header, *rows = csv.reader(source)
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


def rows_of(table: dict[str, list[Any]], *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name] for name in names), strict=True))


def test_the_command_writes_every_series_in_both_formats(directory: Path, tmp_path: Path) -> None:
    out = tmp_path / "series"
    told = CliRunner().invoke(main, ["report", str(directory), "--series", str(out), "--out", str(tmp_path / "r.html")])
    assert told.exit_code == 0, told.output
    assert "as CSV and Parquet" in told.output
    assert sorted(path.stem for path in out.glob("*.csv")) == TABLES
    for path in out.glob("*.csv"):
        text = columns_of(path)
        packed = pyarrow.parquet.read_table(path.with_suffix(".parquet")).to_pydict()
        assert list(packed) == list(text)
        assert all(name in PLAIN or name.endswith(UNITS) for name in packed), list(packed)
        for name, cells in text.items():
            assert ["" if value is None else str(value) for value in packed[name]] == cells, (path.name, name)


def test_series_say_what_the_records_say(directory: Path, tmp_path: Path) -> None:
    recorded = load_recorded_run(directory)
    found = {}
    for series in run_series(recorded):
        write_series(tmp_path, series, None, parquet=True)
        found[series.name] = pyarrow.parquet.read_table(tmp_path / f"{series.name}.parquet").to_pydict()
    for explanation in explain(recorded):
        mine = [
            duration
            for job, number, duration in rows_of(found["iterations"], "job", "iteration", "iteration_s")
            if job == explanation.job and number >= 1
        ]
        assert np.mean(mine) == pytest.approx(explanation.mean_s)
    for link, rows in recorded.run.records.links.items():
        carried = [b for name, b in rows_of(found["links"], "link", "carried_bytes") if name == link]
        assert sum(carried) == rows["bytes"][-1] - rows["bytes"][0]
    contended: dict[str, float] = {}
    for link, start_s, end_s in rows_of(found["contention"], "link", "start_s", "end_s"):
        contended[link] = contended.get(link, 0.0) + end_s - start_s
    assert contended == pytest.approx({one.spans.link: one.spans.contended_s for one in witnesses(recorded)})
    assert min(found["contention"]["jobs"]) >= 2
    levels = dict(rows_of(found["plans"], "job", "level"))
    assert len(set(levels.values())) == 4


def test_captures_add_their_packets(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    (copy / "captures").mkdir(parents=True)
    for path in directory.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    frames = [(10**9 + n, bytes(segment("10.1.0.1", "10.1.0.5", 1, 2, 1 + 10 * n, 0, size=10))) for n in range(5)]
    (copy / "captures" / "leaf0-spine0.pcap").write_bytes(pcap(frames))
    *_, packets = run_series(load_recorded_run(copy))
    assert packets.name == "packets"
    write_series(tmp_path, packets, None, parquet=True)
    rows = columns_of(tmp_path / "packets.csv")
    total = sum(len(frame) for _, frame in frames)
    assert {int(size) for size in rows["bytes"]} == {total}, "the link's, the job's and the flow's"
    assert pyarrow.parquet.read_table(tmp_path / "packets.parquet").schema.field("src_port").type == pyarrow.int64()


def test_nothing_stands_for_what_is_not_known(tmp_path: Path) -> None:
    series = Series("s", {"a_s": float, "b": str, "c": int}, [[np.array([1.5, math.nan]), ["x,\n", None], [None, 2]]])
    assert write_series(tmp_path, series, None, parquet=True) == ("s.csv", "s.parquet")
    assert (tmp_path / "s.csv").read_bytes() == b'a_s,b,c\n1.5,"x,\n",\n,,2\n'
    assert pyarrow.parquet.read_table(tmp_path / "s.parquet").to_pydict() == {
        "a_s": [1.5, None],
        "b": ["x,\n", None],
        "c": [None, 2],
    }


def test_without_the_extras_the_rest_is_written_and_said(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyarrow", "pyarrow.parquet", "resvg_py"):
        monkeypatch.setitem(sys.modules, name, None)
    arguments = ["--series", str(tmp_path / "s"), "--figures", str(tmp_path / "f"), "--out", str(tmp_path / "r.html")]
    told = CliRunner().invoke(main, ["report", str(directory), *arguments])
    assert told.exit_code == 0, told.output
    assert "harmonics-emu[parquet]" in told.output
    assert "harmonics-emu[plots]" in told.output
    assert {path.suffix for path in (tmp_path / "s").iterdir()} == {".csv"}
    assert {path.suffix for path in (tmp_path / "f").iterdir()} == {".svg"}
