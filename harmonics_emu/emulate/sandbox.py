"""One run, one sandbox: private network, process and mount namespaces that vanish with the process that asked for them.

`start_sandbox` is called outside and `enter_sandbox` is the first thing that the program started in it does. Death
travels one way: the caller's death kills `unshare` (parent-death signal), which kills process 1 of the sandbox
(--kill-child), with which the kernel ends every process in it and frees its interfaces, bridges and mounts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, TypeVar

from harmonics_emu import shell
from harmonics_emu.errors import HarmonicsError, UsageError
from workloads import namespaces

STATE = Path("/run/harmonics")
"""Where the sandbox keeps its sockets and databases: a tmpfs of its own, short enough for Unix socket paths."""
SHARED_PAGES = Path("/dev/shm")
SUPERVISOR = "HARMONICS_SUPERVISOR"
"""In the environment of every process of a sandbox: PID namespace, pid and start time of the process that made it."""

T = TypeVar("T")

_libc = ctypes.CDLL(None, use_errno=True)
_MS_BIND = 4096


def require_root() -> None:
    if os.geteuid() != 0:
        raise UsageError(
            "the emulator makes network namespaces and needs root: call it with sudo "
            "(`harmonics-emu simulate` and `compare --engine simulate` need none)"
        )


def start_sandbox(
    argv: Sequence[str],
    *,
    log: BinaryIO | None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = subprocess.PIPE,
    stdout: int | None = subprocess.PIPE,
    new_session: bool = True,
) -> subprocess.Popen[bytes]:
    """Start `argv` as process 1 of a new sandbox. It dies with the calling thread, however that ends."""
    require_root()
    marked = {**(os.environ if env is None else env), SUPERVISOR: _mark_of(os.getpid())}
    wrapped = ["unshare", "--net", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child=KILL", "--", *argv]
    return shell.start(wrapped, log=log, env=marked, stdin=stdin, stdout=stdout, new_session=new_session)


def kill_sandbox(process: subprocess.Popen[bytes], timeout_s: float = 30.0) -> None:
    """End everything in a sandbox and wait until it is gone, interfaces included.

    Process 1 is killed rather than `unshare`: that one then returns when the kernel has ended the whole namespace.
    """
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)
    try:
        process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=timeout_s)


def orphaned_sandboxes(owner_uid: int) -> list[int]:
    """Processes of sandboxes whose supervisor is gone, of runs that `owner_uid` started. There should be none.

    A process is known by the mark in its environment, never by its name. One whose supervisor belongs to another PID
    namespace (a container's, another sandbox's) is left alone: whether that supervisor lives can't be seen from here.
    """
    here = f"{_pid_namespace()}:"
    orphans = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        # What others put into their environment under our name is theirs.
        with contextlib.suppress(OSError, ValueError):
            environment = dict(
                pair.split("=", 1)
                for pair in (entry / "environ").read_text(errors="replace").split("\0")
                if pair.startswith((f"{SUPERVISOR}=", "SUDO_UID="))
            )
            mark = environment.get(SUPERVISOR, "")
            ours = mark.startswith(here) and int(environment.get("SUDO_UID", "0")) == owner_uid
            if ours and _mark_of(int(mark.split(":")[1])) != mark:
                orphans.append(int(entry.name))
    return sorted(orphans)


def _mark_of(pid: int) -> str:
    return f"{_pid_namespace()}:{pid}:{_start_time(pid)}"


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _start_time(pid: int) -> str:
    """When a process began, in the kernel's clock ticks; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        return ""


def python_command(module: str, *arguments: str) -> list[str]:
    """How to start one of this project's modules with the interpreter that runs now."""
    return [sys.executable, "-P", "-m", module, *arguments]


def enter_sandbox(keep: Sequence[Path]) -> None:
    """Make this process's mounts private to the sandbox: /run, /dev/shm and /sys of its own, loopback up.

    keep: directories that must stay reachable even where they lie below a path that is covered.
    Raises HarmonicsError if this process is not process 1 of a sandbox: on the host it would cover the real /run.
    """
    if os.getpid() != 1:
        raise HarmonicsError("enter_sandbox was called outside a sandbox")
    held = [(path, os.open(path, os.O_PATH)) for path in keep if _is_below(path, (Path("/run"), SHARED_PAGES))]
    _mount("tmpfs", Path("/run"), "mode=755,size=256m")
    _mount("tmpfs", SHARED_PAGES, "mode=1777,size=256m")
    for path, handle in held:
        path.mkdir(parents=True, exist_ok=True)
        _bind(Path(f"/proc/self/fd/{handle}"), path)
        os.close(handle)
    # A mount of sysfs shows the interfaces of the namespace in which it was mounted.
    _mount("sysfs", Path("/sys"), "")
    STATE.mkdir(mode=0o755)
    for setting in ("all", "default"):
        disable = Path(f"/proc/sys/net/ipv6/conf/{setting}/disable_ipv6")
        if disable.exists():
            disable.write_text("1")
    shell.run(["ip", "link", "set", "lo", "up"])


def _mount(kind: str, target: Path, options: str) -> None:
    # The system call, since mount(8) leaves a folder of its own in the host's /run.
    if _libc.mount(kind.encode(), str(target).encode(), kind.encode(), 0, options.encode()) != 0:
        raise HarmonicsError(f"can't mount {kind} on {target} in the sandbox: {os.strerror(ctypes.get_errno())}")


def _bind(source: Path, target: Path) -> None:
    if _libc.mount(str(source).encode(), str(target).encode(), None, _MS_BIND, None) != 0:
        raise HarmonicsError(f"can't keep {target} in the sandbox: {os.strerror(ctypes.get_errno())}")


def _is_below(path: Path, covered: Sequence[Path]) -> bool:
    resolved = path.resolve()
    return any(resolved == root or root in resolved.parents for root in covered)


def enter_network_namespace(name: str) -> None:
    """Move the calling thread into the named network namespace."""
    try:
        namespaces.enter_network_namespace(f"/run/netns/{name}")
    except OSError as error:
        raise HarmonicsError(f"can't enter network namespace {name}: {error.strerror}") from None


def across(namespaces: Iterable[str | None], act: Callable[[str | None], T]) -> list[T]:
    """`act` on each namespace, called from inside it, a few side by side; results in order, the first error raised.

    None is the caller's own. Only threads made for this enter namespaces, and end with it: no caller is left in
    another one.
    """
    names = list(namespaces)

    def enter_and_act(netns: str) -> T:
        enter_network_namespace(netns)
        return act(netns)

    with ThreadPoolExecutor(max_workers=2 * (os.cpu_count() or 1)) as pool:
        waiting = {netns: pool.submit(enter_and_act, netns) for netns in names if netns is not None}
        own = [act(None) for netns in names if netns is None]
        return [own[0] if netns is None else waiting[netns].result() for netns in names]
