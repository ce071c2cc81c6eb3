"""Run directories: whose they are, which are refused, and that no link leads out of one."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from harmonics_emu.errors import UsageError
from harmonics_emu.ownership import acting_as
from harmonics_emu.results.run_directory import (
    RunDirectoryError,
    file_name,
    locked,
    make_subdirectory,
    new_run_directory,
    prepare_run_directory,
    replacing,
    write_file,
)

SOMEBODY = (54321, 54322)


@pytest.fixture
def loose_umask():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def home_of_somebody():
    """A folder that SOMEBODY owns and can reach (pytest's own are closed to others), beside one that is closed."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    home, closed = base / "home", base / "closed"
    home.mkdir()
    closed.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(home, *SOMEBODY)
    yield home, closed
    shutil.rmtree(base)


def modes(top):
    return {path: stat.S_IMODE(path.lstat().st_mode) for path in (top, *top.rglob("*"))}


def test_parents_are_made_and_nothing_is_world_writable(tmp_path, loose_umask):
    directory = prepare_run_directory(tmp_path / "a" / "b" / "run", None)
    write_file(directory, "result.json", b"{}", None)
    make_subdirectory(directory, "logs", None)
    assert json.loads((directory / "manifest.json").read_bytes())["state"] == "started"
    for path, mode in modes(tmp_path / "a").items():
        assert mode & 0o022 == 0, path


def test_paths_of_any_length_and_odd_names(tmp_path):
    directory = prepare_run_directory(tmp_path / ("x" * 120) / ("y" * 120) / "odd name\n'ü'\udcff", None)
    write_file(directory, "result.json", b"{}", None)
    assert (directory / "result.json").read_bytes() == b"{}"


def test_a_relative_path_comes_back_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert prepare_run_directory(Path("runs/one"), None) == tmp_path / "runs/one"


def test_default_names_are_distinct_and_short_enough(tmp_path):
    first, second = (new_run_directory("pair/../ü" * 60, "fair", None, base=tmp_path) for _ in range(2))
    assert first != second
    assert first.parent == second.parent == tmp_path
    assert len(first.name) < 200


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "x" * 500, "naïve name", "\udcff"])
def test_odd_names_become_plain_file_names(name):
    plain = file_name(name)
    assert plain == Path(plain).name != ""
    assert plain.isascii()
    assert len(plain) <= 80
    assert plain[0] not in "-."
    assert file_name(name + "y") != plain


def test_plain_names_stay_as_they_are():
    assert file_name("two-tenants") == "two-tenants"


def test_a_run_is_not_overwritten_but_may_be_resumed(tmp_path):
    directory = prepare_run_directory(tmp_path / "run", None)
    write_file(directory, "manifest.json", b'{"tool": "harmonics-emu", "state": "finished"}', None)
    with pytest.raises(RunDirectoryError, match="already holds a run; choose another --out or remove it"):
        prepare_run_directory(directory, None)
    assert prepare_run_directory(directory, None, resume=True) == directory
    assert b"finished" in (directory / "manifest.json").read_bytes()


def test_what_a_killed_run_was_writing_goes_when_it_is_resumed(tmp_path):
    directory = prepare_run_directory(tmp_path / "run", None)
    with replacing(directory, "kept.csv", None) as sink:
        (directory / ".links.csv.0123abcd").write_text("half")
        (directory / ".notes").write_text("somebody's own")
        sink.write("whole")
    prepare_run_directory(directory, None, resume=True)
    assert sorted(os.listdir(directory)) == [".notes", "kept.csv", "manifest.json"]
    with locked(directory), pytest.raises(RunDirectoryError, match="another run is writing"):
        prepare_run_directory(directory, None, resume=True)


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"tool": "another"}', b"\xff"])
@pytest.mark.parametrize("resume", [False, True])
def test_a_directory_of_other_things_is_refused(tmp_path, content, resume):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(RunDirectoryError, match="is not empty and holds no run"):
        prepare_run_directory(tmp_path, None, resume=resume)


def test_an_empty_directory_is_taken(tmp_path):
    assert prepare_run_directory(tmp_path, None) == tmp_path


def test_the_directory_of_a_run_killed_at_its_very_beginning_is_taken(tmp_path):
    (tmp_path / ".manifest.json.0123abcd").write_text("{")
    assert prepare_run_directory(tmp_path, None) == tmp_path


def test_files_and_links_in_the_way_are_refused(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunDirectoryError, match="is a symbolic link"):
        prepare_run_directory(tmp_path / "link", None)
    with pytest.raises(RunDirectoryError, match="is no directory"):
        prepare_run_directory(tmp_path / "file", None)
    with pytest.raises(RunDirectoryError, match="cannot"):
        prepare_run_directory(tmp_path / "file" / "run", None)
    with pytest.raises(RunDirectoryError, match="symbolic link, which is not followed"):
        write_file(tmp_path / "link", "result.json", b"{}", None)
    assert list(real.iterdir()) == []


def test_links_inside_are_replaced_not_followed(tmp_path):
    directory = prepare_run_directory(tmp_path / "run", None)
    outside = tmp_path / "outside"
    outside.mkdir()
    victim = outside / "victim"
    victim.write_text("mine")
    (directory / "result.json").symlink_to(victim)
    (directory / "logs").symlink_to(outside)
    write_file(directory, "result.json", b"{}", None)
    assert victim.read_text() == "mine"
    assert not (directory / "result.json").is_symlink()
    with pytest.raises(RunDirectoryError, match="is in the way"):
        make_subdirectory(directory, "logs", None)


def test_a_marker_that_is_a_link_proves_nothing(tmp_path):
    ours = prepare_run_directory(tmp_path / "ours", None)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "manifest.json").symlink_to(ours / "manifest.json")
    with pytest.raises(RunDirectoryError, match="holds no run"):
        prepare_run_directory(foreign, None, resume=True)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    write_file(tmp_path, "result.json", b"old", None)

    def fail():
        with replacing(tmp_path, "result.json", None) as sink:
            sink.write("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert (tmp_path / "result.json").read_bytes() == b"old"


def test_files_belong_to_the_owner(home_of_somebody):
    """With root: everything belongs to the owner. Without: writing for somebody else is refused."""
    home, _ = home_of_somebody
    if os.geteuid() != 0:
        with pytest.raises(UsageError, match="that takes root on Linux"):
            prepare_run_directory(home / "runs" / "one", SOMEBODY)
        assert list(home.iterdir()) == []
        return
    directory = prepare_run_directory(home / "runs" / "one", SOMEBODY)
    make_subdirectory(directory, "logs", SOMEBODY)
    write_file(directory, "result.json", b"{}", SOMEBODY)
    found = [home / "runs", *(home / "runs").rglob("*")]
    assert len(found) == 5
    assert {(path.stat().st_uid, path.stat().st_gid) for path in found} == {SOMEBODY}
    (home / "by-root").touch()
    assert (home / "by-root").stat().st_uid == 0


def test_only_what_the_owner_may_reach_is_written(home_of_somebody):
    """With root: a link that the owner planted above the run directory gives the owner no more rights."""
    home, closed = home_of_somebody
    (home / "runs").symlink_to(closed)
    if os.geteuid() != 0:
        with pytest.raises(UsageError, match="that takes root on Linux"), acting_as(SOMEBODY):
            pass
        return
    with pytest.raises(RunDirectoryError, match="choose an --out that this user may write"):
        prepare_run_directory(home / "runs" / "one", SOMEBODY)
    assert list(closed.iterdir()) == []
    with pytest.raises(RunDirectoryError, match="belongs to user 0, not to user 54321"):
        prepare_run_directory(closed, SOMEBODY)
