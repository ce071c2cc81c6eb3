"""Merging, loops and shifts on affinity graphs small enough to see through."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.schedulers.affinity_graph import (
    LinkVertex,
    break_loops,
    contended_links,
    trees,
    unique_shifts,
)


def vertex(name: str, *jobs: str, load: float = 0.5) -> LinkVertex:
    return LinkVertex((name,), dict.fromkeys(jobs, 1.0), 1.0, load)


def test_links_with_the_same_jobs_are_one() -> None:
    demand = {"up": {"a": 8.0, "b": 4.0}, "down": {"a": 5.0, "b": 6.0}, "other": {"a": 9.0}}
    (merged,) = contended_links(demand, {"up": 10.0, "down": 9.0, "other": 9.0}, {"a": 0.5, "b": 0.25})
    assert merged == LinkVertex(("up", "down"), {"a": 8.0, "b": 6.0}, 9.0, load=0.5)


def test_a_link_that_carries_all_at_once_is_not_contended() -> None:
    assert contended_links({"l": {"a": 5.0, "b": 5.0}}, {"l": 10.0}, {"a": 1.0, "b": 1.0}) == []


def test_a_loop_loses_its_least_loaded_link() -> None:
    ab, bc, ca = vertex("ab", "a", "b", load=0.9), vertex("bc", "b", "c", load=0.8), vertex("ca", "c", "a", load=0.7)
    assert break_loops([ab, bc, ca]) == ([ab, bc], [ca])


def test_shifts_add_up_along_a_chain() -> None:
    chain = [vertex("ab", "a", "b"), vertex("bc", "b", "c")]
    shifts = unique_shifts(chain, [{"a": 1.0, "b": 3.0}, {"b": 2.0, "c": 7.5}], {"a": 4.0, "b": 4.0, "c": 4.0})
    assert shifts == {"a": 0.0, "b": 2.0, "c": pytest.approx(3.5)}


@st.composite
def graphs(draw: st.DrawFn) -> list[LinkVertex]:
    sets = draw(st.lists(st.frozensets(st.sampled_from("abcdefgh"), min_size=2, max_size=4), max_size=8, unique=True))
    return [vertex(f"l{number}", *sorted(jobs)) for number, jobs in enumerate(sets)]


@given(graphs(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_what_is_kept_has_no_loop_and_keeps_every_relative_shift(graph: list[LinkVertex], random: object) -> None:
    kept, dropped = break_loops(graph)
    assert sorted(one.links for one in kept + dropped) == sorted(one.links for one in graph)
    found = trees(kept)
    assert sorted(one.links for tree in found for one in tree) == sorted(one.links for one in kept)
    for tree in found:
        jobs = {job for one in tree for job in one.jobs}
        # A tree of job and link vertices has one edge fewer than vertices.
        assert sum(len(one.jobs) for one in tree) == len(jobs) + len(tree) - 1
        on_link = [{job: random.random() for job in one.jobs} for one in tree]  # type: ignore[attr-defined]
        shifts = unique_shifts(tree, on_link, dict.fromkeys(jobs, 1.0))
        assert shifts.keys() == jobs
        for one, own in zip(tree, on_link, strict=True):
            first, *others = one.jobs
            for other in others:
                off = (shifts[other] - shifts[first]) - (own[other] - own[first])
                assert off == pytest.approx(round(off), abs=1e-9)
