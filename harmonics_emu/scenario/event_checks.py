"""What the schema can't judge of events: each action has its own keys, and names a link, job or rank that there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import inf

from harmonics_emu.scenario.problems import Complaint, Location, did_you_mean, shown
from harmonics_emu.scenario.schema import EventSection, JobSection

LINK_ACTIONS = ("down", "up", "rate")
SIGNAL_ACTIONS = ("stop", "continue", "kill")
SLOW, RESTART = "slow", "restart"
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "link": LINK_ACTIONS,
    "rate": ("rate",),
    "job": (SLOW, *SIGNAL_ACTIONS),
    "factor": (SLOW,),
    "daemon": (RESTART,),
}
_ALLOWED: Mapping[str, tuple[str, ...]] = {**_NEEDED, "rank": (SLOW, *SIGNAL_ACTIONS), "for": (SLOW,)}
"""The actions that need a key, and those that may have it."""
_EXAMPLES = {
    "link": "say which, as link: leaf0-spine0",
    "rate": "give the link's new rate, as rate: 50Mbit",
    "job": "say whose ranks, as job: vision",
    "factor": "say how many times as long it computes, as factor: 3",
    "daemon": "say which, as daemon: controller",
}


def check_events(
    events: Sequence[EventSection | None],
    jobs: Sequence[JobSection | None],
    ranks: Sequence[int],
    check_link: Callable[[Location, str | None], Iterator[Complaint]],
) -> Iterator[Complaint]:
    """ranks: how many each job has, 0 where that is not known. None stands for what the schema refused."""
    places = {job.name: place for place, job in enumerate(jobs) if job is not None}
    for index, event in enumerate(events):
        if event is None:
            continue
        at: Location = ("events", index)
        yield from _check_keys(at, event)
        if event.action in (None, *LINK_ACTIONS):
            yield from check_link((*at, "link"), event.link)
        elif event.job is not None and event.job not in places:
            known = [name for name in places if name is not None]
            yield Complaint((*at, "job"), f"there is no job {shown(event.job)}", did_you_mean(event.job, known))
        elif event.job is not None:
            place = places[event.job]
            yield from _check_ranks(at, event, jobs[place], ranks[place] if place < len(ranks) else 0)
    yield from _check_overlaps(events)


def _check_keys(at: Location, event: EventSection) -> Iterator[Complaint]:
    if event.action is None:
        return
    given = {EventSection.model_fields[name].alias or name for name in event.model_fields_set}
    for key, actions in _ALLOWED.items():
        if key in given and event.action not in actions:
            what = f"not for action {event.action}"
            yield Complaint((*at, key), what, f"remove it, or write action: {' or '.join(actions)}")
        elif key not in given and event.action in _NEEDED.get(key, ()):
            yield Complaint((*at, key), "missing", _EXAMPLES[key])


def _check_ranks(at: Location, event: EventSection, job: JobSection | None, ranks: int) -> Iterator[Complaint]:
    if event.rank is not None and 0 < ranks <= event.rank:
        what = f"job {shown(event.job)} has no rank {event.rank}"
        yield Complaint((*at, "rank"), what, f"its ranks are 0 to {ranks - 1}" if ranks > 1 else "its only rank is 0")
    computes = job is None or job.program is None or (isinstance(job.program, str) and job.program != "allreduce")
    if event.action == SLOW and not computes:
        what = f"job {shown(event.job)} has no compute time that could grow"
        yield Complaint((*at, "job"), what, "name a job whose program trains, or stop and continue its ranks")


def _check_overlaps(events: Sequence[EventSection | None]) -> Iterator[Complaint]:
    """A rank is slowed down by one event at a time."""
    slow = [
        (index, event)
        for index, event in enumerate(events)
        if event is not None and event.action == SLOW and event.at is not None and event.job is not None
        if event.lasts is not None or "lasts" not in event.model_fields_set
    ]
    for (first, one), (second, other) in combinations(slow, 2):
        same = one.job == other.job and (one.rank == other.rank or None in (one.rank, other.rank))
        if same and one.at < _end_s(other) and other.at < _end_s(one):
            what = f"events[{first}] slows that rank down at the same time"
            yield Complaint(("events", second), what, "let one end (for: 10s) before the other begins")


def _end_s(event: EventSection) -> float:
    return inf if event.lasts is None else event.at + event.lasts
