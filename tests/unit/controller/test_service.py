"""Installation, read-back and reconnection on switches in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from controller.difference import Change
from controller.flow_table import FlowTables
from controller.flows import Flow, Tables
from controller.rules import INGRESS, plan_rules
from controller.service import ControllerService
from controller.switches import Contents, Count, SwitchError, Ticket
from harmonics_emu.emulate.control import JobRoutes, NetworkState
from topologies.rack_spine import rack_spine

FABRIC = rack_spine(racks=2, hosts_per_rack=2, spines=2, host_rate_bps=10**9, uplink_rate_bps=10**9)
HOSTS = tuple(host.name for host in FABRIC.hosts)


class FakeSwitch:
    """A switch that answers at once, unless it is silent, and counts one packet in each entry.

    refuse: entries with this table are not taken. lose: they are taken, but never to be seen again.
    """

    def __init__(self, datapath_id: int) -> None:
        self.datapath_id = datapath_id
        self.held = FlowTables()
        self.refuse: int | None = None
        self.lose: int | None = None
        self.silent = False
        self.asked: list[int | None] = []

    def submit(self, changes: Sequence[Change]) -> Ticket:
        ticket = Ticket(self.datapath_id)
        for change in changes:
            table = change.item.table if isinstance(change.item, Flow) else None
            if table is not None and table == self.refuse:
                ticket.errors[change] = "the switch answered OFPET_FLOW_MOD_FAILED: OFPFMFC_TABLE_FULL"
            elif table is None or table != self.lose:
                self.held.apply(change)
        return self._answered(ticket)

    def request_contents(self, table: int | None = None) -> Ticket:
        self.asked.append(table)
        return self._answered(Ticket(self.datapath_id))

    def contents(self, ticket: Ticket) -> Contents:
        held, table = self.held.tables, self.asked[-1]
        tables = Tables(frozenset(flow for flow in held.flows if table in (None, flow.table)), held.groups)
        return Contents(tables, {flow: Count(1, 100) for flow in tables.flows})

    def _answered(self, ticket: Ticket) -> Ticket:
        if not self.silent:
            ticket.finish()
        return ticket


def state(level: int = 4) -> NetworkState:
    return NetworkState(fabric=FABRIC, seed=1, jobs=(JobRoutes("a", 0, HOSTS, level),))


def soon(seconds: float = 5.0) -> float:
    return time.monotonic() + seconds


@pytest.fixture
def switches() -> dict[int, FakeSwitch]:
    return {number: FakeSwitch(number) for number in range(1, len(FABRIC.switches) + 1)}


@pytest.fixture
def service(switches: dict[int, FakeSwitch]) -> ControllerService:
    service = ControllerService()
    for switch in switches.values():
        service.connected(switch)
    return service


def test_what_is_wanted_is_what_switches_hold(service: ControllerService, switches: dict[int, FakeSwitch]) -> None:
    for level in (4, 0):
        reports = service.install(state(level), soon())
        assert {report.error for report in reports} == {None}
        for number, plan in plan_rules(state(level)).items():
            assert switches[number].held.tables == plan.tables
    counts = service.counters(soon())
    assert {(count.cookie, count.packets, count.bytes) for count in counts} == {(r.cookie, 1, 100) for r in reports}


def test_a_rule_that_did_not_take_is_named(service: ControllerService, switches: dict[int, FakeSwitch]) -> None:
    switches[2].lose = 0
    wrong = [report for report in service.install(state(), soon()) if report.error]
    assert {report.switch for report in wrong} == {"leaf1"}
    assert {report.error for report in wrong} == {"the switch does not hold it"}
    switches[2].lose = None
    assert not any(report.error for report in service.install(state(), soon()))


def test_a_refused_change_is_named_with_the_answer(service: ControllerService, switches: dict[int, FakeSwitch]) -> None:
    service.install(state(4), soon())
    switches[1].refuse = 0
    wrong = [report for report in service.install(state(1), soon()) if report.error]
    assert {report.purpose for report in wrong} == {"pair"}
    assert all("OFPFMFC_TABLE_FULL" in report.describe() for report in wrong)
    assert wrong[0].describe().startswith("pair rule of leaf0 (table 0, eth_type=2048,in_port=")


def test_entries_of_somebody_else_go(service: ControllerService, switches: dict[int, FakeSwitch]) -> None:
    switches[1].held.apply(Change("add", Flow(0, 999, 7, (), ())))
    assert not any(report.error for report in service.install(state(), soon()))
    assert switches[1].held.tables == plan_rules(state())[1].tables


def test_a_missing_switch_leaves_all_as_it_is(service: ControllerService, switches: dict[int, FakeSwitch]) -> None:
    service.install(state(4), soon())
    service.disconnected(switches[3])
    with pytest.raises(SwitchError, match=r"not connected: spine0 \(1 of 4 switches\)"):
        service.install(state(0), soon())
    assert switches[1].held.tables == plan_rules(state(4))[1].tables
    assert service.wait_connected(4, soon(0.01)) == (1, 2, 4)


def test_a_silent_switch_is_named_in_time(service: ControllerService, switches: dict[int, FakeSwitch]) -> None:
    switches[4].silent = True
    with pytest.raises(SwitchError, match="datapath id 4 did not answer in time"):
        service.install(state(), soon(0.05))


def test_a_switch_that_comes_back_empty_gets_its_rules(
    service: ControllerService, switches: dict[int, FakeSwitch]
) -> None:
    service.install(state(), soon())
    again = FakeSwitch(1)
    service.connected(again)
    service.disconnected(switches[1])
    deadline = soon()
    while again.held.tables != plan_rules(state())[1].tables:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert service.wait_connected(4, soon()) == (1, 2, 3, 4)


def test_waiting_ends_with_the_last_connection() -> None:
    service = ControllerService()
    threading.Timer(0.05, service.connected, [FakeSwitch(1)]).start()
    began = time.monotonic()
    assert service.wait_connected(1, soon()) == (1,)
    assert time.monotonic() - began < 2


def test_after_a_change_only_what_changed_is_read_again(
    service: ControllerService, switches: dict[int, FakeSwitch]
) -> None:
    for switch in switches.values():
        service.connected(switch)
    service.install(state(), soon())
    before = {number: len(switch.asked) for number, switch in switches.items()}
    reports = service.install(state(2), soon())
    assert all(report.error is None for report in reports)
    asked = {number: switch.asked[before[number] :] for number, switch in switches.items()}
    assert {table for tables in asked.values() for table in tables} == {INGRESS}
    assert any(not tables for tables in asked.values()), "spines did not change"
    # Who asks for what should be there already wants to know: everything is read.
    assert len(service.install(state(2), soon())) == len(reports)
    assert all(switch.asked[-1] is None for switch in switches.values())
