"""What a run was made with, so that it can be made again: versions, kernel, seed, revision, every setting applied."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import harmonics_emu
from harmonics_emu import shell
from harmonics_emu.ownership import Owner
from harmonics_emu.results.run_directory import TOOL

PACKAGE = Path(harmonics_emu.__file__).resolve().parent
GIT_TIMEOUT_S = 5.0


def build_manifest(
    *,
    seed: int,
    owner: Owner | None,
    settings: Mapping[str, Any],
    abilities: Mapping[str, Any] | None = None,
    open_vswitch: str | None = None,
) -> dict[str, Any]:
    """manifest.json of a finished run.

    settings: what was applied, as read back (JSON values only). abilities: what the kernel can do, as probed.
    open_vswitch: its version, None where there was none. user: to whom the directory belongs and as whom the ranks
    ran; `is_root` says that no other user was known. git: None outside a work tree of this program.
    """
    uid, gid = owner if owner is not None else (os.geteuid(), os.getegid())
    return {
        "schema": 1,
        "tool": TOOL,
        "version": harmonics_emu.__version__,
        "state": "finished",
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seed": seed,
        "git": git_facts(PACKAGE),
        "user": {"uid": uid, "gid": gid, "is_root": uid == 0},
        "python": platform.python_version(),
        "packages": installed_packages(),
        "system": {
            "kernel": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
        },
        "open_vswitch": open_vswitch,
        "abilities": dict(abilities or {}),
        "settings": dict(settings),
        "arguments": sys.argv[1:],
    }


def installed_packages() -> dict[str, str]:
    """Version of every distribution that this interpreter finds, by name."""
    found = {dist.metadata["Name"]: dist.version for dist in metadata.distributions() if dist.metadata["Name"]}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def git_facts(package: Path) -> dict[str, Any] | None:
    """{"revision", "modified"} of the work tree that tracks `package`, None if there is no git or no such tree.

    `modified`: whether tracked files differ from the revision. Works as root on another user's tree, and writes nothing
    there.
    """
    # A tree that belongs to another user is refused unless named safe; optional locks would leave root's index file,
    # and a file-system monitor named in the tree's own configuration would run as root.
    git = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", str(package)]

    def ask(*arguments: str) -> str:
        return shell.run([*git, *arguments], timeout_s=GIT_TIMEOUT_S).strip()

    try:
        # An installed copy inside some other project's tree is not tracked there: that revision says nothing of ours.
        ask("ls-files", "--error-unmatch", "__init__.py")
        revision = ask("rev-parse", "HEAD")
        changes = ask("status", "--porcelain", "--untracked-files=no")
    except shell.CommandFailed:
        return None
    return {"revision": revision, "modified": bool(changes)}
