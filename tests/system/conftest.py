"""`@pytest.mark.sandboxed(deadline_s=30)` runs a test, fixtures and all, in a private network, PID and mount namespace.

The test runs in a forked child that is process 1 of its PID namespace: whatever it makes (interfaces, named
namespaces, daemons) is gone when the child is, and a test that hangs is killed at its deadline.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

import pytest
from _pytest.reports import TestReport
from _pytest.runner import runtestprotocol

from harmonics_emu import shell
from workloads.namespaces import die_with_parent

CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE = 1 << 14, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sandboxed(deadline_s=30): run in private namespaces; needs root")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    mark = item.get_closest_marker("sandboxed")
    if mark is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in run_in_sandbox(item, **mark.kwargs):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # Whatever this process has set up for tests before (packages, modules) is its own to tear down.
    item.session._setupstate.teardown_exact(nextitem)
    return True


def run_in_sandbox(item: pytest.Item, deadline_s: float = 30.0) -> list[TestReport]:
    receive, send = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        os.close(receive)
        _be_the_sandbox(item, send, parent)
    os.close(send)
    message = _read_line(receive, deadline_s)
    os.close(receive)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if message is None:
        return [failed(item, f"the sandboxed test did not finish within {deadline_s:g} s")]
    if not message:
        return [failed(item, "the sandboxed test's process died without a report")]
    found = json.loads(message)
    if isinstance(found, str):
        return [failed(item, found)]
    return [item.config.hook.pytest_report_from_serializable(config=item.config, data=data) for data in found]


def failed(item: pytest.Item, why: str) -> TestReport:
    return TestReport(item.nodeid, item.location, {}, "failed", why, "call")


def _read_line(pipe: int, deadline_s: float) -> bytes | None:
    """What the child sent up to a line's end; empty if it closed the pipe instead, None at the deadline."""
    end = time.monotonic() + deadline_s
    message = b""
    while not message.endswith(b"\n"):
        if not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            return None
        chunk = os.read(pipe, 1 << 16)
        if not chunk:
            return b""
        message += chunk
    return message


def _be_the_sandbox(item: pytest.Item, send: int, parent: int) -> NoReturn:
    """In the forked child: enter the namespaces, fork process 1, run the test in it, send its reports, end."""
    die_with_parent(parent)
    try:
        _check(_libc.unshare(CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS), "unshare (as root)")
    except OSError as error:
        _send(send, str(error))
        os._exit(1)
    init = os.fork()
    if init:
        os.close(send)
        os.waitpid(init, 0)
        os._exit(0)
    try:
        # Process 1 sees its parent as 0, so only the kernel's signal can tell it that the parent is gone.
        die_with_parent(0)
        _check(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "making mounts private")
        for kind, where in ((b"proc", b"/proc"), (b"sysfs", b"/sys"), (b"tmpfs", b"/run")):
            _check(_libc.mount(kind, where, kind, 0, None), f"mounting {where.decode()}")
        shell.run(["ip", "link", "set", "lo", "up"])
        reports: list[Any] = runtestprotocol(item, nextitem=None, log=False)
        _send(send, [item.config.hook.pytest_report_to_serializable(config=item.config, report=r) for r in reports])
    except BaseException as error:
        _send(send, f"{type(error).__name__}: {error}")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _send(pipe: int, message: object) -> None:
    data = json.dumps(message, default=str).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]


def _check(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
