"""Files that commands write where the user says, as the user who called sudo."""

from __future__ import annotations

from pathlib import Path


def write_new(directory: Path, name: str, content: bytes, option: str) -> None:
    """Write a file, making its directory. UsageError, naming the `option`, if another content stands there."""
    from harmonics_emu.errors import UsageError
    from harmonics_emu.ownership import acting_as, invoking_owner
    from harmonics_emu.results.run_directory import write_file

    owner, path = invoking_owner(), directory / name
    try:
        with acting_as(owner):
            directory.mkdir(parents=True, exist_ok=True)
            kept = path.read_bytes() if path.exists() else content
    except OSError as error:
        raise UsageError(f"{error.filename} can't be used: {error.strerror}; choose another {option}") from None
    if kept != content:
        raise UsageError(f"{path} holds something else; choose another {option}")
    write_file(directory, name, content, owner)
