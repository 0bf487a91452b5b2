"""One client's connection: the packets that need thought. What is per message happens in the lane, in C.

A connection is a small state machine: it awaits CONNECT, perhaps authenticates, is open, and is closed. Which
packet may come in which state is the table HANDLERS; anything else is a protocol error and isn't looked into.
It asks its `Shell` for what only a transport can do, and never waits; while others take time it is parked.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Protocol

from braidmq.access.verdicts import Visitor
from braidmq.broker.admission import NO_LONGER, Admission
from braidmq.broker.events import ConnectRefused
from braidmq.broker.lane import Lane
from braidmq.broker.outlet import Outlet
from braidmq.broker.pauses import PARKED, Pause
from braidmq.broker.sharing.status_reports import REPORTS_PER_S_MAX
from braidmq.broker.subscribing import subscribe, unsubscribe
from braidmq.errors import ProtocolError
from braidmq.timing.bucket import Bucket
from braidmq.timing.timers import Timer
from braidmq.wire import (
    NO_PROPERTIES,
    V5,
    Acknowledgement,
    Auth,
    Connack,
    Connect,
    Disconnect,
    PacketType,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Pubrec,
    Pubrel,
    ReasonCode,
    connect_answer_version,
    decode,
    nearest_fault,
    unexpected,
)
from braidmq.wire.pingreq import STATUS_BY_PING, decode_pingreq_body

if TYPE_CHECKING:
    from braidmq.broker.broker import Broker

KEEP_ALIVE_GRACE: Final = 1.5  # [MQTT-3.1.2-22]


class Shell(Protocol):
    """What a connection asks of its transport. One that saw a certificate has a `certified_user`."""

    def close(self) -> None:
        """Write what is in the output, then close."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def defer(self, action: Callable[[], None]) -> None:
        """Call `action` in the next turn."""


class State(Enum):
    AWAITS_CONNECT = auto()
    AUTHENTICATES = auto()
    OPEN = auto()
    CLOSED = auto()


class Connection(Lane):
    """The broker's end of one network connection."""

    def __init__(self, hub: Any, publishing: Any, broker: "Broker", shell: Shell, peer: str) -> None:
        super().__init__(hub, publishing)
        self.broker = broker
        self.shell: Shell = shell
        self.peer = peer
        self.admission = Admission(self, Visitor(peer, getattr(shell, "certified_user", None)))
        self.state = State.AWAITS_CONNECT
        self.user: str | None = None
        self.keep_alive_s = 0
        self._wants_reasons = True
        self._pings_with_status = False
        self._status_pace: Bucket | None = None
        self._pauses: set[Pause] = set()
        self._unfinished: Iterator[None] | None = None  # what is left of a packet that makes much work
        self._is_read = True  # the shell reads, as far as we have told it
        self._timer: Timer | None = broker.timers.set(
            hub.now + hub.limits.connect_timeout_s, self._connect_timed_out
        )

    # ---- packets -------------------------------------------------------------------------------------

    def handle(self, first: int, body: bytes) -> None:
        kind = first >> 4
        if self.state is State.AWAITS_CONNECT:
            self._first_packet(first, body)
            return
        if kind == PacketType.PINGREQ and body and self._pings_with_status:
            self._ping_with_status(body)
            return
        handler = HANDLERS[self.state].get(kind)
        if handler is None:
            raise unexpected(kind)
        steps = handler(self, decode(first, body, self.version, self.broker.caps))
        if steps is not None:
            self._work_off(steps)

    def _work_off(self, steps: Iterator[None]) -> None:
        """Take the steps of a long piece of work; what is left when the time is up is done in later turns."""
        for _ in steps:
            if self.is_overtime():
                self._unfinished = steps
                self.is_parked = True  # what came behind waits
                return

    def _first_packet(self, first: int, body: bytes) -> None:
        if first >> 4 != PacketType.CONNECT:
            self.close("the first packet is no CONNECT")  # [MQTT-3.1.0-1]
            return
        # A CONNECT that can't be read is still answered in its own version, if that much can be read.
        self.speak(connect_answer_version(body))
        self.state = State.AUTHENTICATES
        packet = decode(first, body, self.version, self.broker.caps)
        assert isinstance(packet, Connect)
        self.client_id = packet.client_id or None
        self._speak_as_told(packet)
        self.admission.begin(packet)

    def _speak_as_told(self, packet: Connect) -> None:
        properties = packet.properties
        self._wants_reasons = properties.request_problem_information is not False
        alias_max = min(properties.topic_alias_maximum or 0, self.hub.limits.topic_alias_outbound_max)
        if properties.maximum_packet_size_bytes is None:
            self.speak(packet.version, alias_max=alias_max)
        else:
            self.speak(packet.version, properties.maximum_packet_size_bytes, alias_max)

    def _authenticate(self, packet: Auth) -> None:
        self.admission.authenticate(packet)

    def _acknowledge(self, packet: Acknowledgement) -> None:
        self.settle(FIRST_BYTES[type(packet)], packet.packet_id, packet.reason)

    def _ping(self, packet: Pingreq) -> None:
        self.send(Pingresp())

    def expect_status(self, way: str | None) -> None:
        """How the client will report its status, as agreed in CONNECT and CONNACK."""
        self._pings_with_status = way == STATUS_BY_PING

    def _ping_with_status(self, body: bytes) -> None:
        pingreq = decode_pingreq_body(body)
        if pingreq.payload:
            self.take_status(pingreq.payload)
        self.send(Pingresp())

    def take_status(self, payload: bytes) -> None:
        """The client has reported its status."""
        if self._status_pace is None:
            self._status_pace = Bucket(REPORTS_PER_S_MAX, self.hub.now)
        self.broker.status_reports.take(self.session, payload, self._status_pace)

    def _disconnect(self, packet: Disconnect) -> None:
        expiry_s = packet.properties.session_expiry_s
        if expiry_s is not None:
            if self.session.expiry_s == 0 and expiry_s != 0:  # [MQTT-3.14.2-2]
                raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "this session can't be made to last")
            self.broker.change_expiry(self.session, expiry_s)
        if packet.reason == ReasonCode.NORMAL_DISCONNECTION:
            self.broker.wills.put(self.session, None)  # [MQTT-3.14.4-3]
        self.close("the client has said goodbye")

    # ---- getting in ----------------------------------------------------------------------------------

    def opened(self) -> None:
        """The client is in: it has a session, and its CONNACK is on its way."""
        self.state = State.OPEN
        self.is_open = True
        self.input_bytes_max = self.hub.limits.packet_bytes_max
        if self.broker.gate.checks_topics:
            self.rights = {}

    def check_admission(self) -> None:
        """The gate is another one: whom it would not let in does not stay."""
        if self.state is State.OPEN and not self.admission.still_holds():
            self.end(ReasonCode.NOT_AUTHORIZED, NO_LONGER)

    def keep_alive(self, interval_s: int) -> None:
        """Close when nothing is heard of the client for one and a half intervals; 0 = never."""
        self.keep_alive_s = interval_s
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if interval_s:
            self._watch()

    def _watch(self) -> None:
        if self._pauses - {Pause.UNREAD_ANSWERS}:  # that one is the client's own doing
            self.received_at_s = self.hub.now  # nothing was heard because nobody listened
        due_s = self.received_at_s + self.keep_alive_s * KEEP_ALIVE_GRACE
        if due_s > self.hub.now:
            self._timer = self.broker.timers.set(due_s, self._watch)
        else:
            self.end(ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing heard for one and a half times the keep alive")

    def _connect_timed_out(self) -> None:
        if Pause.CLAIM in self._pauses:
            self.end(ReasonCode.SERVER_UNAVAILABLE, "the session could not be claimed in time")
        else:
            self.close("no CONNECT in time")

    # ---- the end -------------------------------------------------------------------------------------

    def fail(self, error: ProtocolError) -> None:
        """The client has broken the protocol, or can't have what it wants."""
        self.end(error.reason, error.detail, error.server_reference)

    def end(self, reason: int, detail: str, server_reference: str = "") -> None:
        """Tell the client why, as far as its protocol version can, and close, whatever comes of telling.

        `server_reference` is where it should go instead.
        """
        detail = shortened(detail)
        try:
            if self.state is State.OPEN:
                self._say_goodbye(reason, detail, server_reference)
            elif self.state is State.AUTHENTICATES:
                self._refuse_connect(reason, detail, server_reference)
        finally:
            self.close(detail)

    def _say_goodbye(self, reason: int, detail: str, server_reference: str) -> None:
        if self.version == V5 and self.fits(DISCONNECT_BYTES):  # [MQTT-3.14.0-1] only after CONNACK
            reason = nearest_fault(reason, PacketType.DISCONNECT)
            self.send(Disconnect(reason, self._explained(detail, server_reference)))

    def _refuse_connect(self, reason: int, detail: str, server_reference: str) -> None:
        if self.hub.watching.audience is not None:
            refused = ConnectRefused(client_id=self.client_id, peer=self.peer, reason=reason, why=detail)
            self.hub.watching.audience.tell(refused)
        # MQTT 3 has words for few refusals; a malformed CONNECT is answered by closing [MQTT-3.1.4-1].
        if self.version == V5:
            if self.fits(CONNACK_BYTES):
                reason = nearest_fault(reason, PacketType.CONNACK)
                self.send(Connack(False, reason, self._explained(detail, server_reference)))
        elif reason not in (ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR):
            reason = nearest_fault(reason, PacketType.CONNACK)
            self.send(Connack(False, reason))  # [MQTT-3.2.2-6] session present is 0

    def _explained(self, detail: str, server_reference: str) -> Properties:
        """Where to go instead, and why, in words, if the client wants to read that; as far as it fits."""
        size_bytes = REASON_STRING_OVERHEAD_BYTES + len(server_reference.encode())
        if not self.fits(size_bytes):
            return NO_PROPERTIES
        is_told_why = self._wants_reasons and self.fits(size_bytes + len(detail.encode()))
        return Properties(
            reason_string=detail if is_told_why else None, server_reference=server_reference or None
        )

    def close(self, why: str) -> None:
        """End the connection from this side."""
        if self.state is State.CLOSED:
            return
        self.lost(why)
        self.shell.close()

    def lost(self, why: str) -> None:
        """The connection is over, whoever ended it."""
        if self.state is State.CLOSED:
            return
        was_open = self.state is State.OPEN
        self.state = State.CLOSED
        self.is_open = False
        self.is_finished = True
        if self._timer is not None:
            self._timer.cancel()
        self.admission.over()
        self._unfinished = None
        self.drained()
        self.broker.closed(self, why, was_open=was_open)
        self.shell.defer(self.forget)  # not now: it may be at work on what it has read

    # ---- back-pressure -------------------------------------------------------------------------------

    def wait_for(self, outlet: Outlet) -> None:
        """Stop reading until `outlet`, which this connection fills, has drained or is given up."""
        if self.state is not State.OPEN:
            return
        self.broker.watch_congestion(outlet)
        if Pause.FULL_SUBSCRIBER not in self._pauses:  # one at a time: others are met when they are fed again
            outlet.add_waiting(self)
            self._pause(Pause.FULL_SUBSCRIBER)

    def feed_on(self) -> None:
        """Somebody whose output was full has drained."""
        self._resume(Pause.FULL_SUBSCRIBER)

    def throttle(self) -> None:
        """The client does not read our answers: take no more from it until it does."""
        if self.state is not State.CLOSED:
            self.is_throttled = True
            self._pause(Pause.UNREAD_ANSWERS)

    def park(self, reason: Pause) -> None:
        """Leave what was read already, and read no more, until `unpark` or `_go_on`."""
        self.is_parked = True
        self._pause(reason)

    def is_parked_for(self, reason: Pause) -> bool:
        return reason in self._pauses

    def unpark(self, reason: Pause, then: Callable[[], None]) -> None:
        """What was waited for has come: do what is to be done then, and go on."""
        self._pauses.discard(reason)
        if self.state is State.CLOSED:
            return
        try:
            then()
        except ProtocolError as error:
            self.fail(error)
        else:
            self._go_on()

    def take_a_rest(self) -> None:
        """The client has made much work: the others come first, the rest of its input in the next turn."""
        if self.state is not State.CLOSED and self._pauses.isdisjoint(PARKED):
            self._pause(Pause.REST)
            self.hub.resting += 1
            self.shell.defer(self._rested)

    def _rested(self) -> None:
        self.hub.resting -= 1
        self._pauses.discard(Pause.REST)
        self._go_on()

    def await_answers(self) -> None:
        """As many answers wait for the store as may: take no more until some have left."""
        self.park(Pause.STORE)

    def answers_left(self) -> None:
        self.shell.defer(self._answered)

    def _answered(self) -> None:
        self._pauses.discard(Pause.STORE)
        self._go_on()

    def _go_on(self) -> None:
        """Look at what was read while the connection was parked, unless it is parked for more."""
        if self.state is State.CLOSED or not self._pauses.isdisjoint(PARKED):
            return
        self.work_on()
        try:
            steps, self._unfinished = self._unfinished, None
            self.is_parked = False
            self._work_off(steps or iter(()))
        except ProtocolError as error:
            self.fail(error)
        if self.is_parked:
            self.take_a_rest()
        else:
            self.go_on(self.hub.now)
            self._read_on()

    def _pause(self, reason: Pause) -> None:
        self._pauses.add(reason)
        if self._is_read:
            self._is_read = False
            self.shell.pause_reading()

    def _resume(self, reason: Pause) -> None:
        self._pauses.discard(reason)
        self._read_on()

    def _read_on(self) -> None:
        if not self._pauses and not self._is_read and self.state is not State.CLOSED:
            self._is_read = True
            self.shell.resume_reading()

    def output_drained(self) -> None:
        """The shell has written so much that there is room again."""
        if self.is_drained():
            if self.congested:
                self.drained()
            if self.is_throttled:
                self.is_throttled = False
                self._resume(Pause.UNREAD_ANSWERS)
        if self.session is not None and self.state is State.OPEN:
            self.session.has_room_again()

    def ask_for_more(self) -> None:
        self.broker.replays.add(self)

    def send_more(self) -> None:
        """It is this connection's turn to send retained messages."""
        if self.state is State.OPEN:
            self.session.replay_on()

    # ---- questions of the lane -----------------------------------------------------------------------

    def may_publish(self, topic: bytes) -> bool:
        return self.broker.gate.may_publish(self.user, self.session.client_id, topic.decode())


# The smallest packets that tell a reason, and what a reason string adds to them besides its text.
DISCONNECT_BYTES: Final = 4
CONNACK_BYTES: Final = 5
REASON_STRING_OVERHEAD_BYTES: Final = 16
REASON_BYTES_MAX: Final = 1024  # enough for any sentence; what a client sent may be in it


def shortened(detail: str) -> str:
    """What may stand in a packet, an event and a log line, whoever wrote it."""
    text = detail.replace("\0", " ").encode(errors="replace")
    return text[:REASON_BYTES_MAX].decode(errors="ignore")


FIRST_BYTES: Final[dict[type, int]] = {Puback: 0x40, Pubrec: 0x50, Pubrel: 0x62, Pubcomp: 0x70}

_Handler = Callable[[Any, Any], Iterator[None] | None]  # a long piece of work is given back in steps
HANDLERS: Final[dict[State, dict[int, _Handler]]] = {
    State.AUTHENTICATES: {
        PacketType.AUTH: Connection._authenticate,
        PacketType.DISCONNECT: lambda self, _: self.close("gave up"),
    },
    State.OPEN: {
        PacketType.PUBACK: Connection._acknowledge,
        PacketType.PUBREC: Connection._acknowledge,
        PacketType.PUBREL: Connection._acknowledge,
        PacketType.PUBCOMP: Connection._acknowledge,
        PacketType.SUBSCRIBE: subscribe,
        PacketType.UNSUBSCRIBE: unsubscribe,
        PacketType.PINGREQ: Connection._ping,
        PacketType.DISCONNECT: Connection._disconnect,
        PacketType.AUTH: Connection._authenticate,
    },
}
