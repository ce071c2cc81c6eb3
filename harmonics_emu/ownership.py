"""Work on files as the user who called sudo, so that what a root process leaves behind is that user's own.

The kernel itself then checks every path against that user's rights: no symbolic link that the user plants can lead a
root process to a file that the user could not have written.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from harmonics_emu.errors import UsageError

Owner = tuple[int, int]
"""(uid, gid) of the user to whom files shall belong; None in its place means whoever runs the program."""

_libc = ctypes.CDLL(None, use_errno=True)
_ASK = ctypes.c_int(-1)
"""An id that setfsuid refuses, whereupon it only says which one is in force."""


def invoking_owner() -> Owner | None:
    """The user who called sudo; None where nobody did, so that files and ranks are the calling user's own."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not uid.isdecimal() or not gid.isdecimal() or uid == "0":
        return None
    return int(uid), int(gid)


@contextmanager
def acting_as(owner: Owner | None) -> Iterator[None]:
    """Files and folders made in here belong to `owner`, and only what `owner` may reach is reached.

    Switches the filesystem ids of the calling thread alone (Linux, root). UsageError if that can't be done.
    """
    if owner is None or owner == (os.geteuid(), os.getegid()):
        yield
        return
    uid, gid = owner
    before_uid, before_gid = os.geteuid(), os.getegid()
    if before_uid != 0 or not hasattr(_libc, "setfsuid"):
        raise UsageError(f"cannot write files for user {uid}: that takes root on Linux")
    try:
        # The group first: without uid 0 it can't be changed any more.
        _libc.setfsgid(gid)
        _libc.setfsuid(uid)
        if (_libc.setfsuid(_ASK), _libc.setfsgid(_ASK)) != (uid, gid):
            raise UsageError(f"cannot write files for user {uid}, group {gid}: the kernel refused (user namespace?)")
        yield
    finally:
        _libc.setfsuid(before_uid)
        _libc.setfsgid(before_gid)
