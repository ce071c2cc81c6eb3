"""What the supervisor and the rank launcher say to each other, on the launcher's stdin and stdout.

One JSON object a line; its `type` is the name of its class here. Durations are seconds, sizes bytes, rates bits per
second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from workloads.collectives import RING_ALL_REDUCE
from workloads.devices import AUTO
from workloads.parallelism import DDP

MAX_LINE = 8 * 2**20
"""A longer line is taken for garbage."""


class Training(msgspec.Struct, frozen=True, tag=True):
    """A training job: paced compute, and buckets exchanged as they become ready.

    The fields are those of workloads.job.Job, program one of workloads.parallelism; but racks are the rack of each
    rank, which only a hierarchical all-reduce needs to know.
    """

    iterations: int
    bucket_bytes: tuple[int, ...]
    compute_s: float = 0.0
    overlap: float = 0.0
    compute_cv: float = 0.0
    collective: str = RING_ALL_REDUCE
    servers: int = 1
    stages: int | None = None
    racks: tuple[int, ...] = ()
    program: str = DDP
    real_compute: bool = False


class AllReduce(msgspec.Struct, frozen=True, tag=True):
    """A sweep: `warmup` and then `iterations` all-reduces of each size."""

    sizes: tuple[int, ...]
    iterations: int = 20
    warmup: int = 5


class BackgroundFlow(msgspec.Struct, frozen=True, tag=True):
    """A steady TCP flow from rank 0 to rank 1, who listens at `address`:`port`, paced to `rate_bps` of payload."""

    address: str
    port: int
    rate_bps: int


class Command(msgspec.Struct, frozen=True, tag=True):
    """The user's own program: argv[0] is looked up in the PATH of the job's environment, and runs in `directory`.

    watch: a folder of workloads.own_scripts.watching, by which a job with a page has gates and iterations.
    """

    argv: tuple[str, ...]
    directory: str
    watch: str | None = None


Program = Training | AllReduce | BackgroundFlow | Command


class RankPlace(msgspec.Struct, frozen=True):
    """Where one rank runs. netns_path: its host's network namespace, None for the launcher's own. gpu: the number of
    its GPU in the emulated cluster; see workloads.devices.
    """

    rank: int
    local_rank: int
    netns_path: str | None = None
    gpu: int = 0


class User(msgspec.Struct, frozen=True):
    """Whom ranks run as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class LaunchJob(msgspec.Struct, frozen=True, tag=True):
    """Start a job: one process a rank.

    index: the job's number in the scenario. nic_label: the interface label that gloo and NCCL bind to, None to let
    them choose. device, backend: see workloads.devices. user: None leaves ranks as what the launcher is. environment:
    the whole environment of ranks but for the variables that the launcher sets. page_path: the job's page
    (workloads.job_page), made before and writable by the user; without one the job starts at once. output_dir: belongs
    to the user; see workloads.output_files. timeout_s: deadline of the whole job, from its launch.
    """

    name: str
    index: int
    program: Program
    ranks: tuple[RankPlace, ...]
    output_dir: str
    timeout_s: float
    nic_label: str | None = None
    master_address: str = "127.0.0.1"
    master_port: int = 29500
    user: User | None = None
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    page_path: str | None = None
    seed: int = 0
    device: str = AUTO
    backend: str = AUTO


class StopJob(msgspec.Struct, frozen=True, tag=True):
    """End a job: SIGTERM to its ranks, and SIGKILL a second later."""

    name: str


class Shutdown(msgspec.Struct, frozen=True, tag=True):
    """End all jobs, report them, and exit."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The launcher takes jobs; `import_s` is what importing torch and the programs took."""

    import_s: float


class JobStarted(msgspec.Struct, frozen=True, tag=True):
    """All ranks of the job are forked; process ids in rank order, as the launcher's PID namespace numbers them."""

    job: str
    pids: tuple[int, ...]


class RankExited(msgspec.Struct, frozen=True, tag=True):
    """A rank ended: by itself with exit `status`, or by a `signal` (its name). tail: last lines of its log."""

    job: str
    rank: int
    status: int | None
    signal: str | None
    tail: tuple[str, ...]


class JobFinished(msgspec.Struct, frozen=True, tag=True):
    """The job's last rank is gone.

    'done': all ranks ended with status 0. 'failed': a rank did not; `error` is one line that names the one that
    failed first and why, `tail` the last lines of its log. 'killed': by its deadline or on request, `error` says.
    """

    job: str
    status: Literal["done", "failed", "killed"]
    error: str | None = None
    tail: tuple[str, ...] = ()


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """A request that was not understood or can't be met; nothing was started. job: None where it names none."""

    error: str
    job: str | None = None


Request = LaunchJob | StopJob | Shutdown
Reply = Ready | JobStarted | RankExited | JobFinished | Rejected

_encoder = msgspec.json.Encoder()
_request_decoder = msgspec.json.Decoder(Request)
_reply_decoder = msgspec.json.Decoder(Reply)


def encode_line(message: Request | Reply) -> bytes:
    """The message as a line, its newline included."""
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> Request:
    """msgspec.DecodeError (ValidationError where only a field is wrong) if the line is no request."""
    return _request_decoder.decode(line)


def decode_reply(line: bytes) -> Reply:
    """msgspec.DecodeError if the line is no reply."""
    return _reply_decoder.decode(line)


class LineBuffer:
    """Cuts a byte stream into lines. What grows beyond MAX_LINE without a newline is dropped up to the next one."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._dropping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that `data` completes, without newlines. An overlong line comes as its first MAX_LINE bytes."""
        self._pending += data
        while (end := self._pending.find(b"\n")) >= 0:
            line = bytes(self._pending[:end])
            del self._pending[: end + 1]
            if not self._dropping:
                yield line
            self._dropping = False
        if len(self._pending) > MAX_LINE:
            if not self._dropping:
                yield bytes(self._pending[:MAX_LINE])
            self._dropping = True
            self._pending.clear()
