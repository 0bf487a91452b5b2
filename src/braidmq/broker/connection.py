"""One client's connection: the packets that need thought. What is per message happens in the lane, in C.

A connection is a small state machine: it awaits CONNECT, perhaps authenticates, is open, and is closed. Which
packet may come in which state is the table HANDLERS; anything else is a protocol error. It asks its `Shell`
for what only a transport can do, and never waits.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Protocol

from braidmq.access.verdicts import Admitted, Challenge, Pending, Refused, Verdict, Visitor
from braidmq.broker.access import Errand, Exchange
from braidmq.broker.events import Authenticated, ConnectReceived, ConnectRefused
from braidmq.broker.lane import Lane
from braidmq.broker.outlet import Outlet
from braidmq.broker.sharing.status_reports import REPORTS_PER_S_MAX
from braidmq.broker.subscribing import subscribe, unsubscribe
from braidmq.errors import ProtocolError
from braidmq.messages.message import Message
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
    Subscribe,
    Unsubscribe,
    connect_answer_version,
    decode,
)
from braidmq.wire.pingreq import STATUS_BY_PING, decode_pingreq_body

if TYPE_CHECKING:
    from braidmq.broker.broker import Broker

NO_LONGER: Final = "not let in any more: the configuration has changed"
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

    def __init__(self, hub: Any, router: Any, broker: "Broker", shell: Shell, peer: str) -> None:
        super().__init__(hub, router)
        self.broker = broker
        self.shell: Shell = shell
        self.peer = peer
        self.visitor = Visitor(peer, getattr(shell, "certified_user", None))
        self.state = State.AWAITS_CONNECT
        self.connect: Connect | None = None
        self.exchange: Exchange | None = None
        self.user: str | None = None
        self.keep_alive_s = 0
        self._pings_with_status = False
        self._status_pace: Bucket | None = None
        self._pauses = 0
        self._is_throttled = False
        self._awaits_verdict = False
        self._admission = Admitted()
        self._stay_timer: Timer | None = None
        self._timer: Timer | None = broker.timers.set(
            hub.now + hub.limits.connect_timeout_s, self._connect_timed_out
        )

    # ---- packets -------------------------------------------------------------------------------------

    def handle(self, first: int, body: bytes) -> None:
        if self.state is State.AWAITS_CONNECT:
            if first >> 4 != PacketType.CONNECT:
                self.close("the first packet is no CONNECT")  # [MQTT-3.1.0-1]
                return
            # A CONNECT that can't be read is still answered in its own version, if that much can be read.
            self.speak(connect_answer_version(body))
            self.state = State.AUTHENTICATES
            packet = decode(first, body, self.version)
            assert isinstance(packet, Connect)
            self._connect(packet)
            return
        if first >> 4 == PacketType.PINGREQ and body and self._pings_with_status:
            self._ping_with_status(body)
            return
        packet = decode(first, body, self.version)
        handler = HANDLERS[self.state].get(type(packet))
        if handler is None:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, f"{type(packet).__name__} can't come here")
        handler(self, packet)

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
            self.session.will = None  # [MQTT-3.14.4-3]
        self.close("the client has said goodbye")

    # ---- getting in ----------------------------------------------------------------------------------

    def _connect(self, packet: Connect) -> None:
        self.connect = packet
        self.client_id = packet.client_id or None
        if self.hub.audience is not None:
            self.hub.audience.tell(
                ConnectReceived(
                    client_id=packet.client_id,
                    peer=self.peer,
                    protocol=packet.version,
                    username=packet.username,
                    clean_start=packet.clean_start,
                    keep_alive_s=packet.keep_alive_s,
                )
            )
        self._speak_as_told(packet)
        self.broker.check_connect(packet)
        method = packet.properties.authentication_method
        if method is None:
            self._judge(self.broker.gate.admit(packet, self.visitor))
            return
        self.exchange = self.broker.gate.exchange(method, packet, self.visitor)
        if self.exchange is None:
            raise ProtocolError(ReasonCode.BAD_AUTHENTICATION_METHOD, f"no authentication method {method!r}")
        self._judge(self.exchange.step(packet.properties.authentication_data))

    def _speak_as_told(self, packet: Connect) -> None:
        properties = packet.properties
        alias_max = min(properties.topic_alias_maximum or 0, self.hub.limits.topic_alias_outbound_max)
        if properties.maximum_packet_size_bytes is None:
            self.speak(packet.version, alias_max=alias_max)
        else:
            self.speak(packet.version, properties.maximum_packet_size_bytes, alias_max)

    def _judge(self, verdict: Verdict) -> None:
        """Go on as the gate has decided, in the first authentication or a later one."""
        match verdict:
            case Admitted():
                if not self.broker.gate.still_admits(verdict):  # decided by what a reload has replaced
                    raise ProtocolError(ReasonCode.NOT_AUTHORIZED, NO_LONGER)
                if self.state is State.OPEN:
                    self._readmitted(verdict)
                else:
                    self._admitted(verdict)
            case Challenge(data=data):
                self.send(Auth(ReasonCode.CONTINUE_AUTHENTICATION, self._auth_properties(data)))
            case Pending():
                self._await_verdict(verdict)
            case Refused(reason=reason, detail=detail):
                raise ProtocolError(reason, detail)

    def _await_verdict(self, pending: Pending) -> None:
        """Read no more until it is decided; the time for CONNECT runs on."""
        self._awaits_verdict = True
        self.is_parked = True
        self._pause()
        name = self.connect.username if self.connect is not None else None
        errand = Errand(pending, self.peer, name or "", lambda: not self.is_finished, self._decided)
        if self.broker.run_aside is None:
            self.shell.defer(errand.run)
        else:
            self.broker.run_aside(errand)

    def _decided(self, verdict: Admitted | Refused) -> None:
        self._awaits_verdict = False
        if self.state is State.CLOSED:
            return
        try:
            self._judge(verdict)
        except ProtocolError as error:
            self.fail(error)
        else:
            self._go_on()

    def _auth_properties(self, data: bytes | None) -> Properties:
        assert self.connect is not None
        return Properties(
            authentication_method=self.connect.properties.authentication_method, authentication_data=data
        )

    def _authenticate(self, packet: Auth) -> None:
        assert self.connect is not None
        if packet.properties.authentication_method != self.connect.properties.authentication_method:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "AUTH changes the method")  # [MQTT-4.12.0-5]
        if packet.reason == ReasonCode.RE_AUTHENTICATE and self.state is State.OPEN:
            method = packet.properties.authentication_method or ""
            self.exchange = self.broker.gate.exchange(method, self.connect, self.visitor)
        elif packet.reason != ReasonCode.CONTINUE_AUTHENTICATION:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "AUTH has a reason that only a server gives")
        if self.exchange is None:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "AUTH, and nothing was asked")
        self._judge(self.exchange.step(packet.properties.authentication_data))

    def _readmitted(self, admitted: Admitted) -> None:
        if admitted.user != self.user:
            raise ProtocolError(ReasonCode.NOT_AUTHORIZED, "re-authentication as somebody else")
        self.exchange = None
        self._may_stay(admitted)
        if self.hub.audience is not None:
            again = Authenticated(client_id=self.session.client_id, peer=self.peer, user=self.user)
            self.hub.audience.tell(again)
        self.send(Auth(ReasonCode.SUCCESS, self._auth_properties(admitted.data)))

    def _admitted(self, admitted: Admitted) -> None:
        assert self.connect is not None
        self.exchange = None
        self.user = admitted.user
        self.broker.establish(self, self.connect, admitted.data)
        self._may_stay(admitted)
        self.state = State.OPEN
        self.is_open = True
        self.input_bytes_max = self.hub.limits.packet_bytes_max
        if self.broker.gate.checks_topics:
            self.rights = {}

    def _may_stay(self, admitted: Admitted) -> None:
        """For as long as it was let in for: until its token expires, or a reload ends the grounds for it."""
        self._admission = admitted
        if self._stay_timer is not None:
            self._stay_timer.cancel()
            self._stay_timer = None
        if admitted.lasts_s is not None:
            self._stay_timer = self.broker.timers.set(self.hub.now + admitted.lasts_s, self._outstayed)

    def _outstayed(self) -> None:
        self.end(ReasonCode.MAXIMUM_CONNECT_TIME, "what it was let in with has expired")

    def check_admission(self) -> None:
        """The gate is another one: whom it would not let in does not stay."""
        if self.state is State.OPEN and not self.broker.gate.still_admits(self._admission):
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
        due_s = self.received_at_s + self.keep_alive_s * KEEP_ALIVE_GRACE
        if due_s > self.hub.now:
            self._timer = self.broker.timers.set(due_s, self._watch)
        else:
            self.end(ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing heard for one and a half times the keep alive")

    def _connect_timed_out(self) -> None:
        self.close("no CONNECT in time")

    # ---- the end -------------------------------------------------------------------------------------

    def fail(self, error: ProtocolError) -> None:
        """The client has broken the protocol, or can't have what it wants."""
        self.end(error.reason, error.detail)

    def end(self, reason: int, detail: str) -> None:
        """Tell the client why, as far as its protocol version can, and close."""
        if self.state is State.OPEN:
            if self.version == V5 and self.fits(DISCONNECT_BYTES):  # [MQTT-3.14.0-1] only after CONNACK
                self.send(Disconnect(reason, self._reason_string(detail)))
        elif self.state is State.AUTHENTICATES:
            self._refuse_connect(reason, detail)
        self.close(detail)

    def _refuse_connect(self, reason: int, detail: str) -> None:
        if self.hub.audience is not None:
            refused = ConnectRefused(client_id=self.client_id, peer=self.peer, reason=reason, why=detail)
            self.hub.audience.tell(refused)
        # MQTT 3 has words for few refusals; a malformed CONNECT is answered by closing [MQTT-3.1.4-1].
        if self.version == V5:
            if self.fits(CONNACK_BYTES):
                self.send(Connack(False, reason, self._reason_string(detail)))
        elif reason not in (ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR):
            self.send(Connack(False, reason))  # [MQTT-3.2.2-6] session present is 0

    def _reason_string(self, detail: str) -> Properties:
        """Why, in words, unless the client does not want to read it or it does not fit."""
        wanted = self.connect is None or self.connect.properties.request_problem_information is not False
        if not wanted or not self.fits(len(detail.encode()) + REASON_STRING_OVERHEAD_BYTES):
            return NO_PROPERTIES
        return Properties(reason_string=detail)

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
        for timer in (self._timer, self._stay_timer):
            if timer is not None:
                timer.cancel()
        self.exchange = None
        self.drained()
        self.broker.closed(self, why, was_open=was_open)

    # ---- back-pressure -------------------------------------------------------------------------------

    def wait_for(self, outlet: Outlet) -> None:
        """Stop reading until `outlet`, which this connection fills, has drained or is given up."""
        if self.state is not State.OPEN:
            return
        self.broker.watch_congestion(outlet)
        outlet.add_waiting(self)
        self._pause()

    def feed_on(self) -> None:
        """Somebody whose output was full has drained."""
        self._resume()

    def throttle(self) -> None:
        """The client does not read our answers: take no more from it until it does."""
        if not self._is_throttled and self.state is not State.CLOSED:
            self._is_throttled = True
            self._pause()

    def take_a_rest(self) -> None:
        """The client has made much work: the others come first, the rest of its input in the next turn."""
        if self.state is not State.CLOSED and not self._awaits_verdict:
            self._pause()
            self.shell.defer(self._go_on)

    def _go_on(self) -> None:
        self.go_on(self.hub.now)
        self._resume()

    def _pause(self) -> None:
        self._pauses += 1
        if self._pauses == 1:
            self.shell.pause_reading()

    def _resume(self) -> None:
        self._pauses -= 1
        if self._pauses == 0 and self.state is not State.CLOSED:
            self.shell.resume_reading()

    def output_drained(self) -> None:
        """The shell has written so much that there is room again."""
        if self.is_drained():
            if self.congested:
                self.drained()
            if self._is_throttled:
                self._is_throttled = False
                self._resume()
        if self.session is not None and self.state is State.OPEN:
            self.session.has_room_again()

    # ---- questions of the lane -----------------------------------------------------------------------

    def may_publish(self, topic: bytes) -> bool:
        return self.broker.gate.may_publish(self.user, self.session.client_id, topic.decode())

    def keep_retained(self, message: Message) -> bool:
        return self.broker.retained.keep(message)


# The smallest packets that tell a reason, and what a reason string adds to them besides its text.
DISCONNECT_BYTES: Final = 4
CONNACK_BYTES: Final = 5
REASON_STRING_OVERHEAD_BYTES: Final = 16

FIRST_BYTES: Final[dict[type, int]] = {Puback: 0x40, Pubrec: 0x50, Pubrel: 0x62, Pubcomp: 0x70}

_Handler = Callable[[Any, Any], None]
HANDLERS: Final[dict[State, dict[type, _Handler]]] = {
    State.AUTHENTICATES: {Auth: Connection._authenticate, Disconnect: lambda self, _: self.close("gave up")},
    State.OPEN: {
        Puback: Connection._acknowledge,
        Pubrec: Connection._acknowledge,
        Pubrel: Connection._acknowledge,
        Pubcomp: Connection._acknowledge,
        Subscribe: subscribe,
        Unsubscribe: unsubscribe,
        Pingreq: Connection._ping,
        Disconnect: Connection._disconnect,
        Auth: Connection._authenticate,
    },
}
