"""What collectives send, counted by hand, and that every rank gets what it must."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.scenario import ScenarioError, parse_scenario
from harmonics_emu.scenario.estimate import estimate_alone
from harmonics_emu.scenario.schema import Collective
from harmonics_emu.simulate.engine import Options, simulate
from harmonics_emu.simulate.predict import isolated
from tests.unit.simulate.cases import communication_s
from topologies.rack_spine import rack_spine
from workloads.collectives import (
    COLLECTIVES,
    Transfers,
    all_to_all,
    broadcast,
    halving_doubling_all_reduce,
    hierarchical_all_reduce,
    job_transfers,
    parameter_server_pull,
    parameter_server_push,
    pipeline,
    rank_transfers,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    tree_all_reduce,
)
from workloads.job import Job

ALL_REDUCES = ("ring-all-reduce", "halving-doubling-all-reduce", "tree-all-reduce", "hierarchical-all-reduce")


def ranks(n: int) -> tuple[str, ...]:
    return tuple("abcdefghijklmnop"[:n])


def sent(text: str) -> Transfers:
    """Transfers from 'ab 3, bc 1.5': a sends 3 bytes to b, b 1.5 to c. 'a=b 2' is 2 each way."""
    found: Transfers = {}
    for item in text.split(", "):
        pair, size = item.split()
        found[pair[0], pair[-1]] = float(size)
        if "=" in pair:
            found[pair[-1], pair[0]] = float(size)
    return found


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (2, "a=b 12"),
        (3, "ab 16, bc 16, ca 16"),
        (4, "ab 18, bc 18, cd 18, da 18"),
        (5, "ab 19.2, bc 19.2, cd 19.2, de 19.2, ea 19.2"),
        (8, "ab 21, bc 21, cd 21, de 21, ef 21, fg 21, gh 21, ha 21"),
    ],
)
def test_rings(n: int, expected: str) -> None:
    whole, half = sent(expected), {pair: size / 2 for pair, size in sent(expected).items()}
    assert ring_all_reduce(ranks(n), 12) == pytest.approx(whole)
    assert ring_reduce_scatter(ranks(n), 12) == pytest.approx(half)
    assert ring_all_gather(ranks(n), 12) == pytest.approx(half)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (2, "a=b 8"),
        (3, "a=b 8, b=c 8"),
        (4, "a=c 8, b=d 8, a=b 4, c=d 4"),
        (5, "a=b 8, b=d 8, c=e 8, b=c 4, d=e 4"),
        (8, "a=e 8, b=f 8, c=g 8, d=h 8, a=c 4, b=d 4, e=g 4, f=h 4, a=b 2, c=d 2, e=f 2, g=h 2"),
    ],
)
def test_halving_and_doubling(n: int, expected: str) -> None:
    """With 3 ranks a hands its bytes to b, with 5 too; the others are a power of two."""
    assert halving_doubling_all_reduce(ranks(n), 8) == sent(expected)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        # 4 on an edge of one tree, 8 on an edge of both.
        (2, "a=b 8"),
        (3, "b=c 4, a=c 8, a=b 4"),
        (4, "b=c 8, a=c 4, c=d 4, b=d 4, a=b 4"),
        (5, "b=c 4, c=e 4, c=d 8, a=e 4, a=d 4, d=e 4, a=b 4"),
        (8, "b=c 8, c=e 4, c=d 4, a=e 4, f=g 8, e=g 4, g=h 4, d=f 4, e=f 4, d=h 4, b=d 4, a=b 4"),
    ],
)
def test_double_binary_tree(n: int, expected: str) -> None:
    assert tree_all_reduce(ranks(n), 8) == sent(expected)


@given(st.integers(3, 200))
def test_no_rank_has_children_in_both_trees(n: int) -> None:
    """A rank sends S/2 up each tree and S/2 to each child: with at most two children in all, 2S."""
    hosts = tuple(map(str, range(n)))
    load = dict.fromkeys(hosts, 0.0)
    for (src, _), size in tree_all_reduce(hosts, 1.0).items():
        load[src] += size
    assert max(load.values()) <= 2


@pytest.mark.parametrize(
    ("racks", "expected"),
    [
        ((0, 1), "a=b 8"),
        ((0, 0), "a=b 8"),
        ((0, 0, 1, 1), "a=b 8, c=d 8, a=c 4, b=d 4"),
        ((0, 1, 0, 1), "a=c 8, b=d 8, a=b 4, c=d 4"),
        (
            (0, 0, 0, 0, 1, 1, 1, 1),
            "ab 12, bc 12, cd 12, da 12, ef 12, fg 12, gh 12, he 12, a=e 2, b=f 2, c=g 2, d=h 2",
        ),
    ],
)
def test_hierarchical(racks: tuple[int, ...], expected: str) -> None:
    assert hierarchical_all_reduce(ranks(len(racks)), 8, racks) == sent(expected)


@pytest.mark.parametrize("racks", [(0, 0, 1), (0, 0, 0, 1, 1)])
def test_hierarchical_needs_equal_racks(racks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="equally many ranks in each rack, not"):
        hierarchical_all_reduce(ranks(len(racks)), 8, racks)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_all_to_all(n: int) -> None:
    assert all_to_all(ranks(n), 120) == {(a, b): 120 / n for a in ranks(n) for b in ranks(n) if a != b}


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (2, "ab 8"),
        (3, "ab 8, ac 8"),
        (4, "ab 8, ac 8, cd 8"),
        (5, "ab 8, ac 8, cd 8, ae 8"),
        (8, "ab 8, ac 8, ae 8, cd 8, ef 8, eg 8, gh 8"),
    ],
)
def test_broadcast(n: int, expected: str) -> None:
    assert broadcast(ranks(n), 8) == sent(expected)


@pytest.mark.parametrize(
    ("workers", "servers", "expected"),
    [
        ("a", "b", "ab 12"),
        ("ab", "c", "ac 12, bc 12"),
        ("ab", "cd", "ac 6, ad 6, bc 6, bd 6"),
        ("abc", "de", "ad 6, ae 6, bd 6, be 6, cd 6, ce 6"),
        ("ab", "ab", "a=b 6"),
        ("aa", "b", "ab 24"),
    ],
)
def test_parameter_server(workers: str, servers: str, expected: str) -> None:
    push = parameter_server_push(tuple(workers), 12, tuple(servers))
    assert push == sent(expected)
    assert parameter_server_pull(tuple(workers), 12, tuple(servers)) == {(b, a): size for (a, b), size in push.items()}


@pytest.mark.parametrize(
    ("n", "stages", "expected"),
    [
        (2, 2, "a=b 8"),
        (3, 3, "a=b 8, b=c 8"),
        (4, 2, "a=c 8, b=d 8"),
        (8, 4, "a=c 8, b=d 8, c=e 8, d=f 8, e=g 8, f=h 8"),
    ],
)
def test_pipeline(n: int, stages: int, expected: str) -> None:
    assert pipeline(ranks(n), 8, stages) == sent(expected)
    assert pipeline(ranks(n), 8, 1) == {}


def test_what_is_not_defined_is_refused() -> None:
    with pytest.raises(ValueError, match="5 ranks can't form 2 pipeline stages"):
        pipeline(ranks(5), 8, 2)
    with pytest.raises(ValueError, match="0 workers and 1 parameter servers"):
        parameter_server_push((), 8, ("a",))
    with pytest.raises(ValueError, match=r"24,995,000 pairs of ranks is too large; at most 4,000,000"):
        all_to_all(("a",) * 5000, 8)
    with pytest.raises(ValueError, match="no collective 'gossip'; there are: ring-all-reduce,"):
        rank_transfers(a_job(2, "gossip"), RACK_OF)


HOSTS = 64
RACK_OF = {f"r{rack}h{host}": rack for rack in (0, 1) for host in range(HOSTS)}


def a_job(n: int, collective: str, **changes: int) -> Job:
    """n ranks, half of them in each of two racks, 8000 bytes."""
    hosts = tuple(f"r{rank * 2 // n}h{rank}" for rank in range(n))
    job = Job("job", 0, "ddp", hosts, 3, compute_s=0.1, bucket_bytes=(8000,), collective=collective)
    return replace(job, **changes)  # type: ignore[arg-type]


def received(collective: str, n: int, **changes: int) -> list[float]:
    """What each of n ranks gets, in sizes of the buffer."""
    got = [0.0] * n
    for (_, dst), share in rank_transfers(a_job(n, collective, **changes), RACK_OF).items():
        got[dst] += share
    return got


@given(st.sampled_from(ALL_REDUCES), st.integers(1, 30).map(lambda half: 2 * half))
def test_all_reduces_move_the_same_bytes(collective: str, n: int) -> None:
    """Reducing and handing out again takes 2(n-1) buffers in all; every rank needs at least one to know the sum."""
    got = received(collective, n)
    assert sum(got) == pytest.approx(2 * (n - 1))
    assert min(got) >= 1 - 1e-9


@given(st.integers(1, 40))
def test_every_rank_gets_what_it_must(n: int) -> None:
    part = pytest.approx([(n - 1) / n] * n)
    for collective in ("reduce-scatter", "all-gather", "all-to-all"):
        assert received(collective, n) == part
    assert received("broadcast", n) == [0.0] + [1.0] * (n - 1)
    assert received("pipeline", n) == [min(rank, 1) + min(n - 1 - rank, 1) for rank in range(n)]


@given(st.integers(1, 20), st.integers(1, 20))
def test_servers_get_all_gradients_and_workers_all_weights(workers: int, servers: int) -> None:
    got = received("parameter-server", workers + servers, servers=servers)
    assert got == pytest.approx([workers / servers] * servers + [1.0] * workers)


@given(st.sampled_from(sorted(COLLECTIVES)), st.integers(1, 12).map(lambda half: 2 * half))
def test_hosts_get_what_their_ranks_get(collective: str, n: int) -> None:
    """With all ranks of a rack on one host, only what crosses racks is left."""
    job = a_job(n, collective, servers=1)
    packed = replace(job, hosts=tuple(f"r{RACK_OF[host]}h0" for host in job.hosts))
    crossing = sum(
        share
        for (src, dst), share in rank_transfers(job, RACK_OF).items()
        if RACK_OF[job.hosts[src]] != RACK_OF[job.hosts[dst]]
    )
    assert sum(job_transfers(packed, RACK_OF).values()) == pytest.approx(8000 * crossing)


def test_scenarios_know_every_collective() -> None:
    assert get_args(Collective) == tuple(COLLECTIVES)


@pytest.mark.parametrize("collective", sorted(COLLECTIVES))
@pytest.mark.parametrize("granularity", ["collective", "flow"])
def test_a_collective_alone_takes_as_long_as_its_fullest_link(collective: str, granularity: str) -> None:
    """8 ranks on two racks; host links never matter. The uplink's bytes over its rate, as the estimate has it too."""
    fabric = rack_spine(2, HOSTS, 1, host_rate_bps=10**12, uplink_rate_bps=8 * 10**6)
    # With a rank a stage, nothing would be all-reduced in stages.
    stages = {"stages": 1} if collective == "stage-all-reduce" else {}
    job = a_job(8, collective, bucket_bytes=(800_000,), **stages)  # type: ignore[arg-type]
    up = sum(share for (src, dst), share in rank_transfers(job, RACK_OF).items() if src < 4 <= dst)
    down = sum(share for (src, dst), share in rank_transfers(job, RACK_OF).items() if dst < 4 <= src)
    expected = 0.8 * max(up, down)
    records = simulate(fabric, [job], options=Options(granularity=granularity))  # type: ignore[arg-type]
    assert communication_s(records, "job") == pytest.approx([expected] * 3, rel=1e-3)
    assert isolated(fabric, job).communication_s == pytest.approx(expected, rel=1e-3)
    assert estimate_alone(fabric, job).communication_s == pytest.approx(expected, rel=1e-3)
    assert records.links["leaf0>spine0"]["bytes"][-1] == pytest.approx(3 * 800_000 * up, rel=1e-3)


def test_flows_of_unequal_bytes_end_together() -> None:
    """A collective at one pace keeps every link's bytes in proportion at any time."""
    fabric = rack_spine(2, HOSTS, 1, host_rate_bps=10**8, uplink_rate_bps=8 * 10**6)
    job = a_job(6, "halving-doubling-all-reduce", bucket_bytes=(800_000,))  # type: ignore[arg-type]
    records = simulate(fabric, [job], options=Options(sample_s=0.05))
    out, into = records.links["r0h1>leaf0"]["bytes"], records.links["leaf0>r0h0"]["bytes"]
    middle = len(out) // 2
    assert 0 < into[middle] < into[-1]
    assert into[middle] / out[middle] == pytest.approx(into[-1] / out[-1], rel=1e-3)


SCENARIO = """\
name: demo
fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 4, spines: 1, host_rate: 400Mbit, uplink_rate: 200Mbit}
jobs:
- {name: a, PAYLOAD, compute: {iteration: 75ms}, workers: 4, iterations: 9, COLLECTIVE}
"""


def scenario(collective: str, payload: str = "gradients: 1MB") -> bytes:
    return SCENARIO.replace("COLLECTIVE", collective).replace("PAYLOAD", payload).encode()


def test_a_scenario_names_the_collective_of_a_job() -> None:
    loaded = parse_scenario(scenario("collective: parameter-server, servers: 2"), "demo.yaml")
    (job,) = loaded.jobs()
    assert (job.collective, job.servers, job.stages) == ("parameter-server", 2, None)
    assert parse_scenario(loaded.resolved_yaml().encode(), "resolved.yaml") == loaded


@pytest.mark.parametrize(
    ("collective", "payload", "complaint"),
    [
        ("collective: ring", "gradients: 1MB", "jobs[0].collective: must be ring-all-reduce or"),
        ("collective: all-to-all", "program: allreduce, sizes: [1MB]", "jobs[0].collective: only for program ddp"),
        ("servers: 2", "gradients: 1MB", "jobs[0].servers: only for collective parameter-server"),
        (
            "collective: broadcast, stages: 2",
            "gradients: 1MB",
            "jobs[0].stages: only for collective pipeline",
        ),
        ("collective: pipeline, stages: 3", "gradients: 1MB", "jobs[0].collective: 4 ranks can't form 3 pipeline"),
        ("collective: parameter-server, servers: 5", "gradients: 1MB", "0 workers and 4 parameter servers"),
    ],
)
def test_collectives_that_a_scenario_can_not_have(collective: str, payload: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(scenario(collective, payload), "demo.yaml")
    assert complaint in str(raised.value)
