"""Keeps every switch at the rules of the current state: installs, reads back, compares, and again on a reconnect."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from controller.difference import Change, stages
from controller.flows import Actions, Flow, Group, Tables
from controller.rules import Rule, SwitchPlan, plan_rules
from controller.switches import Contents, Count, Switch, SwitchError, Ticket
from harmonics_emu.emulate.control import NetworkState, RuleCount, RuleReport

RESYNCHRONISATION_S = 10.0
"""How long a reconnected switch has to take its rules."""

log = logging.getLogger(__name__)


class ControllerService:
    """The state that is wanted, the switches that are connected, and the work of bringing one to the other.

    Requests and reconnections are carried out one at a time. `connected` and `disconnected` are for the framework.
    """

    def __init__(self) -> None:
        self._work = threading.Lock()
        self._changed = threading.Condition()
        self._switches: dict[int, Switch] = {}
        self._plans: dict[int, SwitchPlan] = {}
        # What switches held when they were last read, and were as wanted. Nobody else changes them, so it still holds,
        # unless they connect anew.
        self._held: dict[int, tuple[Switch, Contents]] = {}
        self._reconnected: queue.Queue[Switch] = queue.Queue()
        threading.Thread(target=self._resynchronise, name="resynchronise", daemon=True).start()

    def connected(self, switch: Switch) -> None:
        with self._changed:
            self._switches[switch.datapath_id] = switch
            self._changed.notify_all()
        log.info("datapath %d connected", switch.datapath_id)
        self._reconnected.put(switch)

    def disconnected(self, switch: Switch) -> None:
        with self._changed:
            if self._switches.get(switch.datapath_id) is switch:
                del self._switches[switch.datapath_id]
                self._changed.notify_all()
        log.info("datapath %d disconnected", switch.datapath_id)

    def wait_connected(self, at_least: int, deadline: float) -> tuple[int, ...]:
        """Ids of the connected switches, once there are `at_least` so many or `deadline` has passed."""
        with self._changed:
            patience = max(0.0, deadline - time.monotonic())
            self._changed.wait_for(lambda: len(self._switches) >= at_least, patience)
            return tuple(sorted(self._switches))

    def install(self, state: NetworkState, deadline: float) -> list[RuleReport]:
        """Bring all switches to the rules of `state` and report each as read back, now or when it was changed last.

        InvalidState if the state can't be, SwitchError if a switch is missing: then the rules stay as they are.
        SwitchError if a switch falls silent: then the new state is what it gets when it connects again.
        """
        plans = plan_rules(state)
        with self._turn(deadline):
            switches = self._all_switches(plans)
            self._plans = plans
            if self._is_known_to_hold(plans, switches):
                # Who asks for what should be there already wants to know whether it is.
                self._held.clear()
            before = self._known(switches)
            refusals, changed = self._bring(switches, plans, deadline)
            after = {**before, **_read_back(switches, before, changed, deadline)}
            self._held = {
                number: (switches[number], contents)
                for number, contents in after.items()
                if contents.tables == plans[number].tables
            }
            return _reports(plans, after, refusals)

    def counters(self, deadline: float) -> list[RuleCount]:
        """What each wanted rule has counted; 0 where the switch does not hold it."""
        with self._turn(deadline):
            held = _read(self._all_switches(self._plans), deadline)
        return [
            RuleCount(
                rule.flow.cookie, rule.switch, rule.purpose, rule.job, rule.src, rule.dst, taken.packets, taken.bytes
            )
            for rule, taken in _counted(self._plans, held)
        ]

    @contextmanager
    def _turn(self, deadline: float) -> Iterator[None]:
        """Hold the work lock. SwitchError if whoever holds it now does not end before `deadline`."""
        if not self._work.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise SwitchError("the controller is still busy with other switches; ask again")
        try:
            yield
        finally:
            self._work.release()

    def _all_switches(self, plans: Mapping[int, SwitchPlan]) -> dict[int, Switch]:
        with self._changed:
            missing = [plan.name for datapath_id, plan in plans.items() if datapath_id not in self._switches]
            if missing:
                raise SwitchError(f"not connected: {', '.join(missing)} ({len(missing)} of {len(plans)} switches)")
            return {datapath_id: self._switches[datapath_id] for datapath_id in plans}

    def _is_known_to_hold(self, plans: Mapping[int, SwitchPlan], switches: Mapping[int, Switch]) -> bool:
        known = self._known(switches)
        return all(number in known and known[number].tables == plan.tables for number, plan in plans.items())

    def _known(self, switches: Mapping[int, Switch]) -> dict[int, Contents]:
        """What is known, without asking, of those switches whose connection is the one that they were read over."""
        return {number: held for number, (read, held) in self._held.items() if switches.get(number) is read}

    def _bring(
        self, switches: Mapping[int, Switch], plans: Mapping[int, SwitchPlan], deadline: float
    ) -> tuple[dict[int, dict[Change, str]], dict[int, set[int | None]]]:
        """Carry out what is needed, stage by stage.

        What the switches refused, and what must be read back: of switches that were changed, the tables in question
        (None: groups), of those that were not known, none in particular.
        """
        known = self._known(switches)
        unknown = {number: switch for number, switch in switches.items() if number not in known}
        wanted = {datapath_id: plan.tables for datapath_id, plan in plans.items()}
        held = {number: contents.tables for number, contents in {**known, **_read(unknown, deadline)}.items()}
        refusals: dict[int, dict[Change, str]] = {datapath_id: {} for datapath_id in plans}
        changed: dict[int, set[int | None]] = {number: {None} for number in unknown}
        for stage in stages(held, wanted):
            tickets = {datapath_id: switches[datapath_id].submit(changes) for datapath_id, changes in stage.items()}
            for datapath_id, ticket in tickets.items():
                tables = (change.item.table if isinstance(change.item, Flow) else None for change in stage[datapath_id])
                changed.setdefault(datapath_id, set()).update(tables)
                self._held.pop(datapath_id, None)
                ticket.wait(deadline)
                refusals[datapath_id].update(ticket.errors)
        return refusals, changed

    def _resynchronise(self) -> None:
        """Give each switch that connects what is wanted of it, unasked: Open vSwitch starts with empty tables."""
        while True:
            switch = self._reconnected.get()
            try:
                with self._work:
                    plan = self._plans.get(switch.datapath_id)
                    if plan is None:
                        continue
                    self._bring_one(switch, plan)
            except SwitchError as error:
                log.warning("%s: its rules wait for its next connection", error)
            except Exception:
                log.exception("datapath %d could not be given its rules", switch.datapath_id)

    def _bring_one(self, switch: Switch, plan: SwitchPlan) -> None:
        began, datapath_id = time.monotonic(), switch.datapath_id
        deadline = began + RESYNCHRONISATION_S
        refusals, _ = self._bring({datapath_id: switch}, {datapath_id: plan}, deadline)
        reports = _reports({datapath_id: plan}, _read({datapath_id: switch}, deadline), refusals)
        for report in reports:
            if report.error is not None:
                log.error("after reconnection: %s", report.describe())
        log.info("%s has its %d rules after %.3f s", plan.name, len(reports), time.monotonic() - began)


def _read(switches: Mapping[int, Switch], deadline: float) -> dict[int, Contents]:
    """What the switches hold, asked side by side."""
    tickets: dict[int, Ticket] = {number: switch.request_contents() for number, switch in switches.items()}
    for ticket in tickets.values():
        ticket.wait(deadline)
    return {number: switches[number].contents(ticket) for number, ticket in tickets.items()}


def _read_back(
    switches: Mapping[int, Switch],
    before: Mapping[int, Contents],
    changed: Mapping[int, set[int | None]],
    deadline: float,
) -> dict[int, Contents]:
    """What changed switches hold now. Of those that changed in one table only, no other is asked for."""
    partly = {number: next(iter(tables)) for number, tables in changed.items() if number in before and len(tables) == 1}
    only = {number: table for number, table in partly.items() if table is not None}
    whole = {number: switches[number] for number in changed if number not in only}
    tickets = {number: switches[number].request_contents(table) for number, table in only.items()}
    found = _read(whole, deadline)
    for number, ticket in tickets.items():
        ticket.wait(deadline)
        read, known, table = switches[number].contents(ticket), before[number], only[number]
        kept = {flow: count for flow, count in known.counts.items() if flow.table != table}
        flows = {flow: count for flow, count in read.counts.items() if flow.table == table}
        found[number] = Contents(Tables(frozenset({**kept, **flows}), read.tables.groups), {**kept, **flows})
    return found


def _counted(plans: Mapping[int, SwitchPlan], held: Mapping[int, Contents]) -> Iterator[tuple[Rule, Count]]:
    for datapath_id, plan in plans.items():
        counts = held[datapath_id].counts
        for rule in plan.rules:
            yield rule, counts.get(rule.flow, Count())


def _reports(
    plans: Mapping[int, SwitchPlan],
    held: Mapping[int, Contents],
    refusals: Mapping[int, Mapping[Change, str]],
) -> list[RuleReport]:
    """Each wanted rule as read back; then, with an error, each entry that a switch holds unasked."""
    reports = []
    left = {number: {flow.key: flow for flow in contents.tables.flows} for number, contents in held.items()}
    for rule, taken in _counted(plans, held):
        number = rule.datapath_id
        found = left[number].pop(rule.flow.key, None)
        error = _error(rule.flow, found, plans[number].groups - held[number].tables.groups)
        if error is not None:
            error += _refusal(rule.flow, refusals[number])
        reports.append(_report(rule, error, taken))
    for number, flows in left.items():
        for flow in flows.values():
            rule = Rule(plans[number].name, number, flow, "unknown")
            reports.append(_report(rule, "the switch holds it unasked", held[number].counts[flow]))
    return reports


def _error(wanted: Flow, found: Flow | None, missing_groups: Iterable[Group]) -> str | None:
    """How what the switch holds differs from what it shall hold, None if it doesn't."""
    if found is None:
        return "the switch does not hold it"
    if found.actions != wanted.actions:
        return f"it does {_text(found.actions)} instead of {_text(wanted.actions)}"
    if found.cookie != wanted.cookie:
        return f"its cookie is {found.cookie:#x} instead of {wanted.cookie:#x}"
    for group in missing_groups:
        if ("group", group.number) in wanted.actions:
            return f"its group {group.number} over ports {group.ports} is not as wanted"
    return None


def _refusal(flow: Flow, refusals: Mapping[Change, str]) -> str:
    """What the switch answered to the change that should have brought the entry or its group."""
    for change, reason in refusals.items():
        item = change.item
        if item == flow or (isinstance(item, Group) and ("group", item.number) in flow.actions):
            return f" ({reason})"
    return ""


def _text(actions: Actions) -> str:
    return ", ".join(f"{name} {argument}" for name, argument in actions) or "drop"


def _report(rule: Rule, error: str | None, taken: Count) -> RuleReport:
    flow = rule.flow
    return RuleReport(
        switch=rule.switch,
        datapath_id=rule.datapath_id,
        table=flow.table,
        priority=flow.priority,
        cookie=flow.cookie,
        match=dict(flow.match),
        actions=flow.actions,
        purpose=rule.purpose,
        job=rule.job,
        src=rule.src,
        dst=rule.dst,
        error=error,
        packets=taken.packets,
        bytes=taken.bytes,
    )
