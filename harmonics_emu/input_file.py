"""Files that users name, read whole: with their own rights, and never from what has no end."""

from __future__ import annotations

import os
import stat

from harmonics_emu.ownership import acting_as, invoking_owner


class IrregularFile(OSError):
    """A folder, a device or a pipe. strerror: which of these, as `a directory` or `no regular file`."""


def read_regular_file(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """A regular file's bytes, but no more than one above `most_bytes`, by which a caller sees that it is too large.

    Read as the user who called sudo, since errors quote the file. OSError, and IrregularFile before it is opened: a
    pipe or a device might never say that it has ended.
    """
    with acting_as(invoking_owner()):
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise IrregularFile(None, kind, os.fspath(path))
        with open(path, "rb") as file:
            return file.read(most_bytes + 1)
