"""harmonics-emu: a testbed for scheduling the collectives of training jobs that share one cluster's network.

result = harmonics_emu.run("two-tenants", policy="priority")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harmonics_emu.runs import run as run
    from harmonics_emu.scenario import load_scenario as load_scenario

__version__ = "0.1.0"
__all__ = ["__version__", "load_scenario", "run"]


def __getattr__(name: str) -> object:
    """Load what is asked for only then: this package's name alone must import at once."""
    if name == "run":
        from harmonics_emu.runs import run

        return run
    if name == "load_scenario":
        from harmonics_emu.scenario import load_scenario

        return load_scenario
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
