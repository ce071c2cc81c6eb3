"""What a plan's levels do to real traffic: strict order, and no harm to jobs that run the other way."""

from __future__ import annotations

import pytest

from harmonics_emu.bench.links import measure

pytestmark = pytest.mark.ovs


@pytest.mark.sandboxed(deadline_s=90)
def test_the_top_one_of_eight_levels_has_the_link_to_itself() -> None:
    """In one of three tries: whoever else is busy on the machine takes from it too."""
    shares = max((measure("bands", 100)["shares"] for _ in range(3)), key=lambda shares: shares[0])
    assert shares[0] >= 0.97
    assert sum(shares) <= 1.02
    assert max(shares[1:]) < 0.05


@pytest.mark.sandboxed(deadline_s=60)
def test_opposed_jobs_of_unequal_level_both_have_their_line_rate() -> None:
    """Their ACKs share the other's direction, and must not queue behind its data."""
    assert min(measure("opposed", 100)["shares"]) >= 0.9
