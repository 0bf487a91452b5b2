"""A tiny MQTT 5 server as a pure value: one client, bytes in, bytes out, and it remembers what it promised.

It is the other side of the session's state machine test, and the heart of the socket server in `fake_broker`.
It breaks no rule by itself, and raises if the client does. Acknowledgements can be held back (`hold_acks`),
so that a test decides when they leave.
"""

from collections import deque

from braidmq.wire import (
    V5,
    Connack,
    Connect,
    Disconnect,
    FrameReader,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    decode,
    encode,
)
from braidmq.wire.pingreq import (
    PINGREQ_FIRST_BYTE,
    STATUS_BY_PING,
    STATUS_PING_PROPERTY,
    decode_pingreq_body,
)
from braidmq.wire.status import StatusReport, parse_status


class ModelServer:
    def __init__(self, told: Properties | None = None, *, hold_acks: bool = False) -> None:
        self.told = told or Properties()
        self.hold_acks = hold_acks
        self.version = V5
        self.taken: list[Publish] = []  # what the server has promised to deliver, in order
        self.connects: list[Connect] = []
        self.subscribes: list[Subscribe] = []
        self.received: list[Packet] = []
        self.reports: list[StatusReport] = []  # in extended PINGREQs
        self.subscriptions: dict[str, Subscription] = {}
        self.has_session = False
        self.unreleased: set[int] = set()  # QoS 2 from the client: taken, not released
        self.waiting: deque[Publish] = deque()  # for the client, not sent yet
        self.in_flight: dict[int, Publish] = {}  # for the client, PUBLISH sent
        self.releasing: dict[int, Publish] = {}  # for the client, PUBREL sent
        self.finished: list[Publish] = []  # the client has acknowledged them for good
        self._last_id = 0
        self.disconnect()

    def disconnect(self) -> None:
        """The transport is gone; the session stays."""
        self.connected = False
        self.held_acks: deque[Packet] = deque()
        self.unanswered = 0  # QoS 1 and 2 from the client on this connection that we have not answered
        self.sent_now: set[int] = set()  # identifiers that count against the client's receive maximum
        self.client_receive_maximum = 65_535
        self._reader = FrameReader(1 << 28)
        self._out = bytearray()

    def lose_session(self) -> None:
        """Forgets the client, as a server without persistence does in a crash."""
        self.has_session = False
        self.unreleased.clear()
        self.subscriptions.clear()
        self.waiting.clear()
        self.in_flight.clear()
        self.releasing.clear()

    def receive(self, data: bytes) -> None:
        self._reader.feed(data)
        for first_byte, body in self._reader.frames():
            if first_byte == PINGREQ_FIRST_BYTE and body:
                self._on_status(body)
                continue
            packet = decode(first_byte, body, self.version)
            self.received.append(packet)
            getattr(self, f"_on_{type(packet).__name__.lower()}")(packet)

    def data_to_send(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data

    def send(self, packet: Packet) -> None:
        self._out += encode(packet, self.version)

    def publish(self, packet: Publish) -> None:
        """A message for the client."""
        self.waiting.append(packet)
        self._pump()

    @property
    def done(self) -> bool:
        """Whether every message for the client was delivered for good."""
        return not (self.waiting or self.in_flight or self.releasing)

    def release_acks(self, count: int = 1) -> None:
        while count and self.held_acks:
            self._acknowledge(self.held_acks.popleft())
            count -= 1

    # -- the client's packets -----------------------------------------------------------------------------

    def _on_connect(self, packet: Connect) -> None:
        self.connects.append(packet)
        self.version = packet.version
        self.connected = True
        if packet.clean_start:
            self.lose_session()
        self.client_receive_maximum = packet.properties.receive_maximum or 65_535
        present, self.has_session = self.has_session, True
        self.send(Connack(present, 0, self.told))
        for packet_id in self.releasing:
            self.send(Pubrel(packet_id))
        for packet_id, message in list(self.in_flight.items()):
            self._send_publish(packet_id, message, dup=True)
        self._pump()

    def _on_status(self, body: bytes) -> None:
        agreed = (STATUS_PING_PROPERTY, STATUS_BY_PING)
        asked = self.connects[-1].properties.user_properties
        assert agreed in asked, "a status that the client did not announce"
        assert agreed in self.told.user_properties, "a status that the server did not want"
        report = parse_status(decode_pingreq_body(body).payload)
        assert isinstance(report, StatusReport), report
        self.reports.append(report)
        self.send(Pingresp())

    def _on_publish(self, packet: Publish) -> None:
        if packet.qos == 0:
            self.taken.append(packet)
            return
        self.unanswered += 1
        assert self.unanswered <= (self.told.receive_maximum or 65_535), "over our receive maximum"
        if packet.qos == 1:
            self.taken.append(packet)
            self._acknowledge_later(Puback(packet.packet_id))
            return
        if packet.packet_id not in self.unreleased:
            self.unreleased.add(packet.packet_id)
            self.taken.append(packet)
        self._acknowledge_later(Pubrec(packet.packet_id))

    def _on_pubrel(self, packet: Pubrel) -> None:
        known = packet.packet_id in self.unreleased
        self.unreleased.discard(packet.packet_id)
        self._acknowledge_later(Pubcomp(packet.packet_id, 0 if known else 0x92))

    def _acknowledge_later(self, packet: Packet) -> None:
        self.held_acks.append(packet)
        if not self.hold_acks:
            self.release_acks()

    def _acknowledge(self, packet: Packet) -> None:
        if not isinstance(packet, Pubrec):
            self.unanswered = max(0, self.unanswered - 1)
        self.send(packet)

    def _on_puback(self, packet: Puback) -> None:
        self._finish(self.in_flight, packet.packet_id)

    def _on_pubrec(self, packet: Pubrec) -> None:
        if packet.packet_id in self.in_flight:
            message = self.in_flight.pop(packet.packet_id)
            if packet.reason >= 0x80:
                self.finished.append(message)
                self._freed(packet.packet_id)
                return
            self.releasing[packet.packet_id] = message
        self.send(Pubrel(packet.packet_id, 0 if packet.packet_id in self.releasing else 0x92))

    def _on_pubcomp(self, packet: Pubcomp) -> None:
        self._finish(self.releasing, packet.packet_id)

    def _on_subscribe(self, packet: Subscribe) -> None:
        self.subscribes.append(packet)
        for subscription in packet.subscriptions:
            self.subscriptions[subscription.filter] = subscription
        self.send(Suback(packet.packet_id, tuple(one.qos for one in packet.subscriptions)))

    def _on_unsubscribe(self, packet: Unsubscribe) -> None:
        reasons = tuple(0 if self.subscriptions.pop(one, None) else 0x11 for one in packet.filters)
        self.send(Unsuback(packet.packet_id, reasons if self.version == V5 else ()))

    def _on_pingreq(self, _packet: Pingreq) -> None:
        self.send(Pingresp())

    def _on_disconnect(self, _packet: Disconnect) -> None:
        self.connected = False

    # -- messages for the client --------------------------------------------------------------------------

    def _pump(self) -> None:
        while self.connected and self.waiting and len(self.sent_now) < self.client_receive_maximum:
            message = self.waiting.popleft()
            self._send_publish(self._free_id() if message.qos else 0, message, dup=False)

    def _free_id(self) -> int:
        self._last_id = self._last_id % 65_535 + 1
        while self._last_id in self.in_flight or self._last_id in self.releasing:
            self._last_id = self._last_id % 65_535 + 1
        return self._last_id

    def _send_publish(self, packet_id: int, message: Publish, *, dup: bool) -> None:
        if packet_id:
            self.in_flight[packet_id] = message
            self.sent_now.add(packet_id)
        self.send(Publish(
            message.topic, message.payload, message.qos, message.retain, dup, packet_id, message.properties
        ))

    def _finish(self, stage: dict[int, Publish], packet_id: int) -> None:
        assert packet_id in stage, f"acknowledgement of {packet_id}, which is not open"
        self.finished.append(stage.pop(packet_id))
        self._freed(packet_id)

    def _freed(self, packet_id: int) -> None:
        self.sent_now.discard(packet_id)
        self._pump()
