"""What a run was made with."""

from __future__ import annotations

import os
import subprocess

import msgspec
import pytest

import harmonics_emu
from harmonics_emu.results.manifest import build_manifest, git_facts


@pytest.fixture
def tree(tmp_path):
    """A git work tree with one tracked package, made without the caller's configuration."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("first\n")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    person = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for command in (["init", "-q"], ["add", "package"], [*person, "commit", "-qm", "First"]):
        subprocess.run(["git", *command], cwd=tmp_path, env=environment, check=True, timeout=20)
    return tmp_path


def test_git_facts(tree):
    facts = git_facts(tree / "package")
    assert len(facts["revision"]) == 40
    assert facts["modified"] is False
    (tree / "package" / "__init__.py").write_text("second\n")
    assert git_facts(tree / "package") == {**facts, "modified": True}


def test_a_copy_that_the_tree_does_not_track_has_no_revision(tree):
    installed = tree / "site-packages"
    installed.mkdir()
    (installed / "__init__.py").touch()
    assert git_facts(installed) is None


def test_no_git_is_no_error(tree, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert git_facts(tree / "package") is None


def test_manifest_holds_what_a_repetition_needs():
    found = build_manifest(
        seed=7, owner=(1000, 1001), settings={"shaping": ["htb"]}, abilities={"netem": False}, open_vswitch="3.1.0"
    )
    assert found == msgspec.json.decode(msgspec.json.encode(found))
    assert (found["seed"], found["tool"], found["state"]) == (7, "harmonics-emu", "finished")
    assert found["version"] == harmonics_emu.__version__
    assert found["user"] == {"uid": 1000, "gid": 1001, "is_root": False}
    assert found["settings"] == {"shaping": ["htb"]}
    assert found["abilities"] == {"netem": False}
    assert found["open_vswitch"] == "3.1.0"
    assert found["packages"]["numpy"]
    assert build_manifest(seed=7, owner=None, settings={})["user"]["uid"] == os.geteuid()
