"""The only module that runs external commands: each with a deadline, and an error that says what failed and why."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from harmonics_emu.errors import HarmonicsError
from workloads.namespaces import die_with_parent


class CommandFailed(HarmonicsError):
    """A command that could not be started, failed, or ran past its deadline."""


def run(argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 10.0) -> str:
    """Run a command to its end and return what it printed. CommandFailed carries its exit status and last lines."""
    return run_checked(argv, stdin=stdin, timeout_s=timeout_s)[0]


def run_checked(argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 10.0) -> tuple[str, str]:
    """As `run`, but returns (stdout, stderr), for callers that must see warnings too."""
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except FileNotFoundError:
        raise CommandFailed(f"{argv[0]} is not installed (or not on PATH)") from None
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"{describe(argv)} did not finish within {timeout_s:g} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-600:]
        raise CommandFailed(f"{describe(argv)} failed with status {done.returncode}: {said}")
    return done.stdout, done.stderr


def start(
    argv: Sequence[str],
    *,
    log: BinaryIO | None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | None = None,
    new_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program that dies with the thread that started it; call it from a thread that lives as long as needed.

    stderr, and stdout unless given, go to the file `log`; without one they are the caller's own.
    """
    parent = os.getpid()
    try:
        return subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=log if stdout is None else stdout,
            stderr=log,
            env=None if env is None else dict(env),
            start_new_session=new_session,
            preexec_fn=lambda: die_with_parent(parent),
        )
    except FileNotFoundError:
        raise CommandFailed(f"{argv[0]} is not installed (or not on PATH)") from None


def describe(argv: Sequence[str]) -> str:
    """A command as one readable line, cut where it is very long."""
    line = shlex.join(argv)
    return line if len(line) <= 160 else line[:157] + "..."
