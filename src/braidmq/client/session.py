"""The client's side of MQTT as a pure state machine: bytes in, events and bytes out.

A `Session` outlives connections. The shell calls `connect(now)` for each new transport, hands over what it
reads with `receive(data, now)`, calls `advance(now)` no later than `deadline()`, writes `data_to_send(now)`
after every call, and reports the end with `connection_lost()`. Intents (publish, subscribe, ...) may come at
any time; what can't be sent now waits. No socket, clock, thread or randomness in here.

Which packet may come in which state is one table; every fault of the server becomes one `Closed` event, after
a DISCONNECT that names the reason.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, Final

from braidmq.client._batch import Message, MessageBatch
from braidmq.client.acker import Acker
from braidmq.client.errors import (
    AuthenticationFailedError,
    ClientError,
    ConnectionLostError,
    ConnectRefusedError,
    NotConnectedError,
    ServerDisconnectedError,
)
from braidmq.client.events import Closed, Connected, Event, Failed, MessagesReceived, Reauthenticated
from braidmq.client.handshake import Handshake
from braidmq.client.inbound import Inbound
from braidmq.client.keepalive import KeepAlive
from braidmq.client.options import SessionOptions
from braidmq.client.outbound import Outbound
from braidmq.client.packet_ids import PacketIds
from braidmq.client.publish_frames import PublishFrames
from braidmq.client.reporting import StatusReporter
from braidmq.client.requests import Requests
from braidmq.client.server import ServerLimits, TopicAliases
from braidmq.errors import ProtocolError
from braidmq.topics import validate_filter
from braidmq.wire import (
    NO_PROPERTIES,
    V5,
    Auth,
    Connack,
    Disconnect,
    Packet,
    PacketType,
    Pingreq,
    Properties,
    Pubcomp,
    Publish,
    Pubrel,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    decode,
    encode,
    nearest_fault,
    unexpected,
)


class State(Enum):
    OFFLINE = auto()  # no transport
    CONNECTING = auto()  # CONNECT is sent
    CONNECTED = auto()  # CONNACK has come
    CLOSED = auto()  # the transport is still there, and has nothing more to say


class Session:
    def __init__(self, options: SessionOptions) -> None:
        self.options = options
        self.client_id = options.client_id
        self.state = State.OFFLINE
        self.server = ServerLimits()
        self.session_present = False  # whether the server still knew us at the last CONNACK
        self.reporter = StatusReporter(options)
        self.connections = 0  # how many CONNACKs have let us in
        self._inbound = Inbound(options)
        self._ids = PacketIds()
        self._outbound = Outbound(self._ids, self._send, self._send_publish, self._emit)
        self._requests = Requests(self._ids, self._send_checked, self._emit)
        self._frames = PublishFrames(options.version)
        self._aliases: TopicAliases | None = None
        self._handshake = Handshake(options)
        self._keep_alive: KeepAlive | None = None
        self._connect_deadline = 0.0
        self._connected_before = False
        self._connect_unanswered = False  # the server may have made a new session, and we don't know of it
        self._now = 0.0
        self._last_token = 0
        self._events: list[Event] = []
        self._out = bytearray()
        self._handlers: Final[dict[int, tuple[tuple[State, ...], Callable[[Any], None]]]] = {
            PacketType.CONNACK: ((State.CONNECTING,), self._on_connack),
            PacketType.AUTH: ((State.CONNECTING, State.CONNECTED), self._on_auth),
            PacketType.PUBACK: ((State.CONNECTED,), self._outbound.puback),
            PacketType.PUBREC: ((State.CONNECTED,), self._outbound.pubrec),
            PacketType.PUBREL: ((State.CONNECTED,), self._on_pubrel),
            PacketType.PUBCOMP: ((State.CONNECTED,), self._outbound.pubcomp),
            PacketType.SUBACK: ((State.CONNECTED,), self._on_suback),
            PacketType.UNSUBACK: ((State.CONNECTED,), self._on_unsuback),
            PacketType.PINGRESP: ((State.CONNECTED,), self._on_pingresp),
            PacketType.DISCONNECT: ((State.CONNECTED,), self._on_disconnect),
        }

    # -- what the application wants -----------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self.state is State.CONNECTED

    @property
    def pending_publishes(self) -> int:
        """QoS 1 and 2 messages that the server has not finally acknowledged."""
        return len(self._outbound)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """What the server has granted."""
        return self._requests.granted

    @property
    def queued_messages(self) -> int:
        return self._inbound.inbox.count

    @property
    def queued_bytes(self) -> int:
        return self._inbound.inbox.size_bytes

    @property
    def dropped_messages(self) -> int:
        """QoS 0 messages that came while `drop_qos0` was on."""
        return self._inbound.scanner.dropped

    def drop_qos0(self, dropping: bool) -> None:
        """On: QoS 0 messages are counted and dropped instead of queued."""
        self._inbound.scanner.dropping_qos0 = dropping

    def publish(self, packet: Publish) -> int:
        """Sends now or as soon as the window allows; gives the token of the answer, 0 for QoS 0."""
        self._frames.check(packet)
        if packet.qos == 0:
            if self.state is not State.CONNECTED:
                raise NotConnectedError("a QoS 0 message needs a connection")
            self._send_publish(packet)
            return 0
        token = self._new_token()
        self._outbound.submit(token, packet)
        self._outbound.pump()
        self._raise_if_failed(token)
        return token

    def subscribe(
        self, subscriptions: Sequence[Subscription], properties: Properties = NO_PROPERTIES
    ) -> int:
        for subscription in subscriptions:
            validate_filter(subscription.filter)
        return self._request(Subscribe(1, tuple(subscriptions), properties))

    def unsubscribe(self, filters: Sequence[str], properties: Properties = NO_PROPERTIES) -> int:
        for topic_filter in filters:
            validate_filter(topic_filter)
        return self._request(Unsubscribe(1, tuple(filters), properties))

    def _request(self, packet: Subscribe | Unsubscribe) -> int:
        encode(packet, self.options.version)  # what can't be written is refused here, not when it is sent
        token = self._new_token()
        self._requests.submit(token, packet)
        self._requests.pump()
        self._raise_if_failed(token)
        return token

    def _raise_if_failed(self, token: int) -> None:
        last = self._events[-1] if self._events else None
        if isinstance(last, Failed) and last.token == token:
            raise self._events.pop().error  # type: ignore[union-attr]

    def withdraw(self, token: int) -> bool:
        """Nobody waits for the answer any more. True if the request never left and is forgotten."""
        return self._outbound.withdraw(token) or self._requests.withdraw(token)

    def take_batch(self, messages_max: int, acker: Acker | None = None) -> MessageBatch:
        """The oldest messages of the inbox; none is acknowledged by taking it."""
        return self._inbound.take(messages_max, acker or self)

    def acknowledge(self, delivery: Message | MessageBatch, reason: int = 0) -> None:
        """The application is done with a message or a batch. The answers leave in the order of receipt."""
        self._inbound.acknowledge(delivery, reason)
        self._flush_acknowledgements()

    # How the application works is only for the status reports to the broker.

    def work_began(self, delivery: MessageBatch, now: float) -> None:
        if self.reporter.is_counting:
            self.reporter.taken(len(delivery), self.queued_messages, now)

    def work_finished(self, messages: int, now: float, *, whole_delivery: bool) -> None:
        """The application is done with so many messages; `whole_delivery`: with the rest of a batch."""
        if self.reporter.is_counting:
            self.reporter.finished(messages, self.queued_messages, now, whole_delivery=whole_delivery)

    def tell_status(self, queue_depth: int | None, service_time_s: float | None) -> None:
        """The application's own word on the messages it has taken; None: we measure it again."""
        self.reporter.tell(queue_depth, service_time_s, self.queued_messages)

    def reauthenticate(self) -> None:
        """Starts a new authentication on the open connection; ends with `Reauthenticated` or `Closed`."""
        if self.options.authenticator is None or self.state is not State.CONNECTED:
            raise NotConnectedError("re-authentication needs a connection with enhanced authentication")
        self._send(self._handshake.renew())

    def disconnect(self, reason: int = 0, properties: Properties = NO_PROPERTIES) -> None:
        """Says goodbye; afterwards the transport can be closed."""
        if self.state in (State.CONNECTING, State.CONNECTED):
            self._send(Disconnect(reason, properties))
            self._stop()

    # -- what the shell does ------------------------------------------------------------------------------

    def connect(self, now: float) -> None:
        """There is a new transport: the handshake begins."""
        assert self.state is State.OFFLINE, "the shell must report the loss of the old connection first"
        self.state = State.CONNECTING
        self._connect_deadline = now + self.options.connect_timeout_s
        self._send(self._handshake.connect(self.client_id, first=not self._connected_before))

    def connection_lost(self) -> None:
        """The transport is gone."""
        self._connect_unanswered |= self.state is State.CONNECTING
        self.state = State.OFFLINE
        self._out.clear()
        self._aliases = None
        self._keep_alive = None
        self._outbound.connection_lost()
        self._requests.connection_lost()
        self._inbound.connection_lost()
        self.reporter.connection_lost()

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> list[Event]:
        """The server has sent `data`."""
        if self.state not in (State.CONNECTING, State.CONNECTED):
            return []
        if self._keep_alive is not None:
            self._keep_alive.received(now)
        before, dropped_before = self._inbound.inbox.received, self.dropped_messages
        self._now = now
        self._guarded(lambda: self._handle_frames(data))
        if self.state is State.CONNECTED:
            # Requests first: a publisher that uses up every packet identifier must not shut them out.
            self._requests.pump()
            self._outbound.pump()
            self._flush_acknowledgements()
        received = self._inbound.inbox.received - before
        if received:
            self._events.append(MessagesReceived(received))
            self.reporter.received(received, self.queued_messages)
        if self.dropped_messages > dropped_before:
            self.reporter.dropped(self.dropped_messages - dropped_before, self.queued_messages)
        return self._take_events()

    def reading_paused(self) -> None:
        """The shell stops reading, because the application does not keep up."""
        self.reporter.urge(self.queued_messages)

    def reading_resumed(self, now: float) -> None:
        """The shell had stopped reading, so that the server's silence until now was ours."""
        if self._keep_alive is not None:
            self._keep_alive.received(now)
        self.reporter.urge(self.queued_messages)

    def advance(self, now: float, *, reading: bool = True) -> list[Event]:
        """Time has passed. A shell that does not read at the moment can't judge the server's silence."""
        if self.state is State.CONNECTING and now >= self._connect_deadline:
            self._close(ConnectionLostError("the server did not answer CONNECT in time"))
        elif self.state is State.CONNECTED and self._keep_alive is not None:
            if reading and self._keep_alive.answer_overdue(now):
                self._close(ConnectionLostError("the server did not answer a ping in time"))
            elif not self._report_if_due(now) and self._keep_alive.ping_due(now):
                self._keep_alive.pinged(now)
                self._send(Pingreq())
        return self._take_events()

    def deadline(self, *, reading: bool = True) -> float | None:
        """When `advance` must be called at the latest; None: no need."""
        if self.state is State.CONNECTING:
            return self._connect_deadline
        if self.state is State.CONNECTED and self._keep_alive is not None:
            times = (self._keep_alive.deadline(reading=reading), self.reporter.due_at_s())
            return min((time for time in times if time is not None), default=None)
        return None

    def data_to_send(self, now: float) -> bytearray:
        """What has to be written now, once."""
        out = self._out
        if out:
            self._out = bytearray()
            if self._keep_alive is not None:
                self._keep_alive.sent(now)
        return out

    @property
    def unsent_bytes(self) -> int:
        return len(self._out)

    # -- what the server says -----------------------------------------------------------------------------

    def _handle_frames(self, data: bytes | bytearray | memoryview) -> None:
        scanner = self._inbound.scanner
        scanner.feed(data)
        while self.state in (State.CONNECTING, State.CONNECTED):
            frame = scanner.next_frame()
            if frame is None:
                return
            self._handle(*frame)

    def _handle(self, first_byte: int, body: bytes) -> None:
        kind = first_byte >> 4
        if kind == PacketType.PUBLISH and self.state is State.CONNECTED:
            self._inbound.publish(first_byte, body)
            return
        states, handler = self._handlers.get(kind, ((), None))
        if handler is None or self.state not in states:
            raise unexpected(kind)
        handler(decode(first_byte, body, self.options.version))

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except ProtocolError as error:
            self._give_up(error.reason, ConnectionLostError(f"the server broke the protocol: {error}"))
        except AuthenticationFailedError as error:
            self._give_up(ReasonCode.UNSPECIFIED_ERROR, error)

    def _give_up(self, reason: int, error: ClientError) -> None:
        if self.options.version == V5:
            self._send(Disconnect(nearest_fault(reason, PacketType.DISCONNECT)))
        self._close(error)

    def _on_connack(self, packet: Connack) -> None:
        if packet.reason:
            self._close(ConnectRefusedError(packet.reason, packet.properties))
            return
        self._handshake.connack(packet)
        self.state = State.CONNECTED
        self._settle(packet.properties)
        self.session_present = packet.session_present
        self.connections += 1
        self._emit(Connected(packet.session_present, packet.properties))
        in_doubt, self._connect_unanswered = self._connect_unanswered, False
        self._inbound.connected(resumed=packet.session_present, in_doubt=in_doubt)
        keep_alive_s = self._keep_alive.interval_s if self._keep_alive is not None else 0.0
        self.reporter.connected(
            packet.properties, self.client_id, keep_alive_s, self.queued_messages, self._now
        )
        self._outbound.connected(
            self.server.receive_maximum, resumed=packet.session_present, first=not self._connected_before
        )
        self._requests.connected(resumed=packet.session_present, in_doubt=in_doubt)
        self._connected_before = True

    def _settle(self, told: Properties) -> None:
        self.server = ServerLimits.told_by(told)
        self.client_id = told.assigned_client_id or self.client_id
        wanted_s = told.server_keep_alive_s  # [MQTT-3.1.2-21]
        keep_alive_s = self.options.keep_alive_s if wanted_s is None else wanted_s
        self._keep_alive = KeepAlive(keep_alive_s, self.options.ping_timeout_s, self._now)
        if self.options.send_topic_aliases:
            self._aliases = TopicAliases(self.server.topic_alias_maximum)

    def _on_auth(self, packet: Auth) -> None:
        answer = self._handshake.auth(packet)
        if answer is None:
            self._emit(Reauthenticated())
        else:
            self._send(answer)

    def _on_pubrel(self, packet: Pubrel) -> None:
        known = self._inbound.ledger.release(packet.packet_id)
        self._send(Pubcomp(packet.packet_id, 0 if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))

    def _on_suback(self, packet: Suback) -> None:
        self._requests.suback(packet)
        self._tell_groups()

    def _on_unsuback(self, packet: Unsuback) -> None:
        self._requests.unsuback(packet)
        self._tell_groups()

    def _tell_groups(self) -> None:
        self.reporter.subscribed(subscription.filter for subscription in self.subscriptions)

    def _on_pingresp(self, _packet: object) -> None:
        if self._keep_alive is not None:
            self._keep_alive.answered()

    def _on_disconnect(self, packet: Disconnect) -> None:
        self._close(ServerDisconnectedError(packet.reason, packet.properties))

    # -- small parts --------------------------------------------------------------------------------------

    def _new_token(self) -> int:
        self._last_token += 1
        return self._last_token

    def _emit(self, event: Event) -> None:
        self._events.append(event)

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _close(self, error: ClientError) -> None:
        self._stop()
        self._emit(Closed(error))

    def _stop(self) -> None:
        """Nothing more is said or heard on this connection."""
        self.state = State.CLOSED
        self._inbound.scanner.reset()
        self._outbound.stop()
        self._requests.stop()

    def _report_if_due(self, now: float) -> bool:
        """True if a status has left as a PINGREQ, which shows that we live like any other."""
        packet = self.reporter.take_packet(now)
        if packet is None:
            return False
        self._out += packet
        if self.reporter.travels_by_ping and self._keep_alive is not None:
            self._keep_alive.pinged(now)
        return self.reporter.travels_by_ping

    def _send(self, packet: Packet) -> None:
        self._out += encode(packet, self.options.version)

    def _send_checked(self, packet: Packet) -> None:
        """A request that may be older than this connection: the server may have become another."""
        if isinstance(packet, Subscribe):
            self.server.check_subscribe(packet)
        frame = encode(packet, self.options.version)
        self.server.check_size(frame)
        self._out += frame

    def _send_publish(self, packet: Publish) -> None:
        self.server.check_publish(packet)
        frame = self._frames.frame(self._aliases.apply(packet) if self._aliases else packet)
        self.server.check_size(frame)
        self._out += frame

    def _flush_acknowledgements(self) -> None:
        if self.state is State.CONNECTED:
            self._out += self._inbound.ledger.flush()
