"""Finds policies by name: the built-in ones, and those that other packages offer as `harmonics_emu.policies`."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from harmonics_emu.errors import UsageError
from harmonics_emu.schedulers.interface import Policy

BUILT_IN = ("fair", "priority", "crux", "cassini", "varys", "sincronia", "srpt", "mltcp", "optimal", "harmonics")
ENTRY_POINT_GROUP = "harmonics_emu.policies"


def policy_names() -> tuple[str, ...]:
    offered = (point.name for point in entry_points(group=ENTRY_POINT_GROUP))
    return (*BUILT_IN, *sorted(set(offered) - set(BUILT_IN)))


def find_policy(name: str) -> Policy:
    """The policy called `name`. UsageError names those there are, or says why another package's can't be had."""
    if name in BUILT_IN:
        policy: Policy = import_module(f"harmonics_emu.schedulers.{name}").policy
        return policy
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            offered: Policy = point.load()
        except Exception as error:
            raise UsageError(f"policy {name} ({point.value}) can't be loaded: {_first_line(error)}") from error
        if not all(hasattr(offered, needed) for needed in ("name", "summary", "plan")):
            raise UsageError(f"policy {name} ({point.value}) is no policy: it needs name, summary and plan")
        return offered
    raise UsageError(f"no policy is called {name!r}; there are: {', '.join(policy_names())}")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
