"""Each topology module, run by itself, hands the prompt a fabric that a scenario file could hold."""

import json
import os
import sys

import click
import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter

from harmonics_emu.scenario.fabrics import FabricSection
from topologies import custom, dumbbell, fat_tree, rack_spine


@pytest.mark.parametrize(
    ("main", "arguments", "hosts"),
    [
        (rack_spine.main, "--racks 2 --hosts 4", 8),
        (rack_spine.main, "--racks 3 --hosts 1 --spines 2 --host-rate 2Gbit --uplink-rate 50Mbit", 3),
        (dumbbell.main, "--hosts 3 --uplink-rate 10Mbit", 6),
        (fat_tree.main, "--k 4", 16),
        (custom.main, "--host a --host b --link a s0 1Gbit --link b s0 100Mbit", 2),
    ],
)
def test_main_becomes_the_prompt(
    monkeypatch: pytest.MonkeyPatch, main: click.Command, arguments: str, hosts: int
) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, argv: called.append([path, *argv]))
    result = CliRunner().invoke(main, arguments.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    ((*command, section),) = called
    assert command == [sys.executable, sys.executable, "-m", "harmonics_emu", "prompt", "--fabric"]
    fabric = TypeAdapter(FabricSection).validate_python(json.loads(section)).build()
    assert len(fabric.hosts) == hosts
    assert fabric.kind == json.loads(section)["kind"]


def test_fat_tree_refuses_an_odd_k() -> None:
    result = CliRunner().invoke(fat_tree.main, ["--k", "3"])
    assert result.exit_code == 2
    assert "even" in result.output
