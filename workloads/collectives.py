"""What one iteration's collective sends between hosts.

Each algorithm is a function from the host of each rank, in rank order, and a number of bytes to `Transfers`. Payload
bytes only; headers are the emulator's business (topologies.shaping). `COLLECTIVES` finds them by name.

n is the number of ranks and S the `size`: the bytes of each rank's whole buffer, unless a function says otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from workloads.job import Job

Transfers = dict[tuple[str, str], float]
"""(source host, destination host) to bytes of one iteration; pairs on one host are left out."""

MAX_PAIRS = 4_000_000
"""Most pairs of ranks that an all-to-all or a parameter server may join: each is a flow of its own."""


def ring_all_reduce(hosts: Sequence[str], size: float) -> Transfers:
    """Ring all-reduce: each rank sends 2(n-1)/n S to the next rank (Patarasuk and Yuan, JPDC 2009).

    gloo and NCCL rings follow rank order, so the numbering of ranks decides how often the ring crosses racks.
    """
    n = len(hosts)
    return _between(hosts, _ring(range(n), 2 * (n - 1) / n * size if n else 0.0))


def ring_reduce_scatter(hosts: Sequence[str], size: float) -> Transfers:
    """Ring reduce-scatter, which leaves S/n on each rank: each sends (n-1)/n S to the next (as ring_all_reduce)."""
    n = len(hosts)
    return _between(hosts, _ring(range(n), (n - 1) / n * size if n else 0.0))


def ring_all_gather(hosts: Sequence[str], size: float) -> Transfers:
    """Ring all-gather of S/n from each rank to all: each sends (n-1)/n S to the next (as ring_all_reduce)."""
    return ring_reduce_scatter(hosts, size)


def halving_doubling_all_reduce(hosts: Sequence[str], size: float) -> Transfers:
    """Reduce-scatter by recursive halving, then all-gather by recursive doubling (Thakur et al., IJHPCA 2005).

    p is the largest power of two not above n. Of p ranks, those at distance p/2, p/4, .., 1 exchange S/2, S/4, .., S/p
    each way, and the same again in the all-gather: 2(p-1)/p S from each. Where n > p, the n - p even ranks among the
    first 2(n-p) hand S to the rank after them before, and get S back in the end, as MPICH does it.
    """
    extra, members = halving_doubling_members(len(hosts))
    power = len(members)
    sent: list[tuple[int, int, float]] = []
    for rank in range(0, 2 * extra, 2):
        sent += [(rank, rank + 1, size), (rank + 1, rank, size)]
    distance = power // 2
    while distance:
        exchanged = 2 * size * distance / power
        sent += [(members[place], members[place ^ distance], exchanged) for place in range(power)]
        distance //= 2
    return _between(hosts, sent)


def halving_doubling_members(n: int) -> tuple[int, list[int]]:
    """How many ranks are above a power of two, and the ranks that take part in halving, in order of their place."""
    power = 1 << n.bit_length() - 1 if n else 0
    extra = n - power
    return extra, [*range(1, 2 * extra, 2), *range(2 * extra, n)]


def tree_all_reduce(hosts: Sequence[str], size: float) -> Transfers:
    """All-reduce over a double binary tree (Sanders, Speck and Träff, Parallel Computing 2009; NCCL since 2.4).

    Two trees, each for half the bytes: S/2 goes up and S/2 comes down every edge of both. A rank that is a leaf of one
    tree has the children of the other, so that with many ranks each sends about 2S.
    """
    sent: list[tuple[int, int, float]] = []
    for parents in double_tree(len(hosts)):
        for low, high in parents.items():
            sent += [(low, high, size / 2), (high, low, size / 2)]
    return _between(hosts, sent)


def double_tree(n: int) -> tuple[dict[int, int], dict[int, int]]:
    """The parent of each rank but the root, in both trees of `tree_all_reduce`."""
    first = {rank: _tree_parent(rank, n) for rank in range(1, n)}
    # The second tree is the first one with ranks mirrored, or shifted by one where n is odd.
    second_name = [n - 1 - rank if n % 2 == 0 else (rank + 1) % n for rank in range(n)]
    return first, {second_name[rank]: second_name[parent] for rank, parent in first.items()}


def hierarchical_all_reduce(hosts: Sequence[str], size: float, racks: Sequence[int]) -> Transfers:
    """Ring reduce-scatter in each rack, ring all-reduces across racks, ring all-gather in each rack.

    (Mikami et al., arXiv 1811.05233, 2-D torus.) With m ranks in each of k racks: each rank sends 2(m-1)/m S to the
    next one of its rack, and 2(k-1)/k S/m to the one in its place in the next rack. `racks` holds the rack of each
    rank. ValueError unless every rack has the same number of ranks.
    """
    groups = rack_members(racks)
    sent: list[tuple[int, int, float]] = []
    for group in groups:
        sent += _ring(group, 2 * (len(group) - 1) / len(group) * size)
    for across in zip(*groups, strict=True):
        sent += _ring(across, 2 * (len(groups) - 1) / len(groups) * size / len(groups[0]))
    return _between(hosts, sent)


def rack_members(racks: Sequence[int]) -> list[list[int]]:
    """The ranks of each rack, in order of their first rank. ValueError unless all racks have equally many."""
    members: defaultdict[int, list[int]] = defaultdict(list)
    for rank, rack in enumerate(racks):
        members[rack].append(rank)
    groups = list(members.values())
    counts = {len(group) for group in groups}
    if len(counts) > 1:
        raise ValueError(
            f"a hierarchical all-reduce needs equally many ranks in each rack, not {min(counts)} to {max(counts)}"
        )
    return groups


def all_to_all(hosts: Sequence[str], size: float) -> Transfers:
    """Each rank sends S/n to every other rank, without a detour (MPI_Alltoall, pairwise).

    ValueError for more ranks than MAX_PAIRS allows.
    """
    n = len(hosts)
    _require_pairs("an all-to-all", n * (n - 1))
    return _between(hosts, ((src, dst, size / n) for src in range(n) for dst in range(n) if src != dst))


def broadcast(hosts: Sequence[str], size: float) -> Transfers:
    """Binomial-tree broadcast from rank 0: rank r > 0 gets S from r without its lowest set bit, as in MPICH.

    (gloo's own broadcast goes by the highest set bit instead.)
    """
    return _between(hosts, ((parent, rank, size) for rank, parent in broadcast_tree(len(hosts)).items()))


def broadcast_tree(n: int) -> dict[int, int]:
    """The parent of each rank but the root, rank 0."""
    return {rank: rank & (rank - 1) for rank in range(1, n)}


def parameter_server_push(workers: Sequence[str], size: float, servers: Sequence[str]) -> Transfers:
    """Every worker sends S/s to each of the s servers, which hold equal shards (Li et al., OSDI 2014).

    `workers` and `servers` hold a host for each; a server beside a worker on one host is none of the network's
    business. ValueError without workers or servers, or for more pairs than MAX_PAIRS.
    """
    if not workers or not servers:
        raise ValueError(f"{len(workers)} workers and {len(servers)} parameter servers; each needs at least one")
    _require_pairs("a parameter server", len(workers) * len(servers))
    hosts, n, share = (*workers, *servers), len(workers), size / len(servers)
    return _between(hosts, ((src, n + dst, share) for src in range(n) for dst in range(len(servers))))


def parameter_server_pull(workers: Sequence[str], size: float, servers: Sequence[str]) -> Transfers:
    """Every worker gets S/s from each of the s servers: a push the other way round, with the same errors."""
    return {(src, dst): sent for (dst, src), sent in parameter_server_push(workers, size, servers).items()}


def pipeline(hosts: Sequence[str], size: float, stages: int) -> Transfers:
    """Pipeline parallelism: activations forward, their gradients back (Huang et al., NeurIPS 2019, GPipe).

    Ranks lie stage by stage, n/stages in each: rank r sends S to rank r + n/stages, of the next stage, and gets S
    back. S: bytes of activations that one rank hands on in an iteration, over all micro-batches. ValueError unless
    `stages` divides n.
    """
    n = len(hosts)
    width = _stage_width(n, stages)
    forward = [(rank, rank + width, size) for rank in range(n - width)]
    return _between(hosts, [*forward, *((dst, src, size) for src, dst, size in forward)])


def stage_all_reduce(hosts: Sequence[str], size: float, stages: int) -> Transfers:
    """Ring all-reduce among the ranks of each stage of a `pipeline`, with the same errors: they are data parallel."""
    n = len(hosts)
    width = _stage_width(n, stages)
    sent: list[tuple[int, int, float]] = []
    for first in range(0, n, width):
        sent += _ring(range(first, first + width), 2 * (width - 1) / width * size)
    return _between(hosts, sent)


def _stage_width(n: int, stages: int) -> int:
    if stages < 1 or n % stages:
        raise ValueError(f"{n} ranks can't form {stages} pipeline stages of equally many")
    return n // stages


@dataclass(frozen=True)
class Ranks:
    """All that a collective may want to know of its ranks.

    hosts, racks: of each rank. servers: the first so many ranks are the parameter servers; as many as there are ranks
    means that each is server and worker at once. stages: of a pipeline.
    """

    hosts: Sequence[str]
    racks: Sequence[int]
    servers: int
    stages: int

    @property
    def serving(self) -> Sequence[str]:
        return self.hosts[: self.servers]

    @property
    def working(self) -> Sequence[str]:
        return self.hosts if self.servers == len(self.hosts) else self.hosts[self.servers :]


def _push_and_pull(ranks: Ranks, size: float) -> Transfers:
    push = parameter_server_push(ranks.working, size, ranks.serving)
    pull = parameter_server_pull(ranks.working, size, ranks.serving)
    return {pair: push.get(pair, 0.0) + pull.get(pair, 0.0) for pair in (push | pull)}


RING_ALL_REDUCE = "ring-all-reduce"
HALVING_DOUBLING_ALL_REDUCE = "halving-doubling-all-reduce"
TREE_ALL_REDUCE = "tree-all-reduce"
HIERARCHICAL_ALL_REDUCE = "hierarchical-all-reduce"
REDUCE_SCATTER = "reduce-scatter"
ALL_GATHER = "all-gather"
ALL_TO_ALL = "all-to-all"
BROADCAST = "broadcast"
PARAMETER_SERVER = "parameter-server"
PIPELINE = "pipeline"
STAGE_ALL_REDUCE = "stage-all-reduce"
COLLECTIVES: Mapping[str, Callable[[Ranks, float], Transfers]] = MappingProxyType(
    {
        RING_ALL_REDUCE: lambda ranks, size: ring_all_reduce(ranks.hosts, size),
        HALVING_DOUBLING_ALL_REDUCE: lambda ranks, size: halving_doubling_all_reduce(ranks.hosts, size),
        TREE_ALL_REDUCE: lambda ranks, size: tree_all_reduce(ranks.hosts, size),
        HIERARCHICAL_ALL_REDUCE: lambda ranks, size: hierarchical_all_reduce(ranks.hosts, size, ranks.racks),
        REDUCE_SCATTER: lambda ranks, size: ring_reduce_scatter(ranks.hosts, size),
        ALL_GATHER: lambda ranks, size: ring_all_gather(ranks.hosts, size),
        ALL_TO_ALL: lambda ranks, size: all_to_all(ranks.hosts, size),
        BROADCAST: lambda ranks, size: broadcast(ranks.hosts, size),
        PARAMETER_SERVER: _push_and_pull,
        PIPELINE: lambda ranks, size: pipeline(ranks.hosts, size, ranks.stages),
        STAGE_ALL_REDUCE: lambda ranks, size: stage_all_reduce(ranks.hosts, size, ranks.stages),
    }
)
"""What each name of a job's `collective` sends in an iteration. A parameter server is pushed to and pulled from."""

IN_PHASES = frozenset({HALVING_DOUBLING_ALL_REDUCE, TREE_ALL_REDUCE, HIERARCHICAL_ALL_REDUCE, PARAMETER_SERVER})
"""Collectives that load some links only after others: even alone, they take longer than their busiest link needs."""


def job_transfers(job: Job, rack_of: Mapping[str, int]) -> Transfers:
    """What an iteration of a job sends between hosts. rack_of: the rack of each host.

    ValueError, in a plain sentence, where the job's collective is unknown or can't join its ranks.
    """
    return _sent(job, _ranks(job, job.hosts, rack_of), float(job.bytes))


def rank_transfers(job: Job, rack_of: Mapping[str, int]) -> dict[tuple[int, int], float]:
    """Bytes from rank to rank for each byte of gradient, between ranks of one host too. Errors as in job_transfers."""
    # Ranks stand in for hosts, so that two ranks of one host are told apart.
    numbers = tuple(map(str, range(job.ranks)))
    sent = _sent(job, _ranks(job, numbers, rack_of), 1.0)
    return {(int(src), int(dst)): share for (src, dst), share in sent.items()}


def goes_in_phases(job: Job) -> bool:
    """Whether an iteration's communication loads some links only after others; see IN_PHASES."""
    return job.collective in IN_PHASES or job.in_stages > 0


def _sent(job: Job, ranks: Ranks, size: float) -> Transfers:
    """What `size` bytes of an iteration are on the way, by the job's collective and perhaps an all-reduce in stages."""
    if job.collective not in COLLECTIVES:
        raise ValueError(f"there is no collective {job.collective!r}; there are: {', '.join(COLLECTIVES)}")
    sent = COLLECTIVES[job.collective](ranks, size * (1 - job.in_stages))
    if job.in_stages > 0:
        reduced = stage_all_reduce(ranks.hosts, size * job.in_stages, ranks.stages)
        sent = {pair: sent.get(pair, 0.0) + reduced.get(pair, 0.0) for pair in (sent | reduced)}
    return sent


def _ranks(job: Job, hosts: Sequence[str], rack_of: Mapping[str, int]) -> Ranks:
    racks = tuple(rack_of[host] for host in job.hosts)
    return Ranks(hosts, racks, job.servers, job.ranks if job.stages is None else job.stages)


def _between(hosts: Sequence[str], sent: Iterable[tuple[int, int, float]]) -> Transfers:
    """Bytes between hosts from (source rank, destination rank, bytes)."""
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for src, dst, size in sent:
        if hosts[src] != hosts[dst]:
            found[hosts[src], hosts[dst]] += size
    return dict(found)


def _ring(members: Sequence[int], size: float) -> list[tuple[int, int, float]]:
    """Each member sends `size` to the next; one alone sends nothing."""
    if len(members) < 2:
        return []
    return [(rank, members[(place + 1) % len(members)], size) for place, rank in enumerate(members)]


def _tree_parent(rank: int, n: int) -> int:
    """Parent of a rank > 0 in the first tree: ranks 1 to n-1 stand in order, odd ones are leaves, 0 is the root."""
    bit = rank & -rank
    parent = (rank ^ bit) | bit << 1
    return parent if parent < n else rank ^ bit


def _require_pairs(what: str, pairs: int) -> None:
    if pairs > MAX_PAIRS:
        raise ValueError(f"{what} of {pairs:,} pairs of ranks is too large; at most {MAX_PAIRS:,} are possible")
