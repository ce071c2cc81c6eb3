"""The controller's contract, on os-ken and on Ryu: a real Open vSwitch, real packets, one sandbox a framework.

    r0h0 r0h1   r1h0 r1h1   r2h0 r2h1   r3h0 r3h1      each host a namespace
      leaf0       leaf1       leaf2       leaf3        each leaf a bridge, joined to both spines
                 spine0      spine1

The tests run outside the sandbox and reach into it with nsenter; the controller's socket is an ordinary file.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harmonics_emu import shell
from harmonics_emu.emulate.control import (
    ControllerClient,
    ControllerError,
    NetworkState,
    RuleCount,
    RulesDiffer,
    network_state,
)
from harmonics_emu.schedulers.interface import JobPlan, Plan
from topologies.addressing import (
    GATEWAY_ADDRESS,
    GATEWAY_MAC,
    datapath_ids,
    host_interface,
    host_mac,
    job_interface,
    port_name,
    port_numbers,
)
from topologies.rack_spine import rack_spine
from topologies.shaping import dscp_of_level
from workloads.job import Job

pytestmark = pytest.mark.ovs

ROOT = Path(__file__).resolve().parents[2]
FABRIC = rack_spine(racks=4, hosts_per_rack=2, spines=2, host_rate_bps=10**9, uplink_rate_bps=10**9)
HOSTS = FABRIC.host_index
HELLO_S = 10.0
"""Under a second on a quiet machine."""
PORT = 6653
OTHER_PORT = 6654
RUN = "/run/ovs"
RED = Job("red", 0, "ddp", ("r0h0", "r0h1", "r1h0", "r2h0"), 1)
BLUE = Job("blue", 1, "ddp", ("r0h0", "r1h0", "r3h1"), 1)

OPEN_SANDBOX = f"""
mount -t tmpfs controller-test /run && mkdir {RUN} && ip link set lo up && echo open && exec sleep infinity
"""
SAY_HELLO = """
import socket, sys, time
deadline = time.monotonic() + 10
while True:
    try:
        switch = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10)
        break
    except ConnectionRefusedError:
        assert time.monotonic() < deadline
        time.sleep(0.01)
switch.sendall(bytes([4, 0, 0, 8, 0, 0, 0, 1]))
answer = switch.recv(8)
assert answer[:2] == bytes([4, 0]), answer
"""
RECEIVE_TCP = """
import socket, sys
listener = socket.create_server((sys.argv[1], 5000))
listener.settimeout(10)
print("ready", flush=True)
connection, _ = listener.accept()
connection.settimeout(10)
print(sum(iter(lambda: len(connection.recv(65536)), 0)))
"""
SEND_TCP = """
import socket, sys
with socket.create_connection((sys.argv[2], 5000), timeout=10, source_address=(sys.argv[1], 0)) as connection:
    connection.sendall(bytes(10_000_000))
"""
RECEIVE_UDP = """
import socket, sys
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
receiver.settimeout(10)
receiver.bind((sys.argv[1], 5001))
print("ready", flush=True)
print(receiver.recvmsg(100, 100)[1][0][2][0])
"""
SEND_UDP = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0xb8)
    sender.bind((sys.argv[1], 0))
    sender.sendto(b"x" * 100, (sys.argv[2], 5001))
"""
KNOCK = """
import socket, sys
for _ in range(64):
    with socket.socket() as stream:
        stream.bind((sys.argv[1], 0))
        assert stream.connect_ex((sys.argv[2], 5002)) == 111, "connection refused was expected"
"""
FAULTY_CONTROLLER = """
import controller.__main__ as program, controller.service as service
class Faulty(service.ControllerService):
    failures = 0
    def connected(self, switch):
        self.failures += 1
        if self.failures == 1:
            raise RuntimeError("thrown by the test")
        super().connected(switch)
service.ControllerService = Faulty
program.main()
"""


class Lab:
    """The fabric in a sandbox, and one controller process in it."""

    def __init__(self, directory: Path, python: str, framework: str) -> None:
        self.directory = directory
        self.python = python
        self.framework = framework
        self.processes: list[subprocess.Popen[bytes]] = []
        argv = [
            "unshare",
            "--net",
            "--pid",
            "--mount",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "sh",
            "-c",
            OPEN_SANDBOX,
        ]
        holder = shell.start(argv, log=(directory / "sandbox.log").open("ab"), stdout=subprocess.PIPE)
        self.processes.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n", (directory / "sandbox.log").read_text()
        self.first_process = int(Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text())

    def inside(self, argv: list[str], host: str | None = None) -> list[str]:
        """The command that runs `argv` in the sandbox, or in the namespace of one of its hosts."""
        enter = ["nsenter", f"--target={self.first_process}", "--net", "--pid", "--mount", f"--wd={ROOT}"]
        return [*enter, "env", f"OVS_RUNDIR={RUN}", *(["ip", "netns", "exec", host] if host else []), *argv]

    def run(self, *argv: str, host: str | None = None, stdin: str | None = None, timeout_s: float = 20.0) -> str:
        return shell.run(self.inside(list(argv), host), stdin=stdin, timeout_s=timeout_s)

    def start(self, *argv: str, host: str | None = None, stdout: int | None = None) -> subprocess.Popen[bytes]:
        log = self.directory / "processes.log"
        process = shell.start(self.inside(list(argv), host), log=log.open("ab"), stdout=stdout)
        self.processes.append(process)
        return process

    def python_in(self, host: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start(sys.executable, "-c", program, *arguments, host=host, stdout=subprocess.PIPE)

    def start_controller(self, name: str, *argv: str, port: int) -> ControllerClient:
        """Start a controller process and connect to it."""
        socket = self.directory / f"{name}.sock"
        options = ["--socket", str(socket), "--openflow-port", str(port), "--framework", self.framework]
        self.start(self.python, *argv, *options, "--log", str(self.directory / f"{name}.log"))
        return ControllerClient(socket)

    def start_vswitchd(self) -> None:
        pidfile = f"{RUN}/vswitchd.pid"
        self.run(
            "ovs-vswitchd",
            f"unix:{RUN}/db.sock",
            f"--pidfile={pidfile}",
            "--detach",
            "--no-chdir",
            "--log-file=/dev/null",
        )

    def build(self) -> None:
        self.run("ovsdb-tool", "create", f"{RUN}/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
        self.run(
            "ovsdb-server", f"{RUN}/conf.db", f"--remote=punix:{RUN}/db.sock", "--detach", "--no-chdir", "--pidfile"
        )
        self.run("ovs-vsctl", "--no-wait", "set", "Open_vSwitch", ".", "other_config:userspace-tso-enable=true")
        self.start_vswitchd()
        self.run("ip", "-batch", "-", stdin="\n".join(_links()))
        for host in HOSTS:
            self.run("ip", "-netns", host, "-batch", "-", stdin="\n".join(_addresses(host)))
        self.run("ovs-vsctl", *_bridges(), timeout_s=30)

    def connect_switches(self, port: int) -> None:
        for switch in FABRIC.switches:
            controller = f"tcp:127.0.0.1:{port}"
            self.run(
                "ovs-vsctl",
                "set-controller",
                switch.name,
                controller,
                "--",
                "set",
                "controller",
                switch.name,
                "max_backoff=1000",
            )

    def flow_counts(self) -> list[int]:
        dumps = [self.run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", switch.name) for switch in FABRIC.switches]
        return [sum("cookie" in line for line in dump.splitlines()) for dump in dumps]

    def close(self) -> None:
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(timeout=10)


def _links() -> Iterator[str]:
    for host in HOSTS:
        port = port_name(FABRIC.leaf_of(host), host)
        yield f"netns add {host}"
        yield f"link add {port} type veth peer name eth0 netns {host} address {host_mac(HOSTS[host])}"
        yield f"link set {port} up"
    for cable in FABRIC.cables.values():
        link = FABRIC.links[cable.up]
        if link.src not in HOSTS:
            near, far = port_name(link.src, link.dst), port_name(link.dst, link.src)
            yield f"link add {near} up type veth peer name {far}"
            yield f"link set {far} up"


def _addresses(host: str) -> Iterator[str]:
    yield "link set eth0 up"
    yield f"neigh add {GATEWAY_ADDRESS} lladdr {GATEWAY_MAC} dev eth0 nud permanent"
    for interface in (host_interface(HOSTS[host]), job_interface(0, HOSTS[host]), job_interface(1, HOSTS[host])):
        yield f"address add {interface.ip}/32 dev eth0"
        yield f"route add {interface.network} via {GATEWAY_ADDRESS} dev eth0 onlink src {interface.ip}"


def _bridges() -> Iterator[str]:
    for switch, number in datapath_ids(FABRIC).items():
        yield from ("--", "add-br", switch, "--", "set", "bridge", switch, "datapath_type=netdev", "fail_mode=secure")
        yield from ("protocols=OpenFlow13", f"other-config:datapath-id={number:016x}")
        for peer, port in port_numbers(FABRIC)[switch].items():
            name = port_name(switch, peer)
            yield from ("--", "add-port", switch, name, "--", "set", "interface", name, f"ofport_request={port}")


@pytest.fixture(scope="module", params=["os-ken", "ryu"])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    python = sys.executable
    if request.param == "ryu":
        shell.run([str(ROOT / "scripts" / "install-ryu")], timeout_s=300)
        python = str(ROOT / ".venv-ryu" / "bin" / "python")
    lab = Lab(tmp_path_factory.mktemp("lab"), python, request.param)
    try:
        lab.build()
        yield lab
    finally:
        lab.close()


@pytest.fixture(scope="module")
def client(lab: Lab) -> Iterator[ControllerClient]:
    """The lab's controller, which must answer a switch's HELLO soon after its start, with all switches connected."""
    began = time.monotonic()
    client = lab.start_controller("controller", "-m", "controller", port=PORT)
    lab.run(sys.executable, "-c", SAY_HELLO, str(PORT))
    assert time.monotonic() - began < HELLO_S
    lab.connect_switches(PORT)
    client.wait_for_switches(len(FABRIC.switches), timeout_s=5)
    yield client
    client.shut_down()
    client.close()


def state(levels: dict[str, int], spine: int | None = None, jobs: tuple[Job, ...] = (RED, BLUE)) -> NetworkState:
    """Both jobs at these levels; red's pairs over the given spine, or over the hashed one."""
    pairs = [(src, dst) for src in RED.hosts for dst in RED.hosts if len(FABRIC.paths(src, dst)) > 1]
    paths = {} if spine is None else {pair: FABRIC.paths(*pair)[spine] for pair in pairs}
    plans = {name: JobPlan(level=level, paths=paths if name == "red" else {}) for name, level in levels.items()}
    return network_state(FABRIC, jobs, Plan("test", plans), seed=7)


def address(job: Job, host: str) -> str:
    return str(job_interface(job.index, HOSTS[host]).ip)


def ready_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def uplink_packets(lab: Lab) -> list[int]:
    """What leaf0 has sent to each spine so far."""
    found = [json.loads(lab.run("ip", "-s", "-j", "link", "show", f"leaf0-spine{spine}")) for spine in (0, 1)]
    return [link[0]["stats64"]["tx"]["packets"] for link in found]


def ping(lab: Lab, job: Job, src: str, dst: str, count: int = 1) -> None:
    lab.run(
        "ping", "-q", "-c", str(count), "-W", "2", "-i", "0.01", "-I", address(job, src), address(job, dst), host=src
    )


def packets_of(counts: list[RuleCount]) -> dict[tuple[str, str | None, str | None], int]:
    return {
        (count.job, count.src, count.dst): count.packets for count in counts if count.job and count.purpose == "pair"
    }


def test_rules_are_installed_and_read_back(client: ControllerClient) -> None:
    reports = client.install(state({"red": 0, "blue": 6}), timeout_s=10)
    assert {report.error for report in reports} == {None}
    marks = {report.job: dict(report.actions)["set_dscp"] for report in reports if report.purpose == "pair"}
    assert marks == {"red": dscp_of_level(0), "blue": dscp_of_level(6)}
    assert {report.switch for report in reports} == {switch.name for switch in FABRIC.switches}


def test_pairs_reach_each_other_and_count_on_their_own_rules(lab: Lab, client: ControllerClient) -> None:
    client.install(state({"red": 3, "blue": 6}), timeout_s=10)
    before = packets_of(client.counters(timeout_s=5))
    for dst in ("r0h1", "r1h0", "r2h0"):
        ping(lab, RED, "r0h0", dst, count=10)
    deadline = time.monotonic() + 5
    while True:
        after = packets_of(client.counters(timeout_s=5))
        moved = {pair: after[pair] - before[pair] for pair in after if after[pair] != before[pair]}
        if sum(moved.values()) >= 60 or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    others = ("r0h1", "r1h0", "r2h0")
    assert moved == {("red", *pair): 10 for other in others for pair in (("r0h0", other), (other, "r0h0"))}


def test_ten_megabytes_cross_racks_over_tcp(lab: Lab, client: ControllerClient) -> None:
    client.install(state({"red": 4, "blue": 4}), timeout_s=10)
    receiver = lab.python_in("r2h0", RECEIVE_TCP, address(RED, "r2h0"))
    assert ready_line(receiver) == "ready"
    lab.run(sys.executable, "-c", SEND_TCP, address(RED, "r0h0"), address(RED, "r2h0"), host="r0h0", timeout_s=5)
    assert ready_line(receiver) == "10000000"


@pytest.mark.parametrize("level", [0, 4, 7])
def test_a_programs_own_dscp_is_overwritten(lab: Lab, client: ControllerClient, level: int) -> None:
    client.install(state({"red": level, "blue": 2}), timeout_s=10)
    for dst in ("r0h1", "r1h0"):
        receiver = lab.python_in(dst, RECEIVE_UDP, address(RED, dst))
        assert ready_line(receiver) == "ready"
        lab.run(sys.executable, "-c", SEND_UDP, address(RED, "r0h0"), address(RED, dst), host="r0h0")
        assert int(ready_line(receiver)) == dscp_of_level(level) << 2


def test_a_path_changes_under_traffic_without_loss(lab: Lab, client: ControllerClient) -> None:
    client.install(state({"red": 4, "blue": 4}, spine=0), timeout_s=10)
    source, target = address(RED, "r0h0"), address(RED, "r2h0")
    stream = lab.start(
        "ping", "-q", "-i", "0.002", "-c", "1000", "-I", source, target, host="r0h0", stdout=subprocess.PIPE
    )
    changes = 0
    while stream.poll() is None:
        changes += 1
        client.install(state({"red": changes % 8, "blue": 4}, spine=changes % 2), timeout_s=10)
        time.sleep(0.1)
    assert stream.stdout is not None
    assert "1000 packets transmitted, 1000 received" in stream.stdout.read().decode()
    assert changes >= 5


def test_traffic_follows_its_path(lab: Lab, client: ControllerClient) -> None:
    for spine in (0, 1):
        client.install(state({"red": 4, "blue": 4}, spine=spine), timeout_s=10)
        before = uplink_packets(lab)
        ping(lab, RED, "r0h0", "r2h0", count=5)
        moved = [now - then for now, then in zip(uplink_packets(lab), before, strict=True)]
        assert moved[spine] >= 5
        assert moved[1 - spine] == 0


def test_groups_spread_streams_over_both_spines(lab: Lab, client: ControllerClient) -> None:
    wanted = msgspec.structs.replace(state({"red": 4, "blue": 4}), paths="group")
    assert any(action == "group" for report in client.install(wanted, timeout_s=10) for action, _ in report.actions)
    before = uplink_packets(lab)
    lab.run(sys.executable, "-c", KNOCK, address(RED, "r0h0"), address(RED, "r2h0"), host="r0h0")
    moved = [now - then for now, then in zip(uplink_packets(lab), before, strict=True)]
    assert sum(moved) >= 64
    assert min(moved) >= 10
    reports = client.install(state({"red": 4, "blue": 4}), timeout_s=10)
    assert not any(action == "group" for report in reports for action, _ in report.actions)
    assert "group_id" not in lab.run("ovs-ofctl", "-O", "OpenFlow13", "dump-groups", "leaf0")


def test_many_rules_install_fast(client: ControllerClient) -> None:
    """64 jobs of 4 ranks over 4 racks. The limit is generous: other work shares the machine's cores."""
    hosts = list(HOSTS)
    jobs = tuple(
        Job(f"job{n}", n, "ddp", tuple(hosts[rack * 2 + (n >> rack) % 2] for rack in range(4)), 1) for n in range(64)
    )
    began = time.monotonic()
    reports = client.install(state({}, jobs=jobs), timeout_s=10)
    assert sum(report.purpose == "pair" for report in reports) == 64 * 12
    assert time.monotonic() - began < 3
    client.install(state({"red": 4, "blue": 4}), timeout_s=10)


def test_rules_come_back_after_the_switch_daemon_is_killed(lab: Lab, client: ControllerClient) -> None:
    client.install(state({"red": 1, "blue": 5}), timeout_s=10)
    wanted = lab.flow_counts()
    lab.run("sh", "-c", f"kill -9 $(cat {RUN}/vswitchd.pid)")
    began = time.monotonic()
    lab.start_vswitchd()
    while lab.flow_counts() != wanted:
        assert time.monotonic() - began < 5
        time.sleep(0.05)
    ping(lab, RED, "r0h0", "r2h0")
    assert {report.error for report in client.install(state({"red": 1, "blue": 5}), timeout_s=10)} == {None}


def test_a_missing_switch_is_named(lab: Lab, client: ControllerClient) -> None:
    wanted = state({"red": 1, "blue": 5})
    lab.run("ovs-vsctl", "del-controller", "spine1")
    deadline = time.monotonic() + 5
    while not (lab.directory / "controller.log").read_text().endswith("datapath 6 disconnected\n"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(ControllerError, match=r"not connected: spine1 \(1 of 6 switches\)"):
        client.install(wanted, timeout_s=10)
    with pytest.raises(ControllerError, match=r"5 of 6 switches .* missing datapath ids: 6"):
        client.wait_for_switches(6, timeout_s=0.2)
    lab.connect_switches(PORT)
    client.wait_for_switches(6, timeout_s=5)


def test_rules_of_somebody_else_are_taken_out(lab: Lab, client: ControllerClient) -> None:
    client.install(state({"red": 1, "blue": 5}), timeout_s=10)
    wanted = lab.flow_counts()
    lab.run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "leaf0", "priority=300,ip,actions=drop")
    client.install(state({"red": 1, "blue": 5}), timeout_s=10)
    assert lab.flow_counts() == wanted


def test_a_refused_rule_is_named_with_the_switchs_answer(lab: Lab, client: ControllerClient) -> None:
    client.install(state({"red": 1, "blue": 5}), timeout_s=10)
    limit = ["--", "--id=@full", "create", "Flow_Table", "flow_limit=4", "overflow_policy=refuse"]
    lab.run("ovs-vsctl", *limit, "--", "set", "bridge", "leaf2", "flow_tables:0=@full")
    green = Job("green", 2, "ddp", ("r2h0", "r2h1"), 1)
    try:
        with pytest.raises(RulesDiffer, match=r"rule of leaf2 .*OFPFMFC_TABLE_FULL") as caught:
            client.install(state({"red": 1, "blue": 5}, jobs=(RED, BLUE, green)), timeout_s=10)
        assert {report.job for report in caught.value.rules if report.error} == {"green"}
    finally:
        lab.run("ovs-vsctl", "clear", "bridge", "leaf2", "flow_tables")
    client.install(state({"red": 1, "blue": 5}, jobs=(RED, BLUE, green)), timeout_s=10)


def test_an_exception_in_a_handler_is_logged_and_survived(lab: Lab, client: ControllerClient) -> None:
    """A controller whose first switch event fails goes on: the others connect, and that one when it comes again."""
    client.install(state({"red": 1, "blue": 5}), timeout_s=10)
    faulty = lab.start_controller("faulty", "-c", FAULTY_CONTROLLER, port=OTHER_PORT)
    lab.connect_switches(OTHER_PORT)
    with pytest.raises(ControllerError, match="5 of 6 switches"):
        faulty.wait_for_switches(6, timeout_s=3)
    assert "RuntimeError: thrown by the test" in (lab.directory / "faulty.log").read_text()
    lab.connect_switches(PORT)
    client.wait_for_switches(6, timeout_s=5)
    lab.connect_switches(OTHER_PORT)
    faulty.wait_for_switches(6, timeout_s=5)
    assert {report.error for report in faulty.install(state({"red": 1, "blue": 5}), timeout_s=10)} == {None}
    faulty.shut_down()
    faulty.close()
    lab.connect_switches(PORT)
    client.wait_for_switches(6, timeout_s=5)
