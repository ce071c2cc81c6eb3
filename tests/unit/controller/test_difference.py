"""A change of state never loses a packet, whatever has reached the switches of it so far."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.difference import Change, stages
from controller.flow_table import FlowTables, SwitchedFabric
from controller.flows import Flow, Tables
from controller.rules import plan_rules
from harmonics_emu.emulate.control import NetworkState
from tests.unit.controller.test_rules import packet_of, states


def tables_of(state: NetworkState) -> dict[int, Tables]:
    return {number: plan.tables for number, plan in plan_rules(state).items()}


@st.composite
def moves(draw: st.DrawFn) -> tuple[NetworkState, NetworkState]:
    """Two states of one fabric."""
    before = draw(states())
    return before, draw(states(fabric=before.fabric))


@settings(max_examples=60, deadline=None)
@given(moves())
def test_stages_lead_from_any_state_to_any_other(move: tuple[NetworkState, NetworkState]) -> None:
    before, after = (tables_of(state) for state in move)
    switches = {number: FlowTables(tables) for number, tables in before.items()}
    for stage in stages(before, after):
        for number, changes in stage.items():
            for change in changes:
                switches[number].apply(change)
    assert {number: switch.tables for number, switch in switches.items()} == after
    assert stages(after, after) == []


@settings(max_examples=60, deadline=None)
@given(moves(), st.data())
def test_no_pair_loses_a_packet_at_any_moment_of_a_change(
    move: tuple[NetworkState, NetworkState], data: st.DataObject
) -> None:
    """After each single change, in any order of the switches within a stage, both states' pairs still arrive."""
    before, after = move
    fabric = before.fabric
    network = SwitchedFabric(fabric, tables_of(before))
    names = {plan.datapath_id: plan.name for plan in plan_rules(before).values()}
    pairs = [(job.index, src, dst) for state in move for job in state.jobs for src in job.hosts for dst in job.hosts]
    kept = data.draw(st.sampled_from(pairs)) if pairs else (0, fabric.hosts[0].name, fabric.hosts[-1].name)
    index, src, dst = kept
    if src == dst:
        return
    for stage in stages(tables_of(before), tables_of(after)):
        pending = [(names[number], change) for number, changes in stage.items() for change in changes]
        for switch, change in data.draw(st.permutations(pending)):
            network.switches[switch].apply(change)
            assert network.send(src, packet_of(fabric, index, src, dst)).host == dst


def test_an_entry_is_replaced_and_not_deleted_first() -> None:
    old = Flow(0, 1, 1, (("in_port", 1),), (("output", 2),))
    new = Flow(0, 1, 2, (("in_port", 1),), (("output", 3),))
    found = stages({1: Tables(frozenset({old}))}, {1: Tables(frozenset({new}))})
    assert found == [{1: [Change("add", new)]}]
