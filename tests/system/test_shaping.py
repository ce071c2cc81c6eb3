"""Shaping for real: tc and the kernel against the plan, and the goodput that comes out."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from harmonics_emu import shell
from harmonics_emu.emulate import tc
from harmonics_emu.emulate.job_queues import JobQueues, Lane
from harmonics_emu.emulate.rtnetlink import Rtnetlink
from harmonics_emu.emulate.sandbox import across
from harmonics_emu.emulate.tc_facts import ShapingError
from harmonics_emu.errors import UsageError
from topologies.addressing import job_interface
from topologies.custom import CustomLink, custom
from topologies.fabric import Fabric
from topologies.rack_spine import rack_spine
from topologies.shaping import EgressShape, goodput_bps, plan_shaping, tcp_window_bytes, with_rate

MBIT = 10**6
PORT = 5201
pytestmark = [pytest.mark.netns, pytest.mark.sandboxed]


def two_hosts(rate_bps: int, **link: float) -> Fabric:
    return custom(["a", "b"], [CustomLink("a", "s", rate_bps, **link), CustomLink("b", "s", rate_bps, **link)])


def host_shapes(fabric: Fabric) -> list[EgressShape]:
    return [shape for shape in plan_shaping(fabric, {"a": {0: 0, 1: 6}}) if shape.on_host]


@pytest.fixture
def joined_hosts() -> None:
    """Namespaces a and b, their eth0 the two ends of a veth pair, with addresses in the subnets of jobs 0 and 1."""
    lines = ["netns add a", "netns add b", "link add eth0 netns a type veth peer name eth0 netns b"]
    shell.run(["ip", "-batch", "-"], stdin="\n".join(lines) + "\n")
    for index, name in enumerate("ab"):
        lines = ["link set lo up", "link set eth0 up"]
        lines += [f"addr add {job_interface(job, index)} dev eth0" for job in range(2)]
        shell.run(["ip", "-n", name, "-batch", "-"], stdin="\n".join(lines) + "\n")


def open_in(netns: str, make: Callable[[], socket.socket]) -> socket.socket:
    """A socket belongs to the namespace in which it was made, wherever it is used afterwards."""
    (made,) = across([netns], lambda _: make())
    made.settimeout(10)
    return made


def test_a_whole_fabric_is_as_planned_and_tc_has_nothing_to_say() -> None:
    fabric = rack_spine(2, 2, 2, 10 * 10**9, 33_333_333)
    hosts = [f"netns add {host}" for host in fabric.host_index]
    hosts += [
        f"link add {fabric.leaf_of(host)}-{host} type veth peer name eth0 netns {host}" for host in fabric.host_index
    ]
    uplinks = [
        f"link add {leaf}-{spine} type veth peer name {spine}-{leaf}"
        for leaf in fabric.leaves
        for spine in ("spine0", "spine1")
    ]
    shell.run(["ip", "-batch", "-"], stdin="\n".join(hosts + uplinks) + "\n")
    shapes = plan_shaping(fabric, {"r0h1": {0: 3, 41: 0}, "r1h0": {41: 7}})
    tc.apply(shapes)
    tc.verify(shapes)
    assert len(tc.read_counters()) == 12
    assert list(tc.read_counters("r1h1")) == ["eth0"]


@pytest.mark.parametrize("rate_bps", [8_000, 1_000_007, 10**9, 34_359_738_368, 100 * 10**9])
def test_rates_of_every_size_are_read_back_as_planned(joined_hosts: None, rate_bps: int) -> None:
    tc.apply(host_shapes(two_hosts(rate_bps)))


ALTERATIONS = {
    "class change dev eth0 parent 1:1 classid 1:13 htb rate 10kbit ceil 50mbit quantum 60000 prio 3": (
        r"a eth0: class 1:13: ceil_bps is 50000000, wanted 100000000"
    ),
    "class change dev eth0 parent 1:1 classid 1:16 htb rate 10kbit ceil 100mbit "
    "burst 1512 cburst 12500 quantum 60000 prio 2": r"a eth0: class 1:16: prio is 2, wanted 6",
    "qdisc change dev eth0 parent 1:10 handle 10: bfifo limit 9999": r"queue of class 1:10: limit is 9999, wanted",
    "filter del dev eth0 parent 1: prio 2": r"a eth0: filter 1 of priority 2 is missing",
    "filter add dev eth0 parent 1: protocol ip prio 1 u32 match u32 0 0 flowid 1:17": r"is there but not in the plan",
    "qdisc del dev eth0 root": r"a eth0: root qdisc: kind is noqueue, wanted htb",
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_an_alteration_is_reported_by_name(joined_hosts: None, alteration: str) -> None:
    shapes = host_shapes(two_hosts(100 * MBIT))
    tc.apply(shapes)
    shell.run(["tc", "-n", "a", *alteration.split()])
    with pytest.raises(ShapingError, match=ALTERATIONS[alteration]):
        tc.verify(shapes)


def test_another_segment_size_is_reported(joined_hosts: None) -> None:
    shapes = host_shapes(two_hosts(100 * MBIT))
    tc.apply(shapes)
    shell.run(["ip", "-n", "b", "link", "set", "eth0", "gso_max_size", "65000"])
    with pytest.raises(ShapingError, match="b eth0: interface: gso_max_size is 65000, wanted 12500"):
        tc.verify(shapes)


def test_a_warning_of_tc_is_an_error(joined_hosts: None) -> None:
    without_quantum = [replace(shape, quantum_bytes=0) for shape in host_shapes(two_hosts(10**9))]
    with pytest.raises(ShapingError, match=r"(?s)tc warned:.*quantum of class 10001 is big"):
        tc.apply(without_quantum)


def test_a_missing_interface_is_an_error(joined_hosts: None) -> None:
    with pytest.raises(ShapingError, match="there is no interface nic0 to shape"):
        tc.apply([replace(shape, interface="nic0") for shape in host_shapes(two_hosts(10**9))])


def test_delay_and_loss_work_or_are_refused(joined_hosts: None) -> None:
    shapes = host_shapes(two_hosts(100 * MBIT, delay_s=0.005, loss=0.01))
    if tc.netem_works():
        tc.apply(shapes)
    else:
        with pytest.raises(UsageError, match="this kernel has no netem"):
            tc.apply(shapes)
        assert tc.read_counters("a") == {}


@pytest.mark.parametrize("rate_bps", [None, 50 * MBIT])
def test_levels_move_under_traffic_and_no_packet_falls_through(joined_hosts: None, rate_bps: int | None) -> None:
    fabric = two_hosts(100 * MBIT)
    tc.apply(host_shapes(fabric))
    sender = open_in("a", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sender.bind((str(job_interface(1, 0).ip), 0))
    finished = threading.Event()
    sent = 0

    def send() -> None:
        nonlocal sent
        while not finished.wait(0.0001):
            sender.sendto(bytes(400), (str(job_interface(1, 1).ip), PORT))
            sent += 1

    thread = threading.Thread(target=send)
    thread.start()
    with JobQueues(fabric) as queues:
        for turn in range(30):
            # Every fourth turn, where there is one, by way of the class that the job has with its rate.
            lane = Lane((5, 6, 7)[turn % 3], rate_bps if turn % 4 == 0 else None)
            queues.set({"a": {1: lane}})
            time.sleep(0.002)
        queues.set({"a": {1: Lane(2), 9: Lane(7)}})
        finished.set()
        thread.join(timeout=10)
    bands = tc.read_counters("a")["eth0"].bands
    assert all(bands[level].packets > 0 for level in (5, 6, 7))
    # Each one is accounted for: none went by way of the default band, where only the kernel's own packets are.
    own_class = packets_of_class("a", 0x101) if rate_bps else 0
    assert bool(own_class) == bool(rate_bps)
    assert sum(bands[level].packets for level in (2, 5, 6, 7)) + own_class == sent > 100


def packets_of_class(netns: str, minor: int) -> int:
    """What the queue of class 1:minor on a namespace's NIC has sent."""

    def read(_: str | None) -> int:
        with Rtnetlink() as kernel:
            return sum(qdisc.packets for qdisc in kernel.qdiscs() if qdisc.parent == 1 << 16 | minor)

    return across([netns], read)[0]


def test_one_epochs_changes_for_64_jobs_take_a_tenth_of_a_second(joined_hosts: None) -> None:
    """On one host, all at once: what the kernel takes."""
    fabric = two_hosts(100 * MBIT)
    tc.apply(host_shapes(fabric))
    with JobQueues(fabric) as queues:
        queues.set({"a": {job: Lane(4) for job in range(64)}})
        took = []
        for turn in range(3):
            began = time.monotonic()
            queues.set({"a": {job: Lane((job + turn) % 8, (10 + job + turn) * MBIT) for job in range(64)}})
            took.append(time.monotonic() - began)
    assert min(took) < 0.1, took
    assert len(tc.read_counters("a")["eth0"].bands) == 8


def test_a_class_that_the_kernel_has_otherwise_is_told(joined_hosts: None) -> None:
    fabric = two_hosts(100 * MBIT)
    tc.apply(host_shapes(fabric))
    with JobQueues(fabric) as queues, pytest.raises(ShapingError, match="a eth0: class 1:101: prio is 7, wanted 9"):
        queues.set({"a": {1: Lane(9, MBIT)}})


@pytest.mark.parametrize("rate_mbit", [20, 60])
def test_a_job_keeps_to_its_rate_and_loses_it_again(joined_hosts: None, rate_mbit: int) -> None:
    fabric = two_hosts(200 * MBIT)
    tc.apply(host_shapes(fabric))
    with JobQueues(fabric) as queues, streaming(fabric) as receiver:
        for rate_bps in (rate_mbit * MBIT, None):
            queues.set({"a": {1: Lane(3, rate_bps)}})
            receive_rates(receiver, 0.3, 1)
            rates = receive_rates(receiver, 0.3, 4)
            assert steady(rates) == pytest.approx(goodput_bps(rate_bps or 200 * MBIT), rel=0.05), rates


def test_a_rate_changes_under_way(joined_hosts: None) -> None:
    fabric = two_hosts(100 * MBIT)
    shapes = host_shapes(fabric)
    tc.apply(shapes)
    tc.set_rate(fabric, "a>s", 10 * MBIT)
    tc.verify([with_rate(shapes[0], 10 * MBIT), shapes[1]])
    tc.set_rate(fabric, "a>s", 40 * 10**9)
    tc.verify([with_rate(shapes[0], 40 * 10**9), shapes[1]])


def receive_rates(receiver: socket.socket, window_s: float, count: int) -> list[float]:
    """Payload bits per second in consecutive windows."""
    rates = []
    for _ in range(count):
        began, received = time.monotonic(), 0
        while (elapsed := time.monotonic() - began) < window_s:
            received += len(receiver.recv(1 << 18))
        rates.append(8 * received / elapsed)
    return rates


def stream(buffer_bytes: int) -> tuple[socket.socket, socket.socket]:
    """A connection from a to b in job 1's subnet, with bounded buffers: (sending end, receiving end)."""

    def bounded() -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        return made

    listener, sender = open_in("b", bounded), open_in("a", bounded)
    listener.bind((str(job_interface(1, 1).ip), PORT))
    listener.listen()
    sender.bind((str(job_interface(1, 0).ip), 0))
    sender.connect((str(job_interface(1, 1).ip), PORT))
    receiver, _ = listener.accept()
    receiver.settimeout(10)
    return sender, receiver


@contextmanager
def streaming(fabric: Fabric) -> Iterator[socket.socket]:
    """Job 1 sends from a to b for as long as the context lasts; the receiving end."""
    sender, receiver = stream(tcp_window_bytes(fabric))
    ended = threading.Event()

    def send() -> None:
        while not ended.is_set():
            sender.send(bytes(1 << 17))

    thread = threading.Thread(target=send)
    thread.start()
    yield receiver
    ended.set()
    receiver.close()
    thread.join(timeout=10)


def steady(rates: Sequence[float]) -> float:
    """The best window: other work on the machine can only slow the others."""
    return max(rates)


@pytest.mark.parametrize("rate_bps", [10 * MBIT, 100 * MBIT, 1000 * MBIT])
def test_goodput_is_what_headers_leave_of_the_rate(joined_hosts: None, rate_bps: int) -> None:
    fabric = two_hosts(rate_bps)
    tc.apply(host_shapes(fabric))
    with streaming(fabric) as receiver:
        receive_rates(receiver, 0.3, 1)
        rates = receive_rates(receiver, 0.4, 6)
    assert steady(rates) == pytest.approx(goodput_bps(rate_bps), rel=0.03), rates
    counters = tc.read_counters("a")["eth0"]
    assert counters.bands[6].bytes > 0.98 * counters.bytes
    assert counters.drops == 0
