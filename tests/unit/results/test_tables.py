"""Tables as they stand on an 80-column terminal."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from harmonics_emu.records import JobOutcome
from harmonics_emu.results.build import build_result
from harmonics_emu.results.comparison import compare
from harmonics_emu.results.schema import Fidelity
from harmonics_emu.results.tables import comparison_table, percent, ratio, run_table, seconds
from tests.unit.results import samples
from tests.unit.results.samples import FAITHFUL, fabric, job, records, steady_rows

GOLDEN = Path(__file__).parent / "golden"
COMPUTE_S = {"vision": 0.075, "text": 0.42, "a-long-name-that-a-team-gave-to-its-experiment-17": 1.3}
COMMUNICATION_S = {"vision": 0.066, "text": 0.07, "a-long-name-that-a-team-gave-to-its-experiment-17": 0.5}


def run(policy="fair", factor=2.0, seed=0, names=tuple(COMPUTE_S), fidelity=FAITHFUL, failed=None):
    """Jobs that communicate `factor` times as long as alone."""
    jobs = tuple(job(name, number, iterations=100) for number, name in enumerate(names))
    compute = {name: COMPUTE_S.get(name, 0.1) for name in names}
    communication = {name: COMMUNICATION_S.get(name, 0.05) for name in names}
    found = records({n: steady_rows(100, compute[n], factor * communication[n]) for n in names}, policy, seed)
    if failed:
        found.outcomes[failed] = JobOutcome(failed, "failed", 0.0, 3.0, "rank 2 exited with status 1: out of memory")
        found.iterations[failed] = found.iterations[failed][:40]
    alone = {name: samples.isolated(100, compute[name], communication[name]) for name in names}
    return build_result(found, jobs, fabric(), "three-tenants", alone, fidelity)


def text(table, width=80):
    sink = io.StringIO()
    Console(file=sink, width=width).print(table)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"


def degraded():
    reasons = (
        "leaf0>spine0 carried 71 % of its rate while it was busy; 85 % is the least",
        "both cores were 97 % busy",
    )
    return Fidelity(verdict="degraded", reasons=reasons)


TABLES = {
    "run": lambda: run_table(run()),
    "run-failed": lambda: run_table(run(fidelity=degraded(), failed="text")),
    "comparison": lambda: comparison_table(compare({"fair": [run()], "priority": [run("priority", 1.0)]})),
    "comparison-repeats": lambda: comparison_table(
        compare(
            {
                "fair": [run("fair", 2 + 0.1 * seed, seed) for seed in range(3)],
                "harmonics": [run("harmonics", 1 + 0.01 * seed, seed) for seed in range(3)],
                "crux": [
                    run("crux", 1.5, 0),
                    run("crux", 1.4, 1, failed="vision"),
                    run("crux", 1.6, 2, fidelity=degraded()),
                ],
            }
        )
    ),
    "comparison-without-fair": lambda: comparison_table(compare({"crux": [run("crux", 1.5)]})),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_read_as_they_did(name):
    assert text(TABLES[name]()) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("count", range(1, 9))
def test_up_to_eight_jobs_with_long_names_lose_nothing_in_80_columns(count, repeats):
    names = tuple(f"[red]a very long name, 作業, of team {number} [/red]" + "x" * 60 for number in range(count))
    runs = {
        policy: [run(policy, factor * (1 + seed / 9), seed, names) for seed in range(repeats)]
        for policy, factor in (("fair", 9.0), ("harmonics", 4.0))
    }
    for table in (run_table(runs["fair"][0]), comparison_table(compare(runs))):
        shown = text(table)
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= 80
        assert shown.count("[red]") == count
    assert shown.replace("95 % intervals", "").count(" %") == 2 + 2 * count + 3


def test_a_run_with_nothing_measured_shows_dashes():
    found = records({})
    found.outcomes["vision"] = JobOutcome("vision", "killed", 0.0, 0.0, "the run was stopped")
    result = build_result(found, (job("vision"),), fabric(), "pair", {}, Fidelity(verdict="not faithful"))
    shown = text(run_table(result))
    assert "nan" not in shown.lower()
    assert "vision killed after 0 of 3 iterations: the run was stopped" in shown
    assert "Verdict: not faithful" in shown


def test_units_suit_the_smallest_value():
    assert seconds([0.0661, 0.1409]) == ["66.1 ms", "140.9 ms"]
    assert seconds([17.0, 24.94]) == ["17.0 s", "24.9 s"]
    assert seconds([1.234, 120.0]) == ["1.23 s", "120.00 s"]
    assert seconds([0.9, 1.1, None]) == ["900 ms", "1100 ms", "-"]
    assert seconds([5e-5]) == ["50.0 us"]
    assert seconds([40_000.0]) == ["11.1 h"]
    assert seconds([1e-9, 4000.0]) == ["0 s", "4000 s"]
    assert seconds([1e-5, 400.0]) == ["0 ms", "400000 ms"]
    assert seconds([0.0, None]) == ["0 s", "-"]
    assert seconds([-1e-17, 2.0]) == ["0.00 s", "2.00 s"]


def test_ratios_and_percentages():
    assert (ratio(1.4666), ratio(-0.001), ratio(None)) == ("1.47", "0.00", "-")
    assert (percent(0.3141), percent(-0.02), percent(None)) == ("31.4 %", "-2.0 %", "-")


def test_colours_and_markup_do_not_change_the_text():
    result = msgspec.structs.replace(run(), scenario="[bold]odd[/bold]")
    assert text(run_table(result)).startswith("[bold]odd[/bold] under fair, emulated, seed 0\n")
