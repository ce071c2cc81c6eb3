"""Compiles the kernel's functions, and keeps what was compiled between runs.

numba's own cache notices a change in a function's file, not in the files of the functions that it calls. So the cache
folder is named after a digest of all kernel sources: a changed kernel never runs on code that was compiled before.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def _cache_folder() -> Path:
    """Beside the package's own compiled files where they can be written, else in the user's cache."""
    package = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted(package.glob("*.py")):
        digest.update(source.read_bytes())
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        home = Path(given)
    elif os.access(package, os.W_OK):
        home = package / "__pycache__"
    else:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "harmonics-emu"
    return home / f"kernel-{digest.hexdigest()}"


CACHE_FOLDER = _cache_folder()


def compiled(function: Function) -> Function:
    """Compile on the first call and cache on disk; where no folder can be written, compile once a process.

    Functions whose name begins with '_' can be called from compiled code only: that halves their compile time.
    """
    # numba takes the cache folder from its settings while it decorates; they are put back for other users of numba.
    settings: Any = numba.config
    njit: Any = numba.njit
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(CACHE_FOLDER)
    options = {
        "nogil": True,
        "error_model": "numpy",
        "no_cfunc_wrapper": True,
        "no_cpython_wrapper": function.__name__.startswith("_"),
    }
    try:
        return cast(Function, njit(cache=True, **options)(function))
    except RuntimeError:  # numba found no folder to cache in
        return cast(Function, njit(**options)(function))
    finally:
        settings.CACHE_DIR = before
