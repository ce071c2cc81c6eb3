"""The shaping plan: what holds for every rate, and what each filter is for."""

from hypothesis import given
from hypothesis import strategies as st

from topologies.addressing import host_interface, job_interface
from topologies.custom import CustomLink, custom
from topologies.rack_spine import rack_spine
from topologies.shaping import (
    DEFAULT_LEVEL,
    FRAME_BYTES,
    HOST_MTU_BYTES,
    LEVELS,
    URGENT_FILTERS,
    EgressShape,
    dscp_of_level,
    goodput_bps,
    host_filters,
    plan_shaping,
    tcp_window_bytes,
    with_rate,
)

MBIT = 10**6
rates = st.integers(8_000, 100 * 10**9)


def shapes_of(host_bps: int, uplink_bps: int) -> dict[str, EgressShape]:
    return {shape.link: shape for shape in plan_shaping(rack_spine(2, 1, 1, host_bps, uplink_bps))}


@given(host=rates, uplink=rates)
def test_bands_leave_the_link_to_borrowing_and_bursts_stay_short(host: int, uplink: int) -> None:
    for shape in shapes_of(host, uplink).values():
        assert [band.level for band in shape.bands] == list(range(LEVELS))
        assert 0 < sum(band.rate_bps for band in shape.bands) <= shape.rate_bps / 2
        for band in shape.bands:
            assert band.ceil_bps == shape.rate_bps
            assert band.rate_bps <= max(shape.rate_bps / 10_000, 8_000)
            # HTB warns of a quantum outside these bounds.
            assert 1_000 <= band.quantum_bytes <= 200_000
            assert band.burst_bytes >= FRAME_BYTES
            assert band.cburst_bytes <= max(2 * FRAME_BYTES, shape.rate_bps * 0.002 / 8)
        assert shape.burst_bytes == shape.bands[0].cburst_bytes


@given(host=rates, uplink=rates)
def test_an_offloaded_segment_is_short_on_every_link_that_it_can_cross(host: int, uplink: int) -> None:
    for shape in shapes_of(host, uplink).values():
        if not shape.on_host:
            assert shape.mtu_bytes is None
            continue
        assert shape.mtu_bytes == HOST_MTU_BYTES
        assert shape.segment_bytes is not None
        assert FRAME_BYTES <= shape.segment_bytes <= 65_536
        assert shape.segment_bytes == FRAME_BYTES or shape.segment_bytes * 8 <= 0.001 * min(host, uplink)


@given(host=rates, uplink=rates)
def test_a_queue_holds_many_windows(host: int, uplink: int) -> None:
    window = tcp_window_bytes(rack_spine(2, 1, 1, host, uplink))
    assert window >= 2**16
    for shape in shapes_of(host, uplink).values():
        assert all(2 * window <= band.limit_bytes <= 32 * window for band in shape.bands)


def test_a_slow_host_bounds_the_segments_of_the_others_but_not_through_its_own_uplink() -> None:
    links = [CustomLink("a", "s", 100 * MBIT), CustomLink("b", "s", 1000 * MBIT), CustomLink("c", "s", 1000 * MBIT)]
    segments = {shape.node: shape.segment_bytes for shape in plan_shaping(custom(["a", "b", "c"], links))}
    assert segments == {"a": 12500, "b": 12500, "c": 12500, "s": None}
    segments = {shape.node: shape.segment_bytes for shape in plan_shaping(custom(["a", "b"], links[:2]))}
    assert segments == {"a": 12500, "b": 12500, "s": None}


def test_window_covers_the_round_trip_of_links_with_delay() -> None:
    links = [CustomLink("a", "s", 100 * MBIT, delay_s=0.020), CustomLink("b", "s", 100 * MBIT)]
    assert tcp_window_bytes(custom(["a", "b"], links)) >= 100 * MBIT * 0.040 / 8


def test_levels_have_code_points_of_their_own_and_the_default_is_unmarked_traffic() -> None:
    assert len({dscp_of_level(level) for level in range(LEVELS)}) == LEVELS
    assert all(0 <= dscp_of_level(level) < 64 for level in range(LEVELS))
    assert dscp_of_level(DEFAULT_LEVEL) == 0


def level_of(shape: EgressShape, packet: bytes, protocol: str = "ip") -> int:
    """The level that a shape's filters give a packet, read as the kernel reads u32 filters."""
    for rule in sorted(shape.filters, key=lambda rule: (rule.priority, rule.number)):
        words = (int.from_bytes(packet[match.offset : match.offset + 4], "big") for match in rule.matches)
        matched = all(word & m.mask == m.value for word, m in zip(words, rule.matches, strict=True))
        if rule.protocol == protocol and matched:
            return rule.level
    return DEFAULT_LEVEL


def tcp_segment(source: str, payload: int, words: int = 8, flags: int = 0x10) -> bytes:
    """IP and TCP headers of a segment: `words` of TCP header, and as long as `payload` makes it."""
    header = bytes(12) + bytes([words << 4, flags]) + bytes(4 * words - 14)
    return ip_header(source, 20 + 4 * words + payload) + bytes(4) + header


def ip_header(source: str, length: int = 1486, protocol: int = 6, dscp: int = 0) -> bytes:
    address = bytes(int(part) for part in source.split("."))
    return bytes([0x45, dscp << 2]) + length.to_bytes(2, "big") + bytes(5) + bytes([protocol]) + bytes(2) + address


@given(level=st.integers(0, LEVELS - 1), ecn=st.integers(0, 3), length=st.integers(128, 65_535))
def test_a_switch_sorts_by_dscp(level: int, ecn: int, length: int) -> None:
    shape = shapes_of(MBIT, MBIT)["leaf0>spine0"]
    packet = bytearray(ip_header("10.9.0.1", length, dscp=dscp_of_level(level)))
    packet[1] |= ecn
    assert level_of(shape, bytes(packet)) == level
    assert level_of(shape, ip_header("10.9.0.1", dscp=63)) == DEFAULT_LEVEL


@given(levels=st.dictionaries(st.integers(0, 253), st.integers(0, LEVELS - 1), max_size=6), job=st.integers(0, 253))
def test_a_host_sorts_by_the_jobs_subnet(levels: dict[int, int], job: int) -> None:
    fabric = rack_spine(2, 2, 1, MBIT, MBIT)
    (shape,) = (s for s in plan_shaping(fabric, {"r1h1": levels}) if s.node == "r1h1")
    assert level_of(shape, ip_header(str(job_interface(job, 3).ip))) == levels.get(job, DEFAULT_LEVEL)
    assert level_of(shape, ip_header(str(host_interface(3).ip))) == DEFAULT_LEVEL
    assert shape.filters == URGENT_FILTERS + host_filters(levels)


@given(words=st.integers(5, 15), payload=st.integers(0, 1446), fin=st.booleans())
def test_of_tcp_only_what_carries_nothing_is_urgent(words: int, payload: int, fin: bool) -> None:
    """A short segment with payload would overtake the data before it."""
    (shape,) = (s for s in plan_shaping(rack_spine(2, 2, 1, MBIT, MBIT), {"r1h1": {0: 7}}) if s.node == "r1h1")
    segment = tcp_segment("10.1.0.1", payload, words, flags=0x10 | fin)
    assert level_of(shape, segment) == (0 if payload == 0 and not fin else 7)


def test_arp_and_icmp_are_urgent_everywhere() -> None:
    for shape in shapes_of(MBIT, MBIT).values():
        marked = {"source": "10.1.0.1", "dscp": dscp_of_level(7)}
        assert level_of(shape, ip_header(length=52, protocol=17, **marked)) != 0
        assert level_of(shape, ip_header(length=1000, protocol=1, **marked)) == 0
        assert level_of(shape, bytes(28), protocol="arp") == 0


@given(before=rates, after=rates)
def test_a_changed_rate_is_what_would_have_been_planned(before: int, after: int) -> None:
    changed = with_rate(shapes_of(MBIT, before)["leaf0>spine0"], after)
    planned = shapes_of(MBIT, after)["leaf0>spine0"]
    assert [(b.rate_bps, b.ceil_bps, b.cburst_bytes) for b in changed.bands] == [
        (b.rate_bps, b.ceil_bps, b.cburst_bytes) for b in planned.bands
    ]
    assert (changed.rate_bps, changed.burst_bytes) == (planned.rate_bps, planned.burst_bytes)


def test_goodput_is_the_share_of_payload_in_full_frames() -> None:
    assert goodput_bps(1512) == 1446
