"""The tc commands say what the plan says, read back by a small parser of their own."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonics_emu.emulate.tc import render
from harmonics_emu.emulate.tc_facts import PROTOCOLS, Facts, ShapingError, compare, wanted_facts
from topologies.custom import CustomLink, custom
from topologies.shaping import EgressShape, plan_shaping

rates = st.integers(8_000, 100 * 10**9)


def host_shape(rate_bps: int, delay_s: float = 0.0, loss: float = 0.0) -> EgressShape:
    links = [CustomLink("a", "s", rate_bps, delay_s, loss), CustomLink("b", "s", rate_bps, delay_s, loss)]
    return plan_shaping(custom(["a", "b"], links), {"a": {0: 1, 200: 7}})[0]


def word(line: str, name: str) -> str:
    found = re.search(rf"\b{name} (\S+)", line)
    assert found, f"no {name} in {line!r}"
    return found[1]


def class_facts(line: str) -> Facts:
    name = f"class {word(line, 'classid')}"
    rate, ceil = (int(word(line, field).removesuffix("bit")) for field in ("rate", "ceil"))
    _, _, parent = word(line, "parent").partition(":")
    return {
        (name, "parent"): int(parent, 16) if parent else 0xFFFF,
        (name, "rate_bps"): rate // 8 * 8,
        (name, "ceil_bps"): ceil // 8 * 8,
        (name, "burst_s"): int(word(line, "burst").removesuffix("b")) / (rate // 8),
        (name, "cburst_s"): int(word(line, "cburst").removesuffix("b")) / (ceil // 8),
        (name, "quantum_bytes"): int(word(line, "quantum")),
        (name, "prio"): int(word(line, "prio")) if " prio " in line else 0,
    }


def queue_facts(line: str) -> Facts:
    name = f"queue of class {word(line, 'parent')}"
    handle = int(word(line, "handle").rstrip(":"), 16)
    facts: Facts = {(name, "limit"): int(word(line, "limit")), (name, "handle"): handle}
    if "netem" not in line:
        return facts | {(name, "kind"): "bfifo"}
    delay_s, loss = float(word(line, "delay").removesuffix("ns")) / 1e9, float(word(line, "loss").rstrip("%")) / 100
    return facts | {(name, "kind"): "netem", (name, "delay_s"): delay_s, (name, "loss"): loss}


def filter_facts(line: str) -> Facts:
    name = f"filter {int(word(line, 'handle').lstrip(':'), 16)} of priority {word(line, 'prio')}"
    matches = re.findall(r"match u32 (\S+) (\S+) at (\d+)", line)
    return {
        (name, "protocol"): PROTOCOLS[word(line, "protocol")],
        (name, "matches"): tuple((int(value, 16), int(mask, 16), int(at)) for value, mask, at in matches),
        (name, "class"): word(line, "flowid"),
    }


def parsed(shape: EgressShape) -> Facts:
    facts: Facts = {("interface", "mtu"): shape.mtu_bytes, ("interface", "gso_max_size"): shape.segment_bytes}
    root, *lines = render(shape)
    assert root == "qdisc add dev eth0 root handle 1: htb default 14"
    facts |= {("root qdisc", "kind"): "htb", ("root qdisc", "handle"): 1, ("root qdisc", "default"): 0x14}
    readers = {"class": class_facts, "qdisc": queue_facts, "filter": filter_facts}
    for line in lines:
        facts |= readers[line.split()[0]](line)
    return facts


@given(rate=rates)
def test_commands_say_what_is_checked_afterwards(rate: int) -> None:
    shape = host_shape(rate)
    compare("a eth0", wanted_facts(shape), parsed(shape))


@given(rate=rates, delay_us=st.integers(0, 10**6), loss=st.floats(1e-4, 0.5))
def test_delay_and_loss_become_netem(rate: int, delay_us: int, loss: float) -> None:
    shape = host_shape(rate, delay_us / 1e6, loss)
    compare("a eth0", wanted_facts(shape), parsed(shape))


def test_differences_are_named() -> None:
    shape = host_shape(10**8)
    slow = replace(shape.bands[3], rate_bps=99)
    with pytest.raises(ShapingError, match=r"a eth0: class 1:13: rate_bps is 96, wanted 10000"):
        compare("a eth0", wanted_facts(shape), parsed(replace(shape, bands=(*shape.bands[:3], slow, *shape.bands[4:]))))
    fewer = replace(shape, filters=shape.filters[:-1])
    with pytest.raises(ShapingError, match=r"a eth0: filter 201 of priority 4 is missing"):
        compare("a eth0", wanted_facts(shape), parsed(fewer))
    with pytest.raises(ShapingError, match=r"a eth0: filter 201 of priority 4 is there but not in the plan"):
        compare("a eth0", wanted_facts(fewer), parsed(shape))
