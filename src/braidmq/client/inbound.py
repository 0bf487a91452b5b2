"""The receiving half: messages into the inbox, acknowledgements out, QoS 2 exactly once.

Plain messages pass through the scanner's fast lane; here is what needs thought: topic aliases, QoS 2, and
what happens to unacknowledged messages when the connection goes.

- QoS 1 is delivered again by the server on a resumed session, marked DUP; an acknowledgement for the earlier
  delivery is void.
- QoS 2 is not given to the application twice. A message that the application still holds is only linked to
  its second delivery, so that the acknowledgement of the first one counts.
- What still waits in the inbox is forgotten when the session resumes: the server delivers it again.
- When the session may be a new one (the answer to a CONNECT was lost), the server may use an identifier again
  for another message. Then DUP decides: what comes again must carry it [MQTT-3.3.1-1].
"""

from braidmq.client._batch import Inbox, Message, MessageBatch
from braidmq.client._ledger import AckLedger
from braidmq.client._scanner import Scanner
from braidmq.client.acker import Acker
from braidmq.client.options import SessionOptions
from braidmq.errors import ProtocolError
from braidmq.wire import V5, Publish, ReasonCode, decode


class _Held:
    """A QoS 2 message of an earlier connection that we have not answered."""

    __slots__ = ("acknowledged", "ordinal", "packet_id", "reason")

    def __init__(self, ordinal: int, packet_id: int, acknowledged: bool, reason: int) -> None:
        self.ordinal = ordinal  # under which the application knows it
        self.packet_id = packet_id
        self.acknowledged = acknowledged
        self.reason = reason


class Inbound:
    def __init__(self, options: SessionOptions) -> None:
        self._version = options.version
        self._alias_maximum = options.topic_alias_maximum
        receive_maximum = options.receive_maximum if options.version == V5 else 65_535
        self.inbox = Inbox()
        self.ledger = AckLedger(receive_maximum, options.version == V5)
        self.scanner = Scanner(self.inbox, self.ledger, options.version, options.max_packet_bytes)
        self._topic_of_alias: dict[int, bytes] = {}
        self._open: dict[int, int] = {}  # QoS 2 on this connection: packet identifier -> ordinal
        self._held: dict[int, _Held] = {}  # by packet identifier
        self._held_by_ordinal: dict[int, _Held] = {}
        self._in_doubt = False  # whether the server's session is the one that we remember
        self._linked: dict[int, int] = {}  # first ordinal -> ordinal on this connection

    def take(self, messages_max: int, acker: Acker) -> MessageBatch:
        return self.inbox.take(messages_max, acker)

    def connection_lost(self) -> None:
        first_ordinal = {ordinal: first for first, ordinal in self._linked.items()}
        for ordinal, packet_id, acknowledged, reason in self.ledger.unanswered_qos2():
            held = _Held(first_ordinal.get(ordinal, ordinal), packet_id, acknowledged, reason)
            self._held[packet_id] = self._held_by_ordinal[held.ordinal] = held
        self._linked.clear()
        self._open.clear()
        self._topic_of_alias.clear()
        self.ledger.abandon()
        self.scanner.reset()

    def connected(self, *, resumed: bool, in_doubt: bool) -> None:
        self._in_doubt = resumed and (in_doubt or self._in_doubt)
        if resumed:
            self._forget_untaken()
        else:
            self._held.clear()
            self._held_by_ordinal.clear()
            self.ledger.forget()
        self.ledger.connected(resumed)
        self.scanner.fast = True

    def _forget_untaken(self) -> None:
        """What the application has not seen yet comes again, in order; keeping it would pile it up."""
        for ordinal in self.inbox.drop_stale(self.ledger):
            held = self._held_by_ordinal.pop(ordinal, None)
            if held is not None:
                del self._held[held.packet_id]

    def publish(self, first_byte: int, body: bytes) -> None:
        """A PUBLISH that the fast lane left to us."""
        packet = decode(first_byte, body, self._version)
        assert isinstance(packet, Publish)
        topic = self._full_topic(packet)
        ordinal = 0
        if packet.qos == 1:
            ordinal = self.ledger.open(packet.packet_id, 1)
        elif packet.qos == 2:
            if self._in_doubt and not packet.dup:
                self._forget_identifier(packet.packet_id)
            ordinal = self._open_qos2(packet.packet_id)
            if not ordinal:
                return
        elif self.scanner.dropping_qos0:
            self.scanner.dropped += 1
            return
        before_properties = 2 + int.from_bytes(body[:2]) + (2 if packet.qos else 0)
        raw_properties = body[before_properties : len(body) - len(packet.payload)]
        self.inbox.append(topic, packet.payload, first_byte, packet.packet_id, raw_properties, ordinal)

    def _full_topic(self, packet: Publish) -> bytes:
        alias = packet.properties.topic_alias
        if alias is None:
            return packet.topic.encode()
        if alias > self._alias_maximum:  # [MQTT-3.1.2-26]
            raise ProtocolError(ReasonCode.TOPIC_ALIAS_INVALID, f"topic alias {alias} is over our maximum")
        if packet.topic:
            self._topic_of_alias[alias] = packet.topic.encode()
        elif alias not in self._topic_of_alias:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, f"topic alias {alias} was never given a topic")
        return self._topic_of_alias[alias]

    def _open_qos2(self, packet_id: int) -> int:
        """The ordinal of a new message; 0 if the application has it already."""
        if self._open.get(packet_id, 0) >= self.ledger.head:
            return 0  # sent twice on one connection, as MQTT 3 allows; the answer is still to come
        answered_before = self.ledger.release(packet_id)
        ordinal = self.ledger.open(packet_id, 2)
        self._open[packet_id] = ordinal
        if answered_before:
            self.ledger.acknowledge(ordinal)
            return 0
        held = self._held.pop(packet_id, None)
        if held is None:
            return ordinal
        del self._held_by_ordinal[held.ordinal]
        if held.acknowledged:
            self.ledger.acknowledge(ordinal, held.reason)
        else:
            self._linked[held.ordinal] = ordinal
        return 0

    def _forget_identifier(self, packet_id: int) -> None:
        self.ledger.release(packet_id)
        held = self._held.pop(packet_id, None)
        if held is not None:
            del self._held_by_ordinal[held.ordinal]

    def acknowledge(self, delivery: Message | MessageBatch, reason: int) -> None:
        for ordinal in delivery.mark(self.ledger, reason):
            linked = self._linked.pop(ordinal, 0)
            if linked:
                self.ledger.acknowledge(linked, reason)
            elif ordinal in self._held_by_ordinal:
                held = self._held_by_ordinal[ordinal]
                held.acknowledged = True
                held.reason = reason
