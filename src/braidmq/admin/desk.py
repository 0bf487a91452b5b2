"""What the admin API may do with a broker: look at everything, and a few things an operator asks for."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

import msgspec

import braidmq
from braidmq.admin.cluster import ClusterDesk
from braidmq.admin.views import GroupChange, GroupChanged, Health, Published, PublishRequest
from braidmq.broker.broker import Broker
from braidmq.broker.census import Census, take_census
from braidmq.broker.connection import Connection
from braidmq.broker.session import Session
from braidmq.broker.sharing.state import state_of
from braidmq.config import Config
from braidmq.errors import ConfigError, ProtocolError
from braidmq.messages.message import Message
from braidmq.timing.bucket import Bucket
from braidmq.topics import validate_topic
from braidmq.wire import ReasonCode

SLICE_SESSIONS = 200


class RefusedError(Exception):
    """A request that can't be granted, with the HTTP status that says so."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Desk:
    """A broker as its operator sees it.

    `config` tells the configuration in effect, which a reload can change; `finish_turn` is called after
    whatever the broker was made to do; `reload` is None where nothing can be reloaded; `cluster` is None for
    a broker that is alone.
    """

    def __init__(
        self,
        broker: Broker,
        config: Callable[[], Config],
        clock_s: Callable[[], float],
        finish_turn: Callable[[], None],
        reload: Callable[[], None] | None = None,
        cluster: ClusterDesk | None = None,
    ) -> None:
        self.broker = broker
        self._config = config
        self.reload = reload
        self.cluster = cluster
        self.started_at_s = clock_s()
        self.onlookers: set[Callable[[], None]] = set()  # what ends each stream that is being read
        admin, now = config().admin, clock_s()
        self.looks = Bucket(admin.trace_messages_per_s_max, now)  # of all traces together
        self.shown = Bucket(admin.trace_events_per_s_max, now)
        self._clock_s = clock_s
        self._finish_turn = finish_turn

    @property
    def config(self) -> Config:
        return msgspec.structs.replace(self._config(), groups=self.broker.groups.config)

    @contextmanager
    def turn(self) -> Iterator[Broker]:
        """Do something with the broker as one turn: at the present time, and sent out at the end."""
        self.broker.turn(self._clock_s())
        try:
            yield self.broker
        finally:
            self._finish_turn()

    def health(self) -> Health:
        return Health("alive", braidmq.__version__, self._clock_s() - self.started_at_s)

    def end_streams(self) -> None:
        """The broker stops: answers that would go on for ever come to their end."""
        for end in list(self.onlookers):
            end()

    async def census(self) -> Census:
        """Counts over all sessions; clients have their turn between the slices."""
        counting = take_census(self.broker)
        while True:
            try:
                next(counting)
            except StopIteration as finished:
                census: Census = finished.value
                return census
            await asyncio.sleep(0)

    def session(self, client_id: str) -> Session:
        session = self.broker.sessions.get(client_id)
        if session is None:
            raise RefusedError(404, "there is no session of that client id")
        return session

    def connection(self, client_id: str) -> Connection:
        connection = self.session(client_id).outlet
        if not isinstance(connection, Connection):
            raise RefusedError(404, "that client is not connected")
        return connection

    def kick(self, client_id: str) -> None:
        """End a client's connection; its session lives on as the client has asked."""
        connection = self.connection(client_id)
        with self.turn():
            connection.end(ReasonCode.ADMINISTRATIVE_ACTION, "disconnected by an operator")

    async def delete_sessions(self, client_ids: Iterable[str], wanted: Callable[[Session], bool]) -> int:
        """End the wanted sessions, in slices between which clients have their turn; how many there were."""
        deleted, pending = 0, iter(client_ids)
        while part := list(islice(pending, SLICE_SESSIONS)):
            with self.turn() as broker:
                for client_id in part:
                    session = broker.sessions.get(client_id)
                    if session is not None and wanted(session):
                        broker.delete_session(session)
                        deleted += 1
            await asyncio.sleep(0)
        if deleted:
            await self._kept()
        return deleted

    def change_group(self, name: str, change: GroupChange) -> GroupChanged:
        """Give the groups of a name another policy until the configuration is read again."""
        with self.turn() as broker:
            try:
                broker.groups.change_policy(name, change.filter, change.policy, change.options)
            except ConfigError as error:
                raise RefusedError(400, str(error)) from error
            concerned = [
                group
                for group in broker.groups
                if group.name == name and change.filter in (None, group.filter.decode())
            ]
            return GroupChanged([state_of(group, broker.hub.now) for group in concerned])

    async def publish(self, request: PublishRequest) -> Published:
        """Publish, and answer when what has to be kept is kept."""
        message = self._message(request)
        with self.turn() as broker:
            outcome = broker.publishing.publish(message)
        if outcome.lacks_retained_room:
            raise RefusedError(507, "there is no room for another retained message")
        if message.qos or message.retain:
            await self._kept()
        return Published(outcome.is_matched, outcome.is_refused)

    def _message(self, request: PublishRequest) -> Message:
        limits = self.broker.limits
        if request.payload and request.payload_base64 is not None:
            raise RefusedError(400, "payload and payload_base64 exclude each other")
        payload = request.payload.encode() if request.payload_base64 is None else request.payload_base64
        try:
            validate_topic(
                request.topic, bytes_max=limits.topic_bytes_max, levels_max=limits.topic_levels_max
            )
        except ProtocolError as error:
            raise RefusedError(400, f"topic: {error.detail}") from error
        if request.topic.startswith("$SYS/"):
            raise RefusedError(400, "topic: $SYS is the broker's own")
        if len(payload) + len(request.topic.encode()) > limits.packet_bytes_max:
            raise RefusedError(413, "the message is larger than packet_bytes_max")
        if (request.qos or request.retain) and self.broker.hub.promises.store.is_failing:
            raise RefusedError(503, "the store can't be written")
        expires_at_s = self._clock_s() + request.expiry_s if request.expiry_s else 0.0
        return Message(request.topic.encode(), payload, request.qos, request.retain, b"", expires_at_s)

    async def _kept(self) -> None:
        """Wait until the store has kept every turn so far."""
        kept = asyncio.get_running_loop().create_future()
        self.broker.hub.promises.when_kept(lambda: None if kept.done() else kept.set_result(None))
        await kept
