"""Rates of a fixed set of flows: the kernel called once, and a numpy twin of it that is slow and plain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harmonics_emu.simulate.kernel.sharing import Floats, Ints, enter, new_sharing, reshare

Crossings = Sequence[Sequence[tuple[int, float]]]
"""For each entity the links that it crosses, as (link index, usage): it uses usage * rate of that link."""


def max_min_rates(capacity: Floats, crossings: Crossings, cap: Floats, level: Ints) -> Floats:
    """Max-min fair rates within strict priority levels, level 0 first.

    capacity: [links], bytes/s. cap: [entities], the highest rate each may have; infinity for none, if it crosses a
    link. level: [entities]. Returns rates [entities].
    """
    first, link, usage = flatten(crossings)
    sharing = new_sharing(first, link, usage, capacity, cap, level)
    for entity in range(len(cap)):
        enter(sharing, entity)
    reshare(sharing)
    return sharing.fresh


def max_min_rates_numpy(capacity: Floats, crossings: Crossings, cap: Floats, level: Ints) -> Floats:
    """The same by textbook progressive filling on a dense matrix: what the kernel is checked against."""
    uses = np.zeros((len(cap), len(capacity)))
    for entity, crossed in enumerate(crossings):
        for link, usage in crossed:
            uses[entity, link] += usage
    rates = np.zeros(len(cap))
    free = capacity.astype(np.float64).copy()
    for step in np.unique(level):
        rising = level == step
        while rising.any():
            load = uses[rising].sum(axis=0)
            fills = np.divide(free, load, out=np.full(len(free), np.inf), where=load > 0)
            growth = min(fills.min(initial=np.inf), (cap[rising] - rates[rising]).min())
            rates[rising] += growth
            free -= growth * load
            full = free <= 1e-11 * capacity
            free[full] = 0.0
            met_cap = rates >= cap * (1 - 1e-12)
            rising &= ~(met_cap | (uses[:, full] > 0).any(axis=1))
    return rates


def flatten(crossings: Crossings) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Crossings as (first [entities + 1], link [crossings], usage [crossings])."""
    first = np.zeros(len(crossings) + 1, np.int64)
    np.cumsum([len(crossed) for crossed in crossings], out=first[1:])
    pairs = [pair for crossed in crossings for pair in crossed]
    return first, np.array([link for link, _ in pairs], np.int64), np.array([usage for _, usage in pairs], np.float64)
