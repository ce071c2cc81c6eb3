"""The code that the documentation shows: it runs, and prints what the page says."""

from __future__ import annotations

import doctest
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import harmonics_emu
from harmonics_emu.cli.main import main
from harmonics_emu.errors import UsageError
from harmonics_emu.scenario import load_scenario
from harmonics_emu.scenario.schema import PolicySection

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_library_page_is_a_session_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "library.md").read_text(encoding="utf-8")
    session = doctest.DocTestParser().get_doctest(page, {}, "library.md", str(DOCS / "library.md"), 0)
    said: list[str] = []
    outcome = doctest.DocTestRunner().run(session, out=said.append)
    assert outcome.attempted > 20
    assert outcome.failed == 0, "".join(said)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The policy that the page shows, installed as pip would; returns its code."""
    page = (DOCS / "policies.md").read_text(encoding="utf-8")
    (code,), (project,) = blocks(page, "python"), blocks(page, "toml")
    offered = tomllib.loads(project)["project"]
    folder = tmp_path / f"fewest_bytes-{offered['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {offered['name']}\nVersion: {offered['version']}\n")
    lines = [
        line
        for group, entries in offered["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "fewest_bytes.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fewest_bytes", raising=False)
    return code


def test_the_policy_of_the_page_runs_when_it_is_installed(installed: str) -> None:
    assert len(installed.splitlines()) <= 30
    listed = CliRunner().invoke(main, ["policies", "--json"])
    assert "fewest-bytes" in [row["name"] for row in json.loads(listed.stdout)["policies"]]
    first = CliRunner().invoke(main, ["schedule", "four-tenants", "--policy", "fewest-bytes", "--json"])
    assert json.loads(first.stdout)["plan"]["facts"]["order"] == ["bert", "gpt2", "vgg16", "vgg19"]
    fair, fewest = (harmonics_emu.run("four-in-step", policy=policy) for policy in ("fair", "fewest-bytes"))
    assert fewest.policy == "fewest-bytes"
    assert fair.cluster.S is not None
    assert fewest.cluster.S is not None
    assert fewest.cluster.S < fair.cluster.S - 0.5


@pytest.mark.usefixtures("installed")
def test_the_policy_of_the_page_checks_its_options() -> None:
    scenario = load_scenario("four-in-step")

    def with_options(**options: object) -> harmonics_emu.scenario.Scenario:
        section = PolicySection.model_validate({"name": "fewest-bytes", **options})
        return type(scenario)(scenario.file.model_copy(update={"policy": section}))

    assert harmonics_emu.run(with_options(levels=2)).cluster.S is not None
    for wrong in ({"levels": 9}, {"level": 2}):
        with pytest.raises(UsageError, match="policy fewest-bytes takes levels, from 1 to 8, not"):
            harmonics_emu.run(with_options(**wrong))


def test_the_package_imports_at_once_and_offers_run() -> None:
    assert {"run", "load_scenario"} <= set(harmonics_emu.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        _ = harmonics_emu.runn  # type: ignore[attr-defined]
    code = "import sys, harmonics_emu; assert not {'numpy', 'pydantic', 'numba'} & set(sys.modules)"
    from harmonics_emu.shell import run

    run([sys.executable, "-c", code])
