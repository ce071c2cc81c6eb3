"""Compiles the kernel's functions, and keeps what was compiled between runs.

numba's own cache notices a change in a function's file, not in the files of the functions that it calls. So the cache
folder is named after a digest of all sources of this package and of the one that a function is in: a changed kernel
never runs on code that was compiled before, as long as it calls only functions of these two.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])
PACKAGE = Path(__file__).parent


def _homes(package: Path) -> Iterator[Path]:
    """Where compiled code may be kept: beside Python's own compiled files, else in the user's cache."""
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given)
    yield package / "__pycache__"
    if "XDG_CACHE_HOME" in os.environ or os.path.expanduser("~") != "~":
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "harmonics-emu"


@cache
def cache_folder(package: Path) -> Path | None:
    """Where the compiled functions of a package (the folder of its modules) are kept; None where nothing can be kept.

    The first folder that is the running user's own: a root process leaves nothing in another user's tree.
    """
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted(source for folder in {PACKAGE, package} for source in folder.glob("*.py")):
        digest.update(source.read_bytes())
    for home in _homes(package):
        folder = home.absolute() / f"kernel-{digest.hexdigest()}"
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        ours = not hasattr(os, "geteuid") or there.stat().st_uid == os.geteuid()
        if ours and os.access(there, os.W_OK):
            return folder
    return None


CACHE_FOLDER = cache_folder(PACKAGE)
"""None where nothing can be kept: then each process compiles anew."""
WAS_COMPILED = CACHE_FOLDER is not None and CACHE_FOLDER.is_dir()
"""Whether an earlier process has left compiled code."""


def say_if_compiling(say: Callable[[str], object]) -> None:
    """Let a user know why the first simulation takes longer."""
    if not WAS_COMPILED:
        say("Compiling the simulator, which takes some ten seconds. Later runs find it compiled.")


def compiled(function: Function) -> Function:
    """Compile on the first call, or take what an earlier run compiled.

    Functions whose name begins with '_' can be called from compiled code only: that halves their compile time.
    """
    settings: Any = numba.config
    njit: Any = numba.njit
    # numba takes the cache folder from its settings while it decorates; they are put back for other users of numba.
    folder = cache_folder(Path(function.__code__.co_filename).parent)
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(folder or "")
    try:
        decorate = njit(
            cache=folder is not None,
            nogil=True,
            error_model="numpy",
            no_cfunc_wrapper=True,
            no_cpython_wrapper=function.__name__.startswith("_"),
        )
        return cast(Function, decorate(function))
    finally:
        settings.CACHE_DIR = before
