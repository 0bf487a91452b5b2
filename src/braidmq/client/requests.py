"""SUBSCRIBE and UNSUBSCRIBE: requests that wait for their answer, and the subscriptions they leave.

A request whose connection is lost is asked again on the next one: both are idempotent. When the server has
forgotten the session, every subscription it had granted is asked for again, before what is new; also when it
may have done so without our knowledge, because its answer to a CONNECT or to such a restoration was lost.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby

import msgspec

from braidmq.client.errors import ClientError, SubscribeRefusedError, UnsubscribeRefusedError
from braidmq.client.events import Completed, Event, Failed, ResubscribeRefused
from braidmq.client.packet_ids import PacketIds
from braidmq.errors import ProtocolError
from braidmq.wire import (
    Packet,
    Properties,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)

FAILURE = 0x80
RESTORED_FILTERS_MAX = 64  # in one SUBSCRIBE, to stay far below any server's packet limit
RESTORE = 0  # the token of a restoring request, which nobody waits for


class Request(msgspec.Struct, frozen=True):
    token: int
    packet: Subscribe | Unsubscribe

    @property
    def filters(self) -> tuple[str, ...]:
        if isinstance(self.packet, Unsubscribe):
            return self.packet.filters
        return tuple(subscription.filter for subscription in self.packet.subscriptions)


class Granted(msgspec.Struct, frozen=True):
    """A subscription that the server has accepted, as it was asked for."""

    subscription: Subscription
    properties: Properties


class Requests:
    def __init__(
        self, ids: PacketIds, send: Callable[[Packet], None], emit: Callable[[Event], None]
    ) -> None:
        self._ids = ids
        self._send = send
        self._emit = emit
        self._queued: deque[Request] = deque()
        self._unanswered: dict[int, Request] = {}  # by packet identifier
        self._granted: dict[str, Granted] = {}  # by filter
        self._connected = False
        self._in_doubt = False  # the server's session may lack what was granted

    @property
    def granted(self) -> tuple[Subscription, ...]:
        return tuple(granted.subscription for granted in self._granted.values())

    def submit(self, token: int, packet: Subscribe | Unsubscribe) -> None:
        self._queued.append(Request(token, packet))

    def withdraw(self, token: int) -> bool:
        """Forgets a request that was never sent; False if it is too late, and its answer will still count."""
        before = len(self._queued)
        self._queued = deque(request for request in self._queued if request.token != token)
        return len(self._queued) < before

    def stop(self) -> None:
        """Nothing more can be sent on this connection."""
        self._connected = False

    def connection_lost(self) -> None:
        self.stop()
        unfinished = [*self._unanswered.values(), *self._queued]
        for packet_id in self._unanswered:
            self._ids.release(packet_id)
        self._unanswered = {}
        self._queued = deque(request for request in unfinished if request.token != RESTORE)
        self._in_doubt |= len(self._queued) < len(unfinished)

    def connected(self, *, resumed: bool, in_doubt: bool) -> None:
        """`in_doubt`: an earlier CONNECT got no answer, and may have made the session that was resumed."""
        self._connected = True
        if in_doubt or self._in_doubt or not resumed:
            self._queued.extendleft(reversed(self._restoring_requests(may_exist=resumed)))
        self._in_doubt = False

    def _restoring_requests(self, *, may_exist: bool) -> list[Request]:
        """Neighbours with the same properties share a SUBSCRIBE: an identifier holds for a whole packet."""
        requests = []
        for properties, neighbours in groupby(self._granted.values(), key=lambda granted: granted.properties):
            subscriptions = [granted.subscription for granted in neighbours]
            if may_exist:
                subscriptions = [_without_retained_again(subscription) for subscription in subscriptions]
            for start in range(0, len(subscriptions), RESTORED_FILTERS_MAX):
                some = tuple(subscriptions[start : start + RESTORED_FILTERS_MAX])
                requests.append(Request(RESTORE, Subscribe(0, some, properties)))
        return requests

    def pump(self) -> None:
        while self._connected and self._queued:
            packet_id = self._ids.take()
            if not packet_id:
                return
            request = self._queued.popleft()
            try:
                self._send(msgspec.structs.replace(request.packet, packet_id=packet_id))
            except ClientError as error:
                self._ids.release(packet_id)
                self._fail(request, error)
            else:
                self._unanswered[packet_id] = request

    def suback(self, packet: Suback) -> None:
        request = self._answered(packet.packet_id, Subscribe)
        if request is None:
            return
        assert isinstance(request.packet, Subscribe)
        _check_count(request, packet.reasons)
        for subscription, reason in zip(request.packet.subscriptions, packet.reasons, strict=True):
            if request.token != RESTORE and reason < FAILURE:
                self._granted[subscription.filter] = Granted(subscription, request.packet.properties)
            elif request.token == RESTORE and reason >= FAILURE:
                self._granted.pop(subscription.filter, None)
        if max(packet.reasons) >= FAILURE:
            self._fail(request, SubscribeRefusedError(request.filters, packet.reasons, packet.properties))
        else:
            self._complete(request, packet)

    def unsuback(self, packet: Unsuback) -> None:
        request = self._answered(packet.packet_id, Unsubscribe)
        if request is None:
            return
        reasons = packet.reasons or (0,) * len(request.filters)  # MQTT 3 gives none
        _check_count(request, reasons)
        for topic_filter, reason in zip(request.filters, reasons, strict=True):
            if reason < FAILURE:
                self._granted.pop(topic_filter, None)
        if max(reasons) >= FAILURE:
            self._fail(request, UnsubscribeRefusedError(request.filters, reasons, packet.properties))
        else:
            self._complete(request, packet)

    def _answered(self, packet_id: int, kind: type[Subscribe] | type[Unsubscribe]) -> Request | None:
        request = self._unanswered.pop(packet_id, None)
        if request is None:
            return None
        if not isinstance(request.packet, kind):
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "the answer is to another kind of request")
        self._ids.release(packet_id)
        return request

    def _complete(self, request: Request, answer: Suback | Unsuback) -> None:
        if request.token != RESTORE:
            self._emit(Completed(request.token, answer))

    def _fail(self, request: Request, error: ClientError) -> None:
        self._emit(ResubscribeRefused(error) if request.token == RESTORE else Failed(request.token, error))


def _without_retained_again(subscription: Subscription) -> Subscription:
    """Retained messages come only if the server does not have the subscription; MQTT 3 can't ask for that."""
    return msgspec.structs.replace(subscription, retain_handling=subscription.retain_handling or 1)


def _check_count(request: Request, reasons: Sequence[int]) -> None:
    if len(reasons) != len(request.filters):
        raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "the answer has not one reason for each filter")
