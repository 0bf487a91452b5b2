"""The sending half of QoS 1 and 2: a window, packet identifiers, and what survives a lost connection.

Every message is in exactly one place: `queued` (never sent), `unsent_again` (sent on an earlier connection,
to be sent again), `unacknowledged` (sent on this one), or `unreleased` (QoS 2, the server has it, PUBCOMP is
missing). The order in which messages are first sent is the order in which they are sent again
[MQTT-4.6.0-1].

`quota` is what the server's Receive Maximum still allows on this connection (section 4.9 of MQTT 5).
"""

from collections import deque
from collections.abc import Callable

from braidmq.client.errors import ClientError, PublishRefusedError, SessionLostError
from braidmq.client.events import Completed, Event, Failed
from braidmq.client.packet_ids import PacketIds
from braidmq.errors import ProtocolError
from braidmq.wire import Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel, ReasonCode

FAILURE = 0x80  # reason codes from here on are failures


class Outgoing:
    """One message on its way, and the request it belongs to."""

    __slots__ = ("dup", "packet_id", "publish", "token")

    def __init__(self, token: int, publish: Publish) -> None:
        self.token = token
        self.publish = publish
        self.packet_id = 0
        self.dup = False


class Outbound:
    def __init__(
        self, ids: PacketIds, send: Callable[[Packet], None], send_publish: Callable[[Publish], None],
        emit: Callable[[Event], None],
    ) -> None:
        self._ids = ids
        self._send = send
        self._send_publish = send_publish
        self._emit = emit
        self._queued: dict[int, Outgoing] = {}  # by token
        self._unsent_again: deque[Outgoing] = deque()
        self._unacknowledged: dict[int, Outgoing] = {}  # by packet identifier
        self._unreleased: dict[int, tuple[int, Pubrec]] = {}  # packet identifier -> token, and what it said
        self._quota = 0
        self._inherited = False  # the server's session is older than we are
        self._released: set[int] = set()  # identifiers under which it holds nothing, if it is inherited
        self._spending: set[int] = set()  # identifiers of messages sent on this connection and not finished

    def __len__(self) -> int:
        """Messages that the server has not yet finally acknowledged."""
        sent = len(self._unsent_again) + len(self._unacknowledged) + len(self._unreleased)
        return len(self._queued) + sent

    def submit(self, token: int, publish: Publish) -> None:
        self._queued[token] = Outgoing(token, publish)

    def withdraw(self, token: int) -> bool:
        """Forgets a message that was never sent; False if it is too late."""
        return self._queued.pop(token, None) is not None

    def stop(self) -> None:
        """Nothing more can be sent on this connection."""
        self._quota = 0

    def connection_lost(self) -> None:
        self.stop()
        self._spending.clear()
        sent_earlier = deque(self._unacknowledged.values())
        sent_earlier.extend(self._unsent_again)
        for outgoing in sent_earlier:
            outgoing.dup = True
        self._unsent_again = sent_earlier
        self._unacknowledged = {}

    def connected(self, receive_maximum: int, *, resumed: bool, first: bool) -> None:
        """The server accepted us: what is unfinished goes out again before anything new."""
        self._quota = receive_maximum
        self._inherited = resumed and (first or self._inherited)
        if not resumed:
            self._forget_session()
        for packet_id in self._unreleased:
            self._send(Pubrel(packet_id))  # [MQTT-4.4.0-1]

    def _forget_session(self) -> None:
        """The server knows none of our packet identifiers any more."""
        for packet_id, (token, _) in self._unreleased.items():
            self._ids.release(packet_id)
            self._emit(Completed(token, None))  # it had taken the message over with its PUBREC
        self._unreleased = {}
        again = [self._new_again(outgoing) for outgoing in self._unsent_again]
        self._unsent_again.clear()
        new = {outgoing.token: outgoing for outgoing in again if outgoing is not None}
        self._queued = new | self._queued

    def _new_again(self, outgoing: Outgoing) -> Outgoing | None:
        """QoS 1 may arrive twice, so it becomes a new message; for QoS 2 only the application can decide."""
        self._ids.release(outgoing.packet_id)
        if outgoing.publish.qos == 2:
            error = SessionLostError("the server forgot the session while a QoS 2 message was on its way")
            self._emit(Failed(outgoing.token, error))
            return None
        return Outgoing(outgoing.token, outgoing.publish)

    def pump(self) -> None:
        """Sends what quota and identifiers allow, in order."""
        while self._quota > 0 and self._unsent_again:
            outgoing = self._unsent_again.popleft()
            # A refusal here leaves the identifier in use: the server may hold the message under it.
            self._dispatch(outgoing)
        while self._quota > 0 and self._queued:
            packet_id = self._ids.take()
            if not packet_id:
                return
            outgoing = self._queued.pop(next(iter(self._queued)))
            outgoing.packet_id = packet_id
            if not self._dispatch(outgoing):
                self._ids.release(packet_id)

    def _dispatch(self, outgoing: Outgoing) -> bool:
        message = outgoing.publish
        packet = Publish(
            message.topic, message.payload, message.qos, message.retain, outgoing.dup, outgoing.packet_id,
            message.properties,
        )
        try:
            self._release_inherited(packet)
            self._send_publish(packet)
        except ClientError as error:
            self._emit(Failed(outgoing.token, error))
            return False
        self._quota -= 1
        self._spending.add(outgoing.packet_id)
        self._unacknowledged[outgoing.packet_id] = outgoing
        return True

    def _release_inherited(self, packet: Publish) -> None:
        """Makes sure that the server does not take a new message for one of a program before us.

        That program may have died between PUBREC and PUBREL. Under the same packet identifier our message
        would be a repetition to the server, which it confirms and drops. A PUBREL for an identifier that it
        does not know does no harm.
        """
        if self._inherited and packet.qos == 2 and not packet.dup and packet.packet_id not in self._released:
            self._released.add(packet.packet_id)
            self._send(Pubrel(packet.packet_id))

    def puback(self, packet: Puback) -> None:
        outgoing = self._unacknowledged.get(packet.packet_id)
        if outgoing is None:
            return
        if outgoing.publish.qos != 1:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "PUBACK for a QoS 2 message")
        del self._unacknowledged[packet.packet_id]
        self._finish(packet.packet_id, outgoing.token, packet)

    def pubrec(self, packet: Pubrec) -> None:
        outgoing = self._unacknowledged.get(packet.packet_id)
        if outgoing is None:
            known = packet.packet_id in self._unreleased
            reason = ReasonCode.SUCCESS if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
            self._send(Pubrel(packet.packet_id, reason))
            return
        if outgoing.publish.qos != 2:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "PUBREC for a QoS 1 message")
        del self._unacknowledged[packet.packet_id]
        if packet.reason >= FAILURE:
            self._finish(packet.packet_id, outgoing.token, packet)
            return
        self._unreleased[packet.packet_id] = outgoing.token, packet
        self._send(Pubrel(packet.packet_id))

    def pubcomp(self, packet: Pubcomp) -> None:
        token, received = self._unreleased.pop(packet.packet_id, (None, None))
        if token is not None and received is not None:
            # Whether anybody wants the message is said by PUBREC.
            self._finish(packet.packet_id, token, received if received.reason else packet)

    def _finish(self, packet_id: int, token: int, answer: Puback | Pubrec | Pubcomp) -> None:
        self._ids.release(packet_id)
        # A PUBREL left from an earlier connection took nothing from the quota, and gives nothing back.
        if packet_id in self._spending:
            self._spending.discard(packet_id)
            self._quota += 1
        # PUBCOMP "identifier not found" ends the exchange just as well: PUBREC had taken the message.
        if answer.reason >= FAILURE and not isinstance(answer, Pubcomp):
            self._emit(Failed(token, PublishRefusedError(answer.reason, answer.properties)))
        else:
            self._emit(Completed(token, answer))
