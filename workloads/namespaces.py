"""What a forked process does to itself to become a rank: enter a network namespace, drop privileges, die in time."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def enter_network_namespace(path: str) -> None:
    """Join the network namespace at `path` (/proc/PID/ns/net or /run/netns/NAME). OSError names the path."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # os.setns came with Python 3.12.
        if _libc.setns(file, CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"can't enter the network namespace: {os.strerror(code)}", path)
    finally:
        os.close(file)


def become(uid: int, gid: int, groups: tuple[int, ...]) -> None:
    """Give up the present user for good: real, effective and saved ids. PermissionError if this process may not."""
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent's forking thread ends; exit at once if `parent` is gone already.

    Comes after `become`: changing the user clears the kernel's note.
    """
    if _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"can't ask for a parent-death signal: {os.strerror(code)}")
    if os.getppid() != parent:
        os._exit(125)
