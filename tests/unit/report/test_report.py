"""Reports are whole, well-formed, need nothing from elsewhere, and can't be broken by names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from harmonics_emu.cli.main import main
from harmonics_emu.comparing import compare_policies
from harmonics_emu.evidence.recorded_run import load_recorded_run
from harmonics_emu.records import LINK_SAMPLE
from harmonics_emu.report.comparison_report import comparison_report
from harmonics_emu.report.heat_map import utilisation
from harmonics_emu.report.markup import VOID, Markup, element, joined
from harmonics_emu.report.run_report import run_report
from harmonics_emu.runs import run
from harmonics_emu.scenario import load_scenario, parse_scenario

HOSTILE = '</script><img src=x onerror=alert(1)>&"'
SECTIONS = ("summary", "timeline", "explanation", "links", "contention", "iterations", "decisions", "rules", "settings")


class Checked(HTMLParser):
    """Elements of a document, in order, with their attributes; fails where one is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.found if name == tag)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("report") / "run"
    run("four-tenants", policy="priority", out=where)
    return where


def test_a_run_report_has_every_part_and_loads_nothing(directory: Path) -> None:
    text = run_report(load_recorded_run(directory))
    checked = Checked(text)
    assert [attributes["id"] for attributes in checked.all("section")] == list(SECTIONS)
    assert [attributes["href"] for attributes in checked.all("a")] == [f"#{name}" for name in SECTIONS]
    assert list(checked.all("link")) == []
    assert not any({"src", "xlink:href"} & attributes.keys() for _, attributes in checked.found)
    assert re.search(r"url\(|@import|https?://", text) is None
    pictures = list(checked.all("svg"))
    assert len(pictures) == 4 + 1 + 4  # lanes, links, histograms
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in pictures)
    for part in ("vgg16 took 439 ms an iteration", "faithful", "lost to", "leaf0&gt;spine0", "rack-spine"):
        assert part in text
    assert len(text) < 2_000_000


def test_the_timeline_draws_what_the_iterations_say(directory: Path) -> None:
    recorded = load_recorded_run(directory)
    text = run_report(recorded)
    for kind, total in (("compute", "compute_s"), ("communication", "communication_s")):
        drawn = re.findall(rf'<path d="([^"]*)" class="{kind}"', text)
        lengths = [float(length) for path in drawn for length in re.findall(r"h(\d[\d.]*)v", path)]
        expected = sum(float(getattr(rows.times, total).sum()) for rows in recorded.iterations.values())
        assert sum(lengths) == pytest.approx(expected, rel=1e-3)


def test_names_stay_text(tmp_path: Path) -> None:
    jobs = "".join(
        f"  - {{name: {name!r}, model: vgg16, placement: [r0h{host}, r1h{host}], iterations: 3}}\n"
        for host, name in enumerate((HOSTILE, "b" * 200))
    )
    fabric = "{kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 1, host_rate: 400Mbit, uplink_rate: 200Mbit}"
    text = f"name: {HOSTILE!r}\nfabric: {fabric}\nscale: {{rate: 1/500}}\njobs:\n{jobs}"
    run(parse_scenario(text.encode(), "hostile.yaml"), policy="fair", out=tmp_path / "run")
    shown = run_report(load_recorded_run(tmp_path / "run"))
    checked = Checked(shown)
    assert len(list(checked.all("script"))) == 1
    assert list(checked.all("img")) == []
    assert not any(key.startswith("on") for _, attributes in checked.found for key in attributes)


def test_a_comparison_stands_side_by_side(tmp_path: Path) -> None:
    scenario = load_scenario("two-tenants").short()
    compare_policies(scenario, ["fair", "crux:levels=2"], "simulate", repeats=2, directory=tmp_path / "c")
    text = comparison_report(tmp_path / "c")
    checked = Checked(text)
    timelines = [attributes for attributes in checked.all("figure") if attributes.get("class") == "timeline"]
    assert len(timelines) == 2
    assert len({(attributes["data-end"], attributes["data-to"]) for attributes in timelines}) == 1
    for part in ("<strong>fair</strong>", "<strong>crux</strong>", "training saved", "isolated", "2 repeats"):
        assert part in text


def test_the_command_writes_the_page_and_refuses_what_is_no_run(directory: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["report", str(directory), "--out", str(tmp_path / "page.html")])
    assert told.exit_code == 0, told.output
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert CliRunner().invoke(main, ["report", str(directory)]).exit_code == 0
    assert (directory / "report.html").is_file()
    told = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert (told.exit_code, "no whole run" in told.output) == (2, True)


def test_a_run_without_iterations_or_samples_still_has_a_report(directory: Path, tmp_path: Path) -> None:
    for name in ("result.json", "scenario.yaml", "manifest.json", "iterations.csv", "links.csv"):
        content = (directory / name).read_text()
        (tmp_path / name).write_text(content.splitlines()[0] + "\n" if name.endswith(".csv") else content)
    for name in ("decisions.jsonl", "rules.jsonl"):
        (tmp_path / name).touch()
    text = run_report(load_recorded_run(tmp_path))
    for part in ("were not sampled", "decided nothing", "nothing to compare with", "Fewer than two jobs"):
        assert part in text
    Checked(text)


def test_elements_escape_what_is_not_markup() -> None:
    made = element("p", "<b>", Markup("<i></i>"), ["&", None], title='"', class_="a", hidden=True, lang=None)
    assert made == '<p title="&quot;" class="a" hidden>&lt;b&gt;<i></i>&amp;</p>'
    assert joined(["a", [Markup("<br>")]]) == "a<br>"


def test_utilisation_shares_samples_out_evenly() -> None:
    rows = np.zeros(3, LINK_SAMPLE)
    rows["time_s"], rows["bytes"] = (0, 1, 2), (0, 1000, 1000)
    assert utilisation(rows, 16_000, np.array([0, 0.5, 1.5, 2])).tolist() == [0.5, 0.25, 0]


def test_figures_stand_alone(directory: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["report", str(directory), "--figures", str(tmp_path / "figures")])
    assert told.exit_code == 0, told.output
    written = sorted(path.name for path in (tmp_path / "figures").glob("*.svg"))
    jobs = ("bert", "gpt2", "vgg16", "vgg19")
    assert written == [*(f"iterations-{job}.svg" for job in jobs), "links.svg", "timeline.svg"]
    for path in (tmp_path / "figures").glob("*.svg"):
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.find(".//{http://www.w3.org/2000/svg}style") is not None
        assert len(list(root.iter())) > 5


def test_figures_of_a_comparison_are_of_each_policy(tmp_path: Path) -> None:
    scenario = load_scenario("two-tenants").short()
    compare_policies(scenario, ["fair", "crux:levels=2"], "simulate", repeats=1, directory=tmp_path / "c")
    told = CliRunner().invoke(main, ["report", str(tmp_path / "c"), "--figures", str(tmp_path / "f")])
    assert told.exit_code == 0, told.output
    written = {path.name for path in (tmp_path / "f").iterdir()}
    assert {"slowdowns.svg", "fair-timeline.svg", "crux-timeline.svg", "crux-links.svg"} <= written
    told = CliRunner().invoke(main, ["report", str(tmp_path / "c"), "--series", str(tmp_path / "s")])
    assert (told.exit_code, "name one of those" in told.output) == (2, True)
