"""`bench rules`, small: plans of a few jobs are put into force on its large fabric, and their times told."""

from __future__ import annotations

import json

import pytest

from tests.system.runs import harmonics

pytestmark = [pytest.mark.ovs, pytest.mark.sandboxed(deadline_s=90)]


def test_changes_of_plans_are_timed() -> None:
    done = harmonics("bench", "rules", "--jobs", "2", "--json", timeout_s=80)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    # 12 pairs of each job beside what serves whatever jobs there are.
    assert (row["jobs"], row["rules"]) == (2, 1435 + 2 * 12)
    for key in ("new_levels_s", "known_levels_s", "level_s", "rates_s"):
        assert 0 < row[key] < 2
