"""What lies in a run's captures/ beside the packets: of which link each file is, and whether it holds all of them.

A pcap file can tell neither: the link's name may be none that a file can have, and packets that the kernel lost on the
way to the file leave no trace in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from harmonics_emu.ownership import Owner, acting_as, invoking_owner
from harmonics_emu.results.run_directory import write_file
from harmonics_emu.results.schema import UnreadableResult

DIRECTORY = "captures"
ACCOUNT = "captures.json"


class CaptureAccount(msgspec.Struct, frozen=True, kw_only=True):
    """One capture file. link: the cable, both of whose directions are in it. bytes: the file's size.

    packets: written to the file; drops: lost before, None (as packets) where the capturing program did not say.
    incomplete: why the file lacks packets of the run, one line; None where it lacks none. zero_unix_s: the run's time
    zero by the clock of the packets' times, seconds since 1970; None where the run did not get that far.
    """

    link: str
    bytes: int
    packets: int | None
    drops: int | None
    incomplete: str | None
    zero_unix_s: float | None = None


def write_accounts(directory: Path, accounts: Mapping[str, CaptureAccount], owner: Owner | None) -> None:
    """Write the accounts of the files in a run's captures directory, by file name."""
    write_file(directory, ACCOUNT, msgspec.json.format(msgspec.json.encode(accounts), indent=2) + b"\n", owner)


def read_accounts(directory: Path) -> dict[str, CaptureAccount]:
    """By file name; none where the directory holds no account. UnreadableResult if it holds something else."""
    path = directory / ACCOUNT
    try:
        with acting_as(invoking_owner()):
            content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UnreadableResult(f"cannot read {path}: {error.strerror}") from None
    try:
        return msgspec.json.decode(content, type=dict[str, CaptureAccount])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableResult(f"{path} does not tell of captures: {error}") from None
