"""Policies of other packages that can't be had: said in a line, and no obstacle to the others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import EntryPoint

import pytest
from click.testing import CliRunner

from harmonics_emu.cli.main import main
from harmonics_emu.errors import UsageError
from harmonics_emu.schedulers import registry

BROKEN = {
    "missing": ("no_such_module:policy", "can't be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
    "nameless": ("harmonics_emu.schedulers.fair:nothing", "can't be loaded: AttributeError"),
    "function": ("harmonics_emu.schedulers.fair:plan_fair", "is no policy: it needs name, summary and plan"),
}


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(name, value, registry.ENTRY_POINT_GROUP) for name, (value, _) in BROKEN.items()]

    def entry_points(group: str, name: str | None = None) -> Iterable[EntryPoint]:
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(registry, "entry_points", entry_points)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_told(offered: None, name: str) -> None:
    with pytest.raises(UsageError) as raised:
        registry.find_policy(name)
    assert BROKEN[name][1] in str(raised.value)
    assert BROKEN[name][0] in str(raised.value)


def test_the_others_are_listed(offered: None) -> None:
    result = CliRunner().invoke(main, ["policies", "--json"])
    assert result.exit_code == 0, result.output
    summaries = {row["name"]: row["summary"] for row in json.loads(result.stdout)["policies"]}
    assert set(summaries) == {*registry.BUILT_IN, *BROKEN}
    assert all(summaries[name].startswith("broken: ") for name in BROKEN)
    assert summaries["fair"] == registry.find_policy("fair").summary
