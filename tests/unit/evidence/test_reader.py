"""Capture files of every kind decode to the same packets; what is damaged says so and never breaks the reader."""

from __future__ import annotations

import gzip
import os
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether, Loopback
from scapy.packet import Packet, Raw

from harmonics_emu.evidence.capture import reader
from harmonics_emu.evidence.capture.packet import CUT_SHORT, MALFORMED, NO_TIME, NOT_IP, UNKNOWN_LINK, WHOLE
from harmonics_emu.evidence.capture.reader import Capture, read_all, read_capture
from harmonics_emu.evidence.capture.source import UnreadableCapture
from harmonics_emu.evidence.capture.table import FlowTable
from tests.unit.evidence.captures import (
    RAW,
    block,
    enhanced,
    interface,
    option,
    pcap,
    pcapng,
    section,
    segment,
    written,
)

FUZZ = int(os.environ.get("HARMONICS_FUZZ_EXAMPLES", "100"))
"""How many damaged files to try, of each kind. 50,000 take some minutes."""

FRAMES = [
    (1_700_000_000_123_456_000 + 1000 * number, bytes(segment("10.1.0.1", "10.1.0.2", 4000, 5000, number, 7, number)))
    for number in range(50)
]
CONTAINERS = {
    "pcap": pcap(FRAMES),
    "pcap, big-endian": pcap(FRAMES, big=True),
    "pcap, nanoseconds": pcap(FRAMES, nanoseconds=True),
    "pcap, big-endian nanoseconds": pcap(FRAMES, big=True, nanoseconds=True),
    "pcapng": pcapng(FRAMES),
    "pcapng, big-endian": pcapng(FRAMES, big=True),
    "pcapng, nanoseconds": pcapng(FRAMES, resolution=9),
    "pcapng, tenths of nanoseconds": pcapng(FRAMES, resolution=10),
}


def decoded(tmp_path: Path, content: bytes) -> tuple[np.ndarray, Capture]:
    capture = Capture(written(tmp_path / "a", content))
    parts = [chunk.copy() for chunk in read_capture(capture.path, capture, chunk=7)]
    return np.concatenate(parts) if parts else np.zeros(0, reader.PACKET), capture


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
def test_every_container_holds_the_same_packets(kind: str, zipped: bool, tmp_path: Path) -> None:
    content = CONTAINERS[kind]
    packets, capture = decoded(tmp_path, gzip.compress(content) if zipped else content)
    assert packets["time_ns"].tolist() == [time_ns for time_ns, _ in FRAMES]
    assert packets["seq"].tolist() == packets["payload_bytes"].tolist() == list(range(50))
    assert packets["wire_bytes"].tolist() == [len(frame) for _, frame in FRAMES]
    assert capture.damage is None
    assert capture.format.startswith(kind.split(",")[0])


def test_binary_fractions_of_a_second_are_exact(tmp_path: Path) -> None:
    for exponent in (1, 10, 33, 34, 40, 63):
        second = min(1_700_000_000, 2 ** (63 - exponent))
        content = section() + interface(resolution=128 | exponent)
        content += enhanced((second << exponent) + (1 << (exponent - 1)), FRAMES[0][1])
        assert decoded(tmp_path, content)[0]["time_ns"].tolist() == [second * 10**9 + 500_000_000]


def test_members_of_gzip_follow_each_other(tmp_path: Path) -> None:
    content = CONTAINERS["pcap"]
    packets, _ = decoded(tmp_path, gzip.compress(content[:1000]) + gzip.compress(content[1000:]))
    assert len(packets) == 50


TCP_PART = TCP(sport=1, dport=2, seq=3, ack=4, flags="PA", options=[("MSS", 1400), ("SAck", (5, 6, 7, 8))])
IN4, IN6 = IP(src="10.0.0.1", dst="10.0.0.2", tos=0xB8), IPv6(src="fd00::1", dst="fd00::2", tc=0xB8)
MAC = Ether(src="02:00:00:00:00:07", dst="ff:ff:ff:ff:ff:ff")
LINKS: list[tuple[str, int, Packet]] = [
    ("Ethernet", 1, MAC / IN4 / TCP_PART / Raw(b"12345")),
    ("Ethernet, IPv6", 1, MAC / IN6 / TCP_PART / Raw(b"12345")),
    ("VLAN", 1, MAC / Dot1Q(vlan=42) / IN4 / TCP_PART / Raw(b"12345")),
    ("VLAN in VLAN", 1, MAC / Dot1AD(vlan=7) / Dot1Q(vlan=42) / IN4 / TCP_PART / Raw(b"12345")),
    ("IPv6 extensions", 1, MAC / IN6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / TCP_PART / Raw(b"12345")),
    ("IPv6 first fragment", 1, MAC / IN6 / IPv6ExtHdrFragment(m=1) / TCP_PART / Raw(b"12345")),
    (
        "IPv4 options",
        1,
        MAC / IP(src="10.0.0.1", dst="10.0.0.2", tos=0xB8, options=[b"\x01" * 4]) / TCP_PART / b"12345",
    ),
    ("Linux cooked", 113, CookedLinux(src=b"\x02\0\0\0\0\x07", lladdrlen=6) / IN4 / TCP_PART / Raw(b"12345")),
    ("Linux cooked v2", 276, CookedLinuxV2(src=b"\x02\0\0\0\0\x07", lladdrlen=6) / IN4 / TCP_PART / Raw(b"12345")),
    ("raw", 101, IN4 / TCP_PART / Raw(b"12345")),
    ("raw, IPv6", 12, IN6 / TCP_PART / Raw(b"12345")),
    ("loopback", 0, Loopback(type=2) / IN4 / TCP_PART / Raw(b"12345")),
]


@pytest.mark.parametrize(("what", "link_type", "made"), LINKS, ids=[link[0] for link in LINKS])
def test_link_and_network_layers(what: str, link_type: int, made: Packet, tmp_path: Path) -> None:
    for captured in (262144, len(bytes(made)) - 5):
        content = pcap([(0, bytes(made))], link_type=link_type, snap=captured)
        (packet,), _ = decoded(tmp_path, content)
        assert packet["status"] == WHOLE
        assert (packet["src_port"], packet["dst_port"], packet["seq"], packet["ack"]) == (1, 2, 3, 4)
        assert (packet["payload_bytes"], packet["dscp"], packet["tcp_flags"]) == (5, 46, 24)
        assert (packet["segment_limit"], packet["sacks"], packet["sack_1"]) == (1400, 2, 7 << 32 | 8)
        six = "IPv6" in what
        assert (packet["src_high"], packet["src_low"]) == ((0xFD00 << 48, 1) if six else (0, 0x0A000001))
        assert packet["vlan"] == (42 if "VLAN" in what else 0)
        assert packet["source_mac"] == (0x020000000007 if link_type in (1, 113, 276) else 0)


def test_what_has_no_ports_is_told_apart(tmp_path: Path) -> None:
    frames = {
        "later fragment": (MAC / IP(frag=100) / Raw(b"\xff" * 40), WHOLE),
        "ARP": (MAC / ARP(), NOT_IP),
        "zero length": (Raw(b""), NOT_IP),
        "bad header length": (MAC / IP(ihl=3, len=40) / Raw(b"\0" * 20), MALFORMED),
        "TCP header beyond the packet": (MAC / IP() / TCP(dataofs=15), MALFORMED),
        "UDP of four bytes": (MAC / IP(proto=17) / Raw(b"\0" * 4), MALFORMED),
    }
    for what, (made, status) in frames.items():
        (packet,), _ = decoded(tmp_path, pcap([(0, bytes(made))]))
        assert packet["status"] == status, what
        assert (packet["src_port"], packet["payload_bytes"], packet["has_tcp"]) == (0, 0, 0) or status == MALFORMED
    (packet,), _ = decoded(tmp_path, pcap([(0, bytes(MAC / IP() / UDP()))], link_type=147))
    assert packet["status"] == UNKNOWN_LINK


@pytest.mark.parametrize("kept", range(0, 60))
def test_headers_may_be_cut_anywhere(kept: int, tmp_path: Path) -> None:
    frame = FRAMES[9][1]
    (packet,), _ = decoded(tmp_path, pcap([(0, frame)], snap=kept))
    assert (packet["wire_bytes"], packet["captured_bytes"]) == (len(frame), kept)
    assert packet["status"] == (WHOLE if kept >= 50 else CUT_SHORT)
    assert packet["version"] == (4 if kept >= 34 else 0)
    assert packet["src_port"] == (4000 if kept >= 38 else 0)


def test_a_segment_that_no_nic_has_cut_yet_is_as_long_as_it_says(tmp_path: Path) -> None:
    frame = bytes(MAC / IP(src="10.0.0.1", dst="10.0.0.2", len=0) / TCP() / Raw(b"\0" * 70_000))
    (packet,), _ = decoded(tmp_path, pcap([(0, frame)], snap=96))
    assert packet["payload_bytes"] == 70_000


def test_pcapng_blocks_that_are_no_packets(tmp_path: Path) -> None:
    drops = block(5, struct.pack("<III", 0, 0, 0) + option(4, struct.pack("<Q", 9)) + option(5, struct.pack("<Q", 3)))
    simple = block(3, struct.pack("<I", 60) + FRAMES[0][1][:60])
    old = block(2, struct.pack("<HHIIII", 0, 0, 0, 77, 60, 60) + FRAMES[0][1][:60])
    huge = block(0xBAD, b"\0" * (2 * reader.BUFFER))
    content = section() + interface() + huge + simple + old + block(0x0BAD, b"text") + drops
    content += section(">") + interface(RAW, order=">") + enhanced(5, FRAMES[0][1][14:], order=">")
    packets, capture = decoded(tmp_path, content)
    assert packets["time_ns"].tolist() == [NO_TIME, 77_000, 5000]
    assert packets["src_port"].tolist() == [4000] * 3
    assert (capture.skipped_blocks, capture.reported_drops, capture.damage) == (2, 3, None)
    assert capture.link_types == {"Ethernet", "raw IP"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"time,bytes\n1,2\n", "looks like text, beginning with 'time,bytes"),
        (b"\x28\xb5\x2f\xfd" + b"\0" * 40, "zstd: unpack it first"),
        (b"\0" * 100, "it begins with 00 00 00 00"),
        (CONTAINERS["pcap"][:20], "ends within its header"),
        (b"\xd4", "it begins with d4"),
        (gzip.compress(b"text"), "looks like text"),
        (gzip.compress(CONTAINERS["pcap"])[:8], "is no capture"),
        (b"\x0a\x0d\x0d\x0a" + b"\0" * 40, "no byte order mark"),
    ],
)
def test_what_is_no_capture_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableCapture, match=message):
        decoded(tmp_path, content)


def test_a_directory_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "is a directory"), (tmp_path / "no", "No such file")):
        with pytest.raises(UnreadableCapture, match=message):
            read_all(str(path))


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_a_file_that_ends_early_gives_what_it_has(kind: str, tmp_path: Path) -> None:
    content = CONTAINERS[kind]
    packets, capture = decoded(tmp_path, content[:-9])
    assert len(packets) == 49
    assert capture.damage is not None
    assert "cut short at byte" in capture.damage
    packets, capture = decoded(tmp_path, gzip.compress(content)[:-40])
    assert 0 < len(packets) < 50
    assert capture.damage is not None


def test_a_length_that_cannot_be_is_damage(tmp_path: Path) -> None:
    content = bytearray(CONTAINERS["pcap"])
    at = 24
    for _ in range(10):
        at += 16 + struct.unpack_from("<I", content, at + 8)[0]
    struct.pack_into("<I", content, at + 8, 2**31)
    packets, capture = decoded(tmp_path, bytes(content))
    assert len(packets) == 10
    assert capture.damage == f"damaged at byte {at}: a record claims more than {2**20} bytes"


@pytest.mark.parametrize("kind", ["pcap", "pcapng", "pcapng, big-endian"])
@settings(deadline=None, max_examples=FUZZ, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_breaks_the_reader_or_the_accounts(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    content = bytearray(CONTAINERS[kind])
    for _ in range(data.draw(st.integers(1, 20))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.sampled_from([0, 1, 4, 127, 128, 255]) | st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    capture, table = Capture(written(tmp_path / "a", bytes(content))), FlowTable(most_flows=4, most_rows=8)
    try:
        for packets in read_capture(capture.path, capture, chunk=5):
            assert (packets["captured_bytes"] <= packets["wire_bytes"]).all()
            assert (packets["payload_bytes"] <= packets["wire_bytes"]).all()
            assert (packets["payload_bytes"] >= 0).all()
            table.add(packets)
    except UnreadableCapture:
        return
    table.finish()
    assert table.cells["bytes"].sum() <= table.flows["wire_bytes"].sum() <= table.totals[1]
    assert table.bursts["bytes"].sum() <= table.flows["payload_bytes"].sum()


@settings(deadline=None, max_examples=FUZZ, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300), head=st.sampled_from([b"", *reader.PCAP_MAGICS, section(), b"\x1f\x8b\x08"]))
def test_any_bytes_are_read_or_refused(content: bytes, head: bytes, tmp_path: Path) -> None:
    with suppress(UnreadableCapture):
        read_all(written(tmp_path / "a", head + content))
