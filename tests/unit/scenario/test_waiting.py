"""Jobs that wait for GPUs: nobody is given a GPU twice, orders are kept, and nobody waits for nothing."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.scenario.placement import RULES
from harmonics_emu.scenario.waiting import Request, WaitingRoom
from topologies.rack_spine import rack_spine

GBIT = 10**9
FABRIC = rack_spine(2, 2, 1, GBIT, GBIT, 2, GBIT)
GPUS = 8
placements = st.sampled_from(RULES) | st.just(("r0h0", "r1h0"))
requests = st.lists(
    st.builds(
        lambda workers, placement, length_s, seed: Request(
            workers if isinstance(placement, str) else len(placement), placement, length_s, str(seed)
        ),
        st.integers(1, GPUS),
        placements,
        st.floats(1, 100),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=12,
)


@given(requests, st.sampled_from(["fifo", "srpt"]), st.data())
def test_every_job_gets_gpus_of_its_own_in_its_turn(jobs: list[Request], order: str, data: st.DataObject) -> None:
    room = WaitingRoom(FABRIC, order, jobs)
    coming, begun = list(range(len(jobs))), []
    held: dict[int, tuple[str, ...]] = {}
    while coming or held or room.waiting:
        if held and (not coming or data.draw(st.booleans())):
            gone = data.draw(st.sampled_from(sorted(held)))
            room.leave(gone)
            del held[gone]
        elif coming:
            room.arrive(coming.pop(0))
        waited = set(room.waiting)
        for index, hosts in room.admit():
            assert len(hosts) == jobs[index].workers
            assert isinstance(jobs[index].placement, str) or hosts == jobs[index].placement
            held[index] = hosts
            begun.append(index)
        used = Counter(host for hosts in held.values() for host in hosts)
        assert max(used.values(), default=0) <= FABRIC.gpus_per_host
        free = GPUS - used.total()
        unplaced = [jobs[index] for index in (room.waiting[:1] if order == "fifo" else room.waiting)]
        assert all(not isinstance(job.placement, str) or job.workers > free for job in unplaced)
        assert waited >= set(room.waiting)
        assert set(room.running) == set(held)
    assert sorted(begun) == list(range(len(jobs)))
    if order == "fifo":
        assert begun == sorted(begun)


def test_the_shortest_goes_first_and_what_fits_overtakes() -> None:
    jobs = [Request(8, "packed", 9.0, ""), Request(8, "packed", 5.0, ""), Request(2, "packed", 7.0, "")]
    for order, expected in (("fifo", [[0], [1], [2]]), ("srpt", [[1], [2], [0]])):
        room = WaitingRoom(FABRIC, order, jobs)
        for index in range(3):
            room.arrive(index)
        found = []
        while room.waiting:
            found.append([index for index, _ in room.admit()])
            for index in room.running:
                room.leave(index)
        assert found == expected


def test_srpt_lets_small_jobs_past_one_that_does_not_fit() -> None:
    jobs = [Request(6, "packed", 9.0, ""), Request(4, "packed", 1.0, ""), Request(2, "packed", 7.0, "")]
    room = WaitingRoom(FABRIC, "srpt", jobs)
    room.arrive(0)
    assert [index for index, _ in room.admit()] == [0]
    room.arrive(1)
    room.arrive(2)
    assert [index for index, _ in room.admit()] == [2]
