"""What a topology module does when it is run by itself: open the Mininet prompt on the fabric it describes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, NoReturn


def open_prompt(fabric: Mapping[str, Any]) -> NoReturn:
    """Replace this process by `harmonics_emu prompt` on `fabric`, which reads as a scenario file's `fabric` does.

    The prompt is a program of its own because topologies import nothing from harmonics_emu.
    """
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "harmonics_emu", "prompt", "--fabric", json.dumps(fabric)])
