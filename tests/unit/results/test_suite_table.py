"""The table over a suite of scenarios: cells, summaries, and comparisons that don't belong together."""

from __future__ import annotations

import msgspec
import pytest
from click.testing import CliRunner

from harmonics_emu.cli.main import main
from harmonics_emu.results.comparison import compare
from harmonics_emu.results.suite import suite_markdown
from tests.unit.results.test_comparison import run


def comparison(name, fair, planned, fail=False):
    results = {"fair": [run("fair", fair)], "crux": [run("crux", planned, fail=fail)]}
    return msgspec.structs.replace(compare(results), scenario=name)


def cells(text):
    table = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_by_hand():
    pair = comparison("pair", {"a": 3.0, "b": 1.0}, {"a": 1.0, "b": 1.5})
    still = comparison("still", {"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0})
    half = comparison("half", {"a": 2.0, "b": 2.0}, {"a": 1.5, "b": 1.5})
    text = suite_markdown([pair, still, half], "2026-01-31")
    assert text.startswith("Emulated on 2026-01-31 with version ")
    assert "one repeat, each scenario with its own seed." in text
    assert cells(text) == [
        ["scenario", "S, fair", "crux"],
        ["---", "--:", "--:"],
        ["pair", "1.50", "75 (-25)"],
        ["still", "1.00", "- (0)"],
        ["half", "1.50", "50 (17)"],
        ["**median**", "", "**62 (0)**"],
        ["**least**", "", "**50 (-25)**"],
        ["**of achievable, median**", "", "**-**"],
        ["**jobs worse off**", "", "**1 of 6**"],
    ]


def test_of_achievable():
    results = {"fair": [run("fair", {"a": 2.0, "b": 2.0})], "crux": [run("crux", {"a": 1.5, "b": 1.5})]}
    text = suite_markdown([compare(results, bounds=[1.1])], "2026-01-31")
    assert cells(text)[5] == ["**of achievable, median**", "", "**63**"]


def test_a_failed_run_shows():
    text = suite_markdown([comparison("pair", {"a": 2.0}, {"a": 1.0}, fail=True)], "2026-01-31")
    assert cells(text)[2] == ["pair", "1.50", "failed in 1"]


def test_comparisons_must_belong_together():
    pair = comparison("pair", {"a": 2.0}, {"a": 1.0})
    other = compare({"fair": [run("fair", {"a": 2.0})], "varys": [run("varys", {"a": 1.0})]})
    with pytest.raises(ValueError, match="lacks fair, or is unlike"):
        suite_markdown([pair, other], "2026-01-31")


def test_from_the_command_line(tmp_path):
    common = ["compare", "four-in-step", "unequal-periods", "--engine", "simulate", "--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(main, [*common, "--repeat", "2", "--policies", "fair,priority", "--markdown"])
    assert result.exit_code == 0, result.output
    assert "medians of 2 repeats, each scenario with its own seed and the 1 after it." in result.stdout
    four, unequal = cells(result.stdout)[2:4]
    assert four == ["four-in-step", "1.72", "100 (41)"]
    assert unequal[0] == "unequal-periods"
    assert (tmp_path / "runs" / "four-in-step" / "comparison.json").is_file()
    for wrong in (["--policies", "priority", "--markdown"], ["--markdown", "--json"]):
        refused = CliRunner().invoke(main, [*common, *wrong])
        assert refused.exit_code == 2
        assert "--markdown needs fair among the --policies" in refused.stderr
