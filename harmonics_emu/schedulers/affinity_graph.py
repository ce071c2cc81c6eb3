"""CASSINI's affinity graph: which jobs meet on which links, and how shifts on links become one shift a job.

Vertices are jobs and links, and an edge joins a job to each link on which it meets others. Where the graph has no
loop, shifts that were found link by link can be put together into one a job that keeps all of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Demand = Mapping[str, float]
"""What each job sends on a link while it communicates, in bit/s."""

MORE_THAN_FITS = 1 + 1e-9


@dataclass(frozen=True)
class LinkVertex:
    """Links with the same set of jobs, as one: the larger demand of each job, the smaller capacity. Rates in bit/s.

    load: the mean demand over time, over the capacity, of the most loaded of the links.
    """

    links: tuple[str, ...]
    demand: Demand
    capacity: float
    load: float

    @property
    def jobs(self) -> tuple[str, ...]:
        return tuple(self.demand)


def contended_links(
    demand: Mapping[str, Demand], capacity: Mapping[str, float], duty: Mapping[str, float]
) -> list[LinkVertex]:
    """The links whose jobs can't all send at once, merged where they have the same jobs; the most loaded first.

    demand: by link. capacity: bit/s, by link. duty: the fraction of its period for which a job communicates.
    Without merging, two jobs that share both ends of a path would already make a loop.
    """
    alike: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for link, own in demand.items():
        if len(own) > 1 and sum(own.values()) > capacity[link] * MORE_THAN_FITS:
            alike[frozenset(own)].append(link)
    merged = [
        LinkVertex(
            links=tuple(links),
            demand={job: max(demand[link][job] for link in links) for job in demand[links[0]]},
            capacity=min(capacity[link] for link in links),
            load=max(sum(rate * duty[job] for job, rate in demand[link].items()) / capacity[link] for link in links),
        )
        for links in alike.values()
    ]
    return sorted(merged, key=lambda vertex: (-vertex.load, vertex.links))


def break_loops(vertices: Sequence[LinkVertex]) -> tuple[list[LinkVertex], list[LinkVertex]]:
    """The vertices that stay, and those left out because they would close a loop with more loaded ones.

    vertices: the most loaded first. Of the links of each loop the least loaded one is left out, as in Kruskal's
    algorithm for trees.
    """
    leader: dict[str, str] = {}

    def find(job: str) -> str:
        leader.setdefault(job, job)
        while leader[job] != job:
            leader[job] = leader[leader[job]]
            job = leader[job]
        return job

    kept, dropped = [], []
    for vertex in vertices:
        roots = {find(job) for job in vertex.jobs}
        if len(roots) < len(vertex.jobs):
            dropped.append(vertex)
            continue
        kept.append(vertex)
        first = min(roots)
        for root in roots:
            leader[root] = first
    return kept, dropped


def trees(vertices: Sequence[LinkVertex]) -> list[list[LinkVertex]]:
    """Vertices of a graph without loops, those that are joined by jobs together."""
    of_job = _by_job(vertices)
    found, seen = [], set[int]()
    for begin in range(len(vertices)):
        if begin in seen:
            continue
        seen.add(begin)
        together, queue = [], deque([begin])
        while queue:
            index = queue.popleft()
            together.append(vertices[index])
            onward = {other for job in vertices[index].jobs for other in of_job[job]} - seen
            seen |= onward
            queue.extend(sorted(onward))
        found.append(together)
    return found


def unique_shifts(
    tree: Sequence[LinkVertex], on_link: Sequence[Mapping[str, float]], periods_s: Mapping[str, float]
) -> dict[str, float]:
    """One shift a job, in seconds from 0 up to its period, that keeps the relative shifts on every link of a tree.

    on_link: the shift of each job on each vertex. Breadth first from the first job, which is not shifted:
    t_k = (t_j - t_j on the link + t_k on the link) mod T_k.
    """
    of_job = _by_job(tree)
    first = tree[0].jobs[0]
    shifts = {first: 0.0}
    queue, done = deque([first]), set[int]()
    while queue:
        job = queue.popleft()
        for index in of_job[job]:
            if index in done:
                continue
            done.add(index)
            own = on_link[index]
            for other in tree[index].jobs:
                if other not in shifts:
                    shifts[other] = (shifts[job] - own[job] + own[other]) % periods_s[other]
                    queue.append(other)
    return shifts


def _by_job(vertices: Sequence[LinkVertex]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for index, vertex in enumerate(vertices):
        for job in vertex.jobs:
            found[job].append(index)
    return found
