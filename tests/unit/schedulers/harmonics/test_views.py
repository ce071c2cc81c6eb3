"""Views: what each rack sees of the whole, and who contends with whom."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonics_emu.schedulers.harmonics.figures import alone_s, figures_of
from harmonics_emu.schedulers.harmonics.views import NO_RACK, Problem, tasks_of
from harmonics_emu.simulate.predict import alone
from tests.unit.schedulers.harmonics.cases import NO_LIMIT, drawn_snapshot, whole_view
from tests.unit.schedulers.snapshots import snapshot_of
from tests.unit.simulate.cases import MBIT, fabric, job
from topologies.rack_spine import rack_spine
from workloads.job import Background


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_a_rack_sees_its_own_links_and_the_rest_as_caps(number: int) -> None:
    problem = Problem(drawn_snapshot(number))
    c = problem.crossings({})
    whole = {view.number: view for view in problem.whole_view(c, range(len(problem.tasks)), NO_LIMIT).jobs}
    views = problem.rack_views(c, NO_LIMIT)
    crossed: dict[int, set[int]] = {entity: set() for entity in range(len(c.first) - 1)}
    for rack, view in views.items():
        for link, capacity in view.capacity.items():
            assert (c.rack[link], c.capacity[link]) == (rack, capacity)
        for one in view.jobs:
            span = slice(c.first[one.number], c.first[one.number + 1])
            usage = dict(zip(c.link[span].tolist(), c.usage[span].tolist(), strict=True))
            named = dict(zip(one.links, one.usage, strict=True))
            assert named.items() <= usage.items()
            others = [c.capacity[link] / use for link, use in usage.items() if link not in named]
            assert one.cap == min(others, default=math.inf)
            crossed[one.number] |= {link for link in usage if c.rack[link] == rack}
            # Alone, a job is as fast as on the whole fabric; so are its compute times and weight.
            both = one, whole[one.number]
            assert alone_s(one, view.capacity) == pytest.approx(figures_of_one(problem, one.number))
            assert len({(view.weight, view.compute_s, view.iterations, view.crosses) for view in both}) == 1
        for link in view.capacity:
            users = sum(link in one.links for one in (*view.jobs, *view.steady))
            assert users == (c.link == link).sum() > 1
    for entity in range(len(problem.tasks)):
        span = slice(c.first[entity], c.first[entity + 1])
        assert crossed[entity] == {link for link in c.link[span].tolist() if c.rack[link] != NO_RACK}


def figures_of_one(problem: Problem, number: int) -> float:
    return float(problem.figures(problem.crossings({}), [number]).send_s[0])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_components_are_those_of_the_graph_of_shared_links(number: int) -> None:
    problem = Problem(drawn_snapshot(number, most=8))
    c = problem.crossings({})
    links = [set(c.link[c.first[task] : c.first[task + 1]].tolist()) for task in range(len(problem.tasks))]
    groups = [{task} for task in range(len(links))]
    for a in range(len(links)):
        for b in range(a):
            if links[a] & links[b]:
                one, other = (next(group for group in groups if task in group) for task in (a, b))
                if one is not other:
                    groups.remove(other)
                    one |= other
    assert problem.components(c) == sorted(sorted(group) for group in groups if len(group) > 1)


def test_figures_of_views_are_those_of_the_fabric() -> None:
    snapshot = snapshot_of(fabric(), [job(0), job(1, bucket_bytes=(500_000, 250_000), weight=2.0)])
    problem = Problem(snapshot)
    one, other = figures_of(whole_view(snapshot)), problem.figures(problem.crossings({}), [0, 1])
    assert one.send_s.tolist() == pytest.approx([1.0, 0.75]) == other.send_s.tolist()
    for name in ("number", "compute_s", "weight", "iterations", "ranks"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


def test_weights_make_s_of_the_times() -> None:
    # 4 iterations of 2 s alone each; the second job counts three times as much.
    first, second = tasks_of(snapshot_of(fabric(), [job(0), job(1, weight=3.0)]))
    assert (first.weight * 8, second.weight * 8) == pytest.approx((0.25, 0.75))


def test_what_is_done_is_no_task_and_a_last_collective_is_one() -> None:
    snapshot = snapshot_of(fabric(), [job(0), job(1), job(2)], done={"job0": 4, "job1": 3})
    states = [replace(snapshot.jobs[1], next_start_s=7.5), snapshot.jobs[2]]
    snapshot = replace(snapshot, time_s=7.0, jobs=(snapshot.jobs[0], *states))
    last, other = tasks_of(snapshot)
    assert (last.name, last.iterations, last.compute_s, last.state.next_start_s) == ("job1", 1, 0.0, 7.0)
    assert (other.name, other.iterations, other.compute_s) == ("job2", 4, 1.0)
    assert last.weight == other.weight


def test_links_between_switches_above_are_nobodys() -> None:
    snapshot = drawn_snapshot(next(n for n in range(100) if drawn_snapshot(n).fabric.kind == "fat-tree"))
    c = Problem(snapshot).crossings({})
    assert NO_RACK in c.rack
    assert set(Problem(snapshot).rack_views(c, NO_LIMIT)) <= set(range(len(snapshot.fabric.leaves)))


def test_a_link_inside_a_host_belongs_to_its_rack() -> None:
    on = rack_spine(2, 2, 1, 8 * MBIT, 8 * MBIT, gpus_per_host=2, intra_host_bps=80 * MBIT)
    views = Problem(snapshot_of(on, [job(number, hosts=("r1h0", "r1h0")) for number in range(2)]))
    assert list(views.rack_views(views.crossings({}), NO_LIMIT)) == [1]


def test_of_links_that_the_same_jobs_share_the_fullest_counts() -> None:
    # Both jobs cross their rack's uplink and the other's downlink; job2 only the latter, and so both links count.
    two = whole_view(snapshot_of(fabric(), [job(0), job(1, bucket_bytes=(500_000,))]))
    assert [len(one.links) for one in two.jobs] == [1, 1]
    jobs = [job(0), job(1), job(2, hosts=("r0h3", "r1h3")), job(3, hosts=("r1h2", "r1h3"))]
    more = whole_view(snapshot_of(fabric(), jobs))
    users = [{one.number for one in more.jobs if link in one.links} for link in more.capacity]
    assert all(len(those) > 1 for those in users)
    assert len({frozenset(those) for those in users}) == len(users)


def test_background_is_steady_and_no_job() -> None:
    flow = Background("r0h5", "r1h5", 2 * MBIT)
    view = whole_view(replace(snapshot_of(fabric(), [job(0)]), background=(flow,)))
    (steady,) = view.steady
    assert (steady.cap, steady.iterations, len(steady.links)) == (2 * MBIT / 8, 0, 1)
    assert [one.number for one in view.jobs] == [0]


def test_draws_are_of_the_mean_and_not_of_the_run() -> None:
    snapshot = snapshot_of(fabric(), [job(0, compute_cv=0.1, iterations=400), job(1)])
    problem = Problem(snapshot)
    one, other = (problem.whole_view(problem.crossings({}), [0, 1], NO_LIMIT, draw) for draw in (1, 2))
    assert one.jobs[0].compute_s != other.jobs[0].compute_s
    assert sum(one.jobs[0].compute_s) / 400 == pytest.approx(problem.tasks[0].compute_s, rel=0.02)
    assert one.jobs[1].compute_s == (1.0,)


def test_alone_times_are_the_simulators() -> None:
    snapshot = drawn_snapshot(11)
    for task in tasks_of(snapshot):
        training_s = alone(snapshot.fabric, task.state.job)[1]
        assert task.alone_iteration_s * task.state.job.iterations == pytest.approx(training_s)


def test_routes_change_who_shares_links() -> None:
    on = fabric(spines=2)
    problem = Problem(snapshot_of(on, [job(0), job(1)]))
    by_spine = [
        {(src, dst): on.paths(src, dst)[spine] for src, dst in (hosts, hosts[::-1])}
        for spine, hosts in enumerate([("r0h0", "r1h0"), ("r0h1", "r1h1")])
    ]
    assert problem.components(problem.crossings({"job0": by_spine[0], "job1": by_spine[1]})) == []
    same = {pair: on.paths(*pair)[0] for pair in by_spine[1]}
    assert problem.components(problem.crossings({"job0": by_spine[0], "job1": same})) == [[0, 1]]
