"""What the frameworks must and must not do, each in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

NO_EVENTLET = """
import sys
import controller.__main__, controller.server
from controller.adapter import Framework
Framework("os-ken")
found = {name.partition(".")[0] for name in sys.modules} & {"eventlet", "greenlet", "ryu"}
assert not found, found
assert "os_ken" in sys.modules
"""


DECODED = """
import struct
from types import SimpleNamespace
from controller.adapter import FlowEntry, Framework, OpenFlowSwitch
Framework("os-ken")
import os_ken.ofproto.ofproto_v1_3 as protocol, os_ken.ofproto.ofproto_v1_3_parser as parser
from controller.flows import matching

def encoded(match, actions, counts):
    buffer = bytearray(48)
    length = 48 + parser.OFPMatch(**match).serialize(buffer, 48)
    buffer += bytes(length - len(buffer))
    for instruction in switch._instructions(actions):
        part = bytearray()
        instruction.serialize(part, 0)
        buffer += part
    struct.pack_into(parser.ofproto.OFP_FLOW_STATS_0_PACK_STR, buffer, 0, len(buffer), 1, 5, 6, 200, 0, 0, 0, *counts)
    return bytes(buffer)

switch = OpenFlowSwitch(SimpleNamespace(id=1, ofproto=protocol, ofproto_parser=parser))
match = {"eth_type": 0x0800, "in_port": 3, "ipv4_src": "10.1.0.1", "ipv4_dst": ("10.0.1.0", "255.0.255.0")}
marked = (("set_dscp", 10), ("set_eth_dst", "02:00:00:00:00:01"), ("output", 7))
first, second = encoded(match, marked, (99, 4, 400)), encoded({"in_port": 3}, (("goto", 1),), (98, 0, 0))
message = first + second + first
for _ in range(2):
    offset, found = 0, []
    while offset < len(message):
        entry = FlowEntry.parser(message, offset)
        offset += entry.length
        found.append((switch._decode_flow(entry), entry.packet_count, entry.byte_count))
    (flow, packets, size), (other, *_), again = found
    assert (flow.table, flow.priority, flow.cookie, packets, size) == (1, 200, 99, 4, 400)
    assert flow.match == matching(**{**match, "ipv4_dst": "10.0.1.0/255.0.255.0"}), flow.match
    assert flow.actions == marked, flow.actions
    assert (other.match, other.actions) == (matching(in_port=3), (("goto", 1),))
    assert again == found[0]
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=30)


def test_the_default_path_does_without_eventlet() -> None:
    done = run("-c", NO_EVENTLET)
    assert done.returncode == 0, done.stderr


def test_entries_that_switches_report_are_decoded_whether_or_not_they_are_known_by_their_bytes() -> None:
    done = run("-c", DECODED)
    assert done.returncode == 0, done.stderr


def test_a_taken_port_is_said_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("c")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ["--socket", str(directory / "s"), "--openflow-port", port, "--log", str(directory / "log")]
        done = run("-m", "controller", *options)
    assert done.returncode == 1
    assert done.stderr == f"controller: can't listen for switches at 127.0.0.1:{port}: Address already in use\n"
    assert not (directory / "s").exists()
