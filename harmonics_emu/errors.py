"""Errors that end a command, each with the exit status that DESIGN's table gives it."""

from __future__ import annotations


class HarmonicsError(Exception):
    """A failure with a one-line cause. `exit_code` is the command's exit status."""

    exit_code = 1


class UsageError(HarmonicsError):
    """Wrong usage, or something asked for that this machine can't do."""

    exit_code = 2


class RunFailed(HarmonicsError):
    """A job or a check failed."""

    exit_code = 1


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP came: what runs ends as after Ctrl-C."""
