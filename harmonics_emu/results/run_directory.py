"""A run's directory: made for its owner, told from other people's directories, and written file by file.

Files appear whole or not at all (a temporary file in the same directory, then a rename), and a name is always taken
relative to the opened directory, so that neither a link in place of the directory nor one inside it is followed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import msgspec

import harmonics_emu
from harmonics_emu.errors import UsageError
from harmonics_emu.ownership import Owner, acting_as

TOOL = "harmonics-emu"
MANIFEST = "manifest.json"
STARTED = "started"
DIRECTORY_MODE = 0o755
FILE_MODE = 0o644
NAME_LENGTH = 80
HALF_WRITTEN = re.compile(r"\..+\.[0-9a-f]{8}")
"""Names of files on their way: what a killed run leaves of them is of no use."""


class RunDirectoryError(UsageError):
    """A directory that can't be used for a run, and why."""


def prepare_run_directory(path: Path, owner: Owner | None, *, resume: bool = False) -> Path:
    """Make `path` and its parents as `owner`, mark it as ours by a first manifest.json, and return it as absolute.

    An empty directory is taken as it is. One that holds a run is refused unless `resume`, which removes what a killed
    run was just writing; anything else that holds files, belongs to another user or is a symbolic link is refused
    always (RunDirectoryError).
    """
    path = Path(os.path.abspath(path))
    with acting_as(owner), _explained(path):
        _make_parents(path.parent)
        try:
            path.mkdir(mode=DIRECTORY_MODE)
        except FileExistsError:
            if _check_existing(path, owner, resume):
                with locked(path):
                    _remove_half_written(path)
                return path
    mark = {"schema": 1, "tool": TOOL, "version": harmonics_emu.__version__, "state": STARTED}
    write_file(path, MANIFEST, msgspec.json.encode(mark) + b"\n", owner)
    return path


def new_run_directory(scenario: str, policy: str, owner: Owner | None, *, base: Path = Path("runs")) -> Path:
    """Prepare BASE/NAME-POLICY-TIMESTAMP, with a number behind it where two runs began in the same second."""
    stem = f"{file_name(scenario)}-{file_name(policy)}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while os.path.lexists(path := base / (stem if number == 1 else f"{stem}-{number}")):
        number += 1
    return prepare_run_directory(path, owner)


def file_name(name: str) -> str:
    """`name` as a short, plain file name: other characters become '-', what is cut off a hash of the whole."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    if plain and plain == name and len(name) <= NAME_LENGTH:
        return name
    digest = hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=4).hexdigest()
    return f"{plain[: NAME_LENGTH - 9]}-{digest}".lstrip("-")


def make_plain_directory(path: Path, owner: Owner | None) -> Path:
    """Make `path` and its parents as `owner`, for files that are no run. RunDirectoryError unless new or empty."""
    path = Path(os.path.abspath(path))
    with acting_as(owner), _explained(path):
        _make_parents(path.parent)
        try:
            path.mkdir(mode=DIRECTORY_MODE)
        except FileExistsError:
            if not path.is_dir() or os.listdir(path):
                raise RunDirectoryError(f"{path} exists and is not an empty directory; choose another --out") from None
    return path


def make_subdirectory(directory: Path, name: str, owner: Owner | None) -> Path:
    """Make (or keep) a folder such as logs/ or captures/ in a run directory, as `owner`; never through a link."""
    with acting_as(owner), _explained(directory / name), _opened(directory) as handle:
        try:
            os.mkdir(name, DIRECTORY_MODE, dir_fd=handle)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                raise RunDirectoryError(f"{directory / name} is in the way: it is no directory; remove it") from None
    return directory / name


def write_file(directory: Path, name: str, content: bytes, owner: Owner | None) -> None:
    """Write one file of a run directory, whole or not at all, as `owner`."""
    with replacing(directory, name, owner) as sink:
        sink.buffer.write(content)


@contextmanager
def replacing(directory: Path, name: str, owner: Owner | None) -> Iterator[TextIO]:
    """A UTF-8 text file that becomes `directory`/`name` when the block ends well, and vanishes when it does not."""
    temporary = f".{name}.{secrets.token_hex(4)}"  # as HALF_WRITTEN
    with acting_as(owner), _explained(directory / name), _opened(directory) as handle:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, FILE_MODE, dir_fd=handle)
        try:
            with open(descriptor, "w", encoding="utf-8", newline="") as sink:
                yield sink
            os.rename(temporary, name, src_dir_fd=handle, dst_dir_fd=handle)
        except BaseException:
            os.unlink(temporary, dir_fd=handle)
            raise


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold a run's directory while it is written to. RunDirectoryError if another run holds it."""
    with _opened(directory) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunDirectoryError(f"another run is writing to {directory}; choose another --out") from None
        yield


def unfinished_runs(base: Path) -> list[Path]:
    """Directories at or below `base` whose run began and neither finished nor goes on; links are not followed.

    An interrupted comparison is not among them while it holds a finished run: it can be resumed.
    """
    found = []
    for folder, below, files in os.walk(base):
        path = Path(folder)
        if MANIFEST not in files or _state(path) != STARTED:
            continue
        if not _is_locked(path) and not any(path.rglob("result.json")):
            found.append(path)
            below.clear()
    return found


def _is_locked(directory: Path) -> bool:
    try:
        with locked(directory):
            return False
    except RunDirectoryError:
        return True


def _make_parents(path: Path) -> None:
    # mkdir(parents=True) would give every folder above the last one the mode that the umask happens to leave.
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


def _check_existing(path: Path, owner: Owner | None, resume: bool) -> bool:
    """Whether `path` is a run of ours to resume (True) or an empty directory to take (False)."""
    found = os.stat(path, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        raise RunDirectoryError(f"{path} is a symbolic link; name the directory itself")
    if not stat.S_ISDIR(found.st_mode):
        raise RunDirectoryError(f"{path} is no directory; choose another --out")
    user = os.geteuid() if owner is None else owner[0]
    if user not in (0, found.st_uid):
        raise RunDirectoryError(f"{path} belongs to user {found.st_uid}, not to user {user}; choose another --out")
    if all(HALF_WRITTEN.fullmatch(name) for name in os.listdir(path)):
        return False
    if not _is_ours(path):
        raise RunDirectoryError(f"{path} is not empty and holds no run; choose another --out")
    if not resume:
        raise RunDirectoryError(f"{path} already holds a run; choose another --out or remove it")
    return True


def _remove_half_written(path: Path) -> None:
    with _opened(path) as handle:
        for name in os.listdir(handle):
            if HALF_WRITTEN.fullmatch(name):
                os.unlink(name, dir_fd=handle)


def _is_ours(path: Path) -> bool:
    return _state(path) is not None


def _state(path: Path) -> str | None:
    """The state in a run's manifest; None if the directory holds no run of this program."""
    try:
        with _opened(path) as handle:
            descriptor = os.open(MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
            with open(descriptor, "rb") as source:
                manifest = msgspec.json.decode(source.read())
    except (OSError, msgspec.DecodeError):
        return None
    if not isinstance(manifest, dict) or manifest.get("tool") != TOOL:
        return None
    return str(manifest.get("state"))


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the system's errors into one line that names the path and what to do."""
    try:
        yield
    except FileExistsError as error:
        raise RunDirectoryError(f"cannot make {path}: {error.filename} is in the way; choose another --out") from None
    except PermissionError:
        raise RunDirectoryError(
            f"cannot write {path} as the user who called the program; choose an --out that this user may write"
        ) from None
    except NotADirectoryError:
        raise RunDirectoryError(
            f"cannot write {path}: a part of it is no directory, or a symbolic link, which is not followed"
        ) from None
    except OSError as error:
        raise RunDirectoryError(f"cannot write {path}: {error.strerror}; choose another --out") from None
