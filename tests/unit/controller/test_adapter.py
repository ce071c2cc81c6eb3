"""What the frameworks must and must not do, each in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

NO_EVENTLET = """
import sys
import controller.__main__, controller.server
from controller.adapter import Framework
Framework("os-ken")
found = {name.partition(".")[0] for name in sys.modules} & {"eventlet", "greenlet", "ryu"}
assert not found, found
assert "os_ken" in sys.modules
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=30)


def test_the_default_path_does_without_eventlet() -> None:
    done = run("-c", NO_EVENTLET)
    assert done.returncode == 0, done.stderr


def test_a_taken_port_is_said_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("c")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ["--socket", str(directory / "s"), "--openflow-port", port, "--log", str(directory / "log")]
        done = run("-m", "controller", *options)
    assert done.returncode == 1
    assert done.stderr == f"controller: can't listen for switches at 127.0.0.1:{port}: Address already in use\n"
    assert not (directory / "s").exists()
