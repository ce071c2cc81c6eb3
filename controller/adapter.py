"""The one module that knows os-ken and Ryu: connections from switches, and OpenFlow 1.3 messages to and from them.

Both frameworks have one code base (os-ken is Ryu's maintained fork), so the same calls serve both; they differ in
the package's name, the base class of an app and in what runs their loops. os-ken uses threads, Ryu eventlet's green
threads: with Ryu, `load` makes threading and socket green, so that the rest of the controller is written for threads.

All changes of a switch travel as one write with a barrier at its end, since the frameworks queue single messages.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

from controller.difference import Change
from controller.flows import Actions, Flow, Group, Match, Tables, matching
from controller.switches import Contents, Count, Listener, SwitchError, Ticket

FrameworkName = Literal["os-ken", "ryu"]
LISTEN_ADDRESS = "127.0.0.1"
ALL_BITS = 2**64 - 1
_HEADER = struct.Struct("!BBHI")
_FLOW_MOD = struct.Struct("!QQBBHHHIIIH2x")
"""What OpenFlow 1.3 has between the header of a flow entry's change and its match."""
_FLOW_STATS = struct.Struct("!HB9xH10xQQQ")
"""What it has before the match of an entry that is read: length, table, priority, cookie, packets, bytes."""
_MATCH = struct.Struct("!2xH")

log = logging.getLogger(__name__)


class FlowEntry:
    """An entry as a switch reports it, match and instructions still encoded.

    In the place of the framework's class, which takes a tenth of a millisecond to decode one: all but new entries have
    been decoded before, and are known by their bytes.
    """

    __slots__ = ("byte_count", "cookie", "instructions", "length", "match", "packet_count", "priority", "table_id")
    length: int
    table_id: int
    priority: int
    cookie: int
    packet_count: int
    byte_count: int
    match: bytes
    instructions: bytes

    @classmethod
    def parser(cls, buffer: bytes, offset: int) -> FlowEntry:
        """The entry at an offset of a message, as the frameworks ask for it."""
        entry = cls()
        fields = _FLOW_STATS.unpack_from(buffer, offset)
        entry.length, entry.table_id, entry.priority, entry.cookie, entry.packet_count, entry.byte_count = fields
        match = offset + _FLOW_STATS.size
        (length,) = _MATCH.unpack_from(buffer, match)
        instructions = match + (length + 7) // 8 * 8
        entry.match = bytes(buffer[match:instructions])
        entry.instructions = bytes(buffer[instructions : offset + entry.length])
        return entry


class OpenFlowSwitch:
    """A connected switch over OpenFlow 1.3: a `switches.Switch`."""

    def __init__(self, datapath: Any) -> None:
        self.datapath_id: int = datapath.id
        self._datapath = datapath
        self._parser = datapath.ofproto_parser
        self._protocol = datapath.ofproto
        self._lock = threading.Lock()
        self._tickets: dict[int, Ticket] = {}
        self._changes: dict[int, tuple[Ticket, Change]] = {}
        self._closed = False
        self._matches: dict[Match, bytes] = {}
        self._encoded_actions: dict[Actions, bytes] = {}
        self._known_matches: dict[bytes, Match] = {}
        self._known_actions: dict[bytes, Actions] = {}

    def submit(self, changes: Sequence[Change]) -> Ticket:
        ticket = Ticket(self.datapath_id)
        sent: dict[int, tuple[Ticket, Change]] = {}
        messages = bytearray()
        for change in changes:
            xid, encoded = self._encode_change(change)
            sent[xid] = (ticket, change)
            messages += encoded
        return self._send(ticket, messages, self._parser.OFPBarrierRequest(self._datapath), sent)

    def request_contents(self, table: int | None = None) -> Ticket:
        protocol, parser = self._protocol, self._parser
        asked = protocol.OFPTT_ALL if table is None else table
        flows = parser.OFPFlowStatsRequest(
            self._datapath, 0, asked, protocol.OFPP_ANY, protocol.OFPG_ANY, 0, 0, parser.OFPMatch()
        )
        groups = parser.OFPGroupDescStatsRequest(self._datapath, 0)
        ticket = Ticket(self.datapath_id)
        xid, encoded = self._encode(flows)
        with self._lock:
            self._tickets[xid] = ticket
        return self._send(ticket, bytearray(encoded), groups, {})

    def contents(self, ticket: Ticket) -> Contents:
        counts = {self._decode_flow(entry): Count(entry.packet_count, entry.byte_count) for entry in ticket.flows}
        groups = frozenset(
            Group(entry.group_id, tuple(bucket.actions[0].port for bucket in entry.buckets)) for entry in ticket.groups
        )
        return Contents(Tables(frozenset(counts), groups), counts)

    def answered_flows(self, message: Any) -> None:
        """Part of the answer to a request for entries."""
        with self._lock:
            ticket = self._tickets.get(message.xid)
            if ticket is not None:
                ticket.flows += message.body
                if not message.flags & self._protocol.OFPMPF_REPLY_MORE:
                    del self._tickets[message.xid]

    def answered_last(self, message: Any) -> None:
        """The answer to the last message of a batch: a barrier, or the request for groups (in one or more parts)."""
        with self._lock:
            ticket = self._tickets.get(message.xid)
            if ticket is None:
                return
            if hasattr(message, "body"):
                ticket.groups += message.body
                if message.flags & self._protocol.OFPMPF_REPLY_MORE:
                    return
            del self._tickets[message.xid]
            for xid in [xid for xid, (owner, _) in self._changes.items() if owner is ticket]:
                del self._changes[xid]
        ticket.finish()

    def refused(self, message: Any) -> None:
        """The switch answered a message with an error."""
        kind = self._protocol.ofp_error_type_to_str(message.type)
        code = self._protocol.ofp_error_code_to_str(message.type, message.code)
        reason = f"the switch answered {kind.split('(')[0]}: {code.split('(')[0]}"
        with self._lock:
            ticket, change = self._changes.get(message.xid, (None, None))
            if ticket is not None and change is not None:
                ticket.errors[change] = reason
        log.warning("datapath %d: %s to %s", self.datapath_id, reason, change or f"message {message.xid}")

    def lost(self) -> None:
        """The connection has gone: nobody need wait for it any more."""
        with self._lock:
            self._closed = True
            waiting = list(self._tickets.values())
            self._tickets.clear()
            self._changes.clear()
        for ticket in waiting:
            ticket.finish(lost=True)

    def _send(
        self, ticket: Ticket, messages: bytearray, last: Any, changes: dict[int, tuple[Ticket, Change]]
    ) -> Ticket:
        xid, encoded = self._encode(last)
        with self._lock:
            closed = self._closed
            if not closed:
                self._tickets[xid] = ticket
                self._changes.update(changes)
        if closed or not self._datapath.send(bytes(messages + encoded)):
            ticket.finish(lost=True)
        return ticket

    def _encode(self, message: Any) -> tuple[int, bytes]:
        self._datapath.set_xid(message)
        message.serialize()
        return message.xid, bytes(message.buf)

    def _encode_change(self, change: Change) -> tuple[int, bytes]:
        if isinstance(change.item, Group):
            return self._encode(self._group_message(change.operation, change.item))
        return self._encode_flow(change.operation, change.item)

    def _encode_flow(self, operation: str, flow: Flow) -> tuple[int, bytes]:
        """A flow entry's change, encoded. By hand, from parts that the framework encoded before: hundreds of entries
        change at once, most of them in nothing but their mark, and the framework takes half a millisecond for each.
        """
        protocol = self._protocol
        add = operation == "add"
        match = self._encoded_match(flow.match)
        instructions = self._encoded_instructions(flow.actions) if add else b""
        body = _FLOW_MOD.pack(
            flow.cookie,
            0 if add else ALL_BITS,
            flow.table,
            protocol.OFPFC_ADD if add else protocol.OFPFC_DELETE_STRICT,
            0,
            0,
            flow.priority,
            protocol.OFP_NO_BUFFER,
            protocol.OFPP_ANY,
            protocol.OFPG_ANY,
            # Counters begin at zero even where the entry takes another one's place: they say what this rule did.
            protocol.OFPFF_RESET_COUNTS if add else 0,
        )
        message = self._parser.OFPFlowMod(self._datapath)
        self._datapath.set_xid(message)
        length = _HEADER.size + len(body) + len(match) + len(instructions)
        header = _HEADER.pack(protocol.OFP_VERSION, protocol.OFPT_FLOW_MOD, length, message.xid)
        return message.xid, header + body + match + instructions

    def _encoded_match(self, match: Match) -> bytes:
        if match not in self._matches:
            buffer = bytearray()
            self._parser.OFPMatch(**{field: _match_argument(value) for field, value in match}).serialize(buffer, 0)
            self._matches[match] = bytes(buffer)
        return self._matches[match]

    def _encoded_instructions(self, actions: Actions) -> bytes:
        if actions not in self._encoded_actions:
            buffer = bytearray()
            for instruction in self._instructions(actions):
                instruction.serialize(buffer, len(buffer))
            self._encoded_actions[actions] = bytes(buffer)
        return self._encoded_actions[actions]

    def _group_message(self, operation: str, group: Group) -> Any:
        protocol, parser = self._protocol, self._parser
        command = protocol.OFPGC_ADD if operation == "add" else protocol.OFPGC_DELETE
        ports = group.ports if operation == "add" else ()
        buckets = [
            parser.OFPBucket(1, protocol.OFPP_ANY, protocol.OFPG_ANY, [parser.OFPActionOutput(port)]) for port in ports
        ]
        return parser.OFPGroupMod(self._datapath, command, protocol.OFPGT_SELECT, group.number, buckets)

    def _instructions(self, actions: Actions) -> list[Any]:
        parser = self._parser
        makers: dict[str, Callable[[Any], Any]] = {
            "set_dscp": lambda code_point: parser.OFPActionSetField(ip_dscp=code_point),
            "set_eth_dst": lambda address: parser.OFPActionSetField(eth_dst=address),
            "output": parser.OFPActionOutput,
            "group": parser.OFPActionGroup,
        }
        applied = [makers[name](argument) for name, argument in actions if name != "goto"]
        instructions = []
        if applied:
            instructions.append(parser.OFPInstructionActions(self._protocol.OFPIT_APPLY_ACTIONS, applied))
        instructions += [parser.OFPInstructionGotoTable(table) for name, table in actions if name == "goto"]
        return instructions

    def _decode_flow(self, entry: FlowEntry) -> Flow:
        if entry.match not in self._known_matches:
            self._known_matches[entry.match] = _decode_match(self._parser.OFPMatch.parser(entry.match, 0))
        if entry.instructions not in self._known_actions:
            self._known_actions[entry.instructions] = self._decode_instructions(entry.instructions)
        match, actions = self._known_matches[entry.match], self._known_actions[entry.instructions]
        return Flow(entry.table_id, entry.priority, entry.cookie, match, actions)

    def _decode_instructions(self, encoded: bytes) -> Actions:
        actions: list[tuple[str, int | str]] = []
        offset = 0
        while offset < len(encoded):
            instruction = self._parser.OFPInstruction.parser(encoded, offset)
            offset += instruction.len
            if instruction.type == self._protocol.OFPIT_GOTO_TABLE:
                actions.append(("goto", instruction.table_id))
            else:
                actions += [self._decode_action(action) for action in instruction.actions]
        return tuple(actions)

    def _decode_action(self, action: Any) -> tuple[str, int | str]:
        if action.type == self._protocol.OFPAT_OUTPUT:
            return ("output", action.port)
        if action.type == self._protocol.OFPAT_GROUP:
            return ("group", action.group_id)
        if action.type == self._protocol.OFPAT_SET_FIELD:
            return (f"set_{action.key.removeprefix('ip_')}", action.value)
        return (type(action).__name__, action.type)


def _match_argument(value: int | str) -> Any:
    """A match value as the frameworks take it: a masked address is a pair."""
    if isinstance(value, str) and "/" in value:
        return tuple(value.split("/"))
    return value


def _decode_match(match: Any) -> Match:
    return matching(**{field: "/".join(value) if isinstance(value, tuple) else value for field, value in match.items()})


class Framework:
    """os-ken or Ryu, loaded. `start` begins to serve switches and returns."""

    def __init__(self, name: FrameworkName) -> None:
        """Load the framework: before any lock or socket is made, since Ryu needs green ones. SwitchError if it is
        not installed."""
        self.name = name
        self._package = {"os-ken": "os_ken", "ryu": "ryu"}[name]
        try:
            if name == "ryu":
                _prepare_eventlet()
            self._hub = self._module("lib.hub")
            self._app_manager = self._module("base.app_manager")
            self._events = self._module("controller.ofp_event")
            self._handler = self._module("controller.handler")
            self._protocol = self._module("ofproto.ofproto_v1_3")
        except ModuleNotFoundError as error:
            hint = "scripts/install-ryu" if name == "ryu" else "pip install harmonics-emu[emulate]"
            raise SwitchError(f"{name} can't be loaded ({error}): {hint}") from None
        self._module("controller.ofp_handler")
        self._module("ofproto.ofproto_v1_3_parser").OFPFlowStatsReply.cls_stats_body_cls = FlowEntry
        if name == "os-ken":
            # Its native hub calls every Exception a wish to end: one in a handler would end all handling, unlogged.
            self._hub.TaskExit = type("TaskExit", (BaseException,), {})
            _notice_hang_ups(self._module("controller.controller").Datapath)

    def start(self, openflow_port: int, listener: Listener) -> None:
        """Listen for switches on the loopback. SwitchError if the port is taken."""
        _check_port(openflow_port)
        # Options exist only once the modules above are imported. No configuration file of the machine has a say.
        configuration = self._module("cfg").CONF
        configuration(args=[], project="harmonics-emu", default_config_files=[], default_config_dirs=[])
        configuration.set_override("ofp_listen_host", LISTEN_ADDRESS)
        configuration.set_override("ofp_tcp_listen_port", openflow_port)
        manager = self._app_manager.AppManager.get_instance()
        manager.load_apps([f"{self._package}.controller.ofp_handler"])
        manager.instantiate(self._app(), listener)
        manager.instantiate_apps()
        log.info("%s serves switches at %s:%d", self.name, LISTEN_ADDRESS, openflow_port)

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"{self._package}.{name}")

    def _app(self) -> type:
        """The app that hands the framework's events on. Its handlers run one at a time, in the app's own loop."""
        events, handler = self._events, self._handler
        base = self._app_manager.OSKenApp if self.name == "os-ken" else self._app_manager.RyuApp
        observe, main, dead = handler.set_ev_cls, handler.MAIN_DISPATCHER, handler.DEAD_DISPATCHER

        class Switches(base):  # type: ignore[misc, valid-type]
            OFP_VERSIONS = [self._protocol.OFP_VERSION]  # noqa: RUF012

            def __init__(self, listener: Listener) -> None:
                super().__init__()
                self.listener = listener
                self.switches: dict[Any, OpenFlowSwitch] = {}

            @observe(events.EventOFPStateChange, [main, dead])
            def state_changed(self, event: Any) -> None:
                if event.state == main:
                    switch = self.switches[event.datapath] = OpenFlowSwitch(event.datapath)
                    self.listener.connected(switch)
                elif event.datapath in self.switches:
                    switch = self.switches.pop(event.datapath)
                    switch.lost()
                    self.listener.disconnected(switch)

            @observe(events.EventOFPFlowStatsReply, main)
            def flows_answered(self, event: Any) -> None:
                self._switch(event).answered_flows(event.msg)

            @observe([events.EventOFPBarrierReply, events.EventOFPGroupDescStatsReply], main)
            def last_answered(self, event: Any) -> None:
                self._switch(event).answered_last(event.msg)

            @observe(events.EventOFPErrorMsg, main)
            def refused(self, event: Any) -> None:
                self._switch(event).refused(event.msg)

            def _switch(self, event: Any) -> OpenFlowSwitch:
                return self.switches[event.msg.datapath]

        return Switches


def _prepare_eventlet() -> None:
    """Make threads and sockets green, and give Ryu the name that it imports and eventlet has dropped."""
    eventlet = importlib.import_module("eventlet")
    eventlet.monkey_patch()
    wsgi: Any = importlib.import_module("eventlet.wsgi")
    if not hasattr(wsgi, "ALREADY_HANDLED"):
        wsgi.ALREADY_HANDLED = object()


def _notice_hang_ups(datapath: Any) -> None:
    """Make os-ken's connections notice their end.

    Native threads can't be killed, so when a switch hangs up, os-ken waits for its sending thread, which waits for
    something to send: the connection would stay 'up' for ever. Declare it dead and wake that thread. (The class calls
    itself by its module's name, so it can be mended but not replaced by a subclass.)
    """
    receive = datapath._recv_loop

    def receive_until_dead(self: Any) -> None:
        try:
            receive(self)
        finally:
            self.close()
            self.send(b"", close_socket=True)

    datapath._recv_loop = receive_until_dead


def _check_port(port: int) -> None:
    """The frameworks bind in a thread of theirs, where a failure would only show in the log."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LISTEN_ADDRESS, port))
        except OSError as error:
            raise SwitchError(f"can't listen for switches at {LISTEN_ADDRESS}:{port}: {error.strerror}") from None
