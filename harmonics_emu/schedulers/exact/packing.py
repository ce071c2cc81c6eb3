"""The most that can be packed: a linear program with non-negative limits, by the simplex method (Dantzig, 1947)."""

from __future__ import annotations

import numpy as np

from harmonics_emu.schedulers.exact.states import Matrix
from harmonics_emu.simulate.kernel.sharing import Floats

STEPS = 2000
"""After so many, what is reached so far has to do: it is a packing too."""
ZERO = 1e-12


def best_packing(gain: Floats, use: Matrix) -> Floats:
    """How much of each item, float64[items], so that gains add up to the most and no resource is used more than once.

    gain: of one of each item, positive. use, float64[resources, items]: of each resource by one of each item, zero or
    more. The result never uses a resource more than once, whatever doubles round.
    """
    resources, items = use.shape
    # One row a resource, the last one for the gain; columns: items, slacks, what is left.
    tableau = np.zeros((resources + 1, items + resources + 1))
    tableau[:-1, :items] = use
    tableau[:-1, items:-1] = np.eye(resources)
    tableau[:-1, -1] = 1.0
    tableau[-1, :items] = -gain
    basis = np.arange(items, items + resources)
    for _ in range(STEPS):
        falling = np.flatnonzero(tableau[-1, :-1] < -ZERO)
        if falling.size == 0:
            break
        enters = falling[0]  # Bland's rule, which never goes round in a circle.
        column = tableau[:-1, enters]
        ratios = np.divide(tableau[:-1, -1], column, out=np.full(resources, np.inf), where=column > ZERO)
        ties = np.flatnonzero(ratios <= ratios.min() + ZERO)
        row = ties[basis[ties].argmin()]
        tableau[row] /= tableau[row, enters]
        others = np.arange(resources + 1) != row
        tableau[others] -= np.outer(tableau[others, enters], tableau[row])
        basis[row] = enters
    amount = np.zeros(items + resources)
    amount[basis] = tableau[:-1, -1].clip(min=0)
    packed = amount[:items]
    return packed / max(1.0, float((use @ packed).max(initial=0.0)))
