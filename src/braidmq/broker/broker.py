"""One node's MQTT semantics: sessions, who is connected, what happens when they come and go.

Pure: connections are opened by a shell that gives them bytes and the time, takes their output, and calls
`advance` when the next timer is due and `end_turn` before it waits again. The same object runs in the
simulator.
"""

from collections import Counter
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any, Final, Protocol

import msgspec

from braidmq.broker.access import Errand, Gate
from braidmq.broker.admission import Claims, SessionClaim
from braidmq.broker.audience import Audience, Heeds, OnFailure
from braidmq.broker.connection import Connection, Shell
from braidmq.broker.delivery_numbers import are_wanted, confirmed, identify
from braidmq.broker.events import (
    Authenticated,
    Disconnected,
    Observer,
    SessionEnd,
    SessionEnded,
    SessionEstablished,
    WillSent,
)
from braidmq.broker.hub import Hub
from braidmq.broker.newcomers import Lingerer, Newcomers
from braidmq.broker.outlet import Outlet
from braidmq.broker.paging import Pager
from braidmq.broker.peering import Peers
from braidmq.broker.publishing import Publishing
from braidmq.broker.quotas import AddressRates, MeteredConnection
from braidmq.broker.replays import Replays
from braidmq.broker.retained import RetainedMessages
from braidmq.broker.rights import overflow_of, recheck, replace_gate
from braidmq.broker.router import Router
from braidmq.broker.session import Session
from braidmq.broker.sharing.registry import GroupRegistry
from braidmq.broker.sharing.status_reports import StatusReports, agreed, declared_in, status_topic_of
from braidmq.broker.wills import Wills
from braidmq.broker.wishes import asked_expiry, check_wishes, granted_keep_alive, granted_properties
from braidmq.config.groups import GroupsConfig
from braidmq.errors import ProtocolError
from braidmq.limits import UINT16_CEILING, UINT32_CEILING, Limits
from braidmq.messages.wills import pending_will
from braidmq.store import Store
from braidmq.store.records import AWAY, SESSION, SESSION_ENDED, WILL
from braidmq.timing.stopwatch import Stopwatch
from braidmq.timing.timers import Timers
from braidmq.wire import Caps, Connack, Connect, Packet, Properties, ReasonCode
from braidmq.wire.pingreq import STATUS_BY_PUBLISH

RETAINED_SWEEP_S: Final = 60.0


Aside = Callable[[Errand], None]


class Announcements(Protocol):
    """Who tells others what is subscribed to here."""

    def when_seen(self, then: Callable[[], None]) -> None:
        """Call `then` when all subscriptions made by now are known to others, or waited for long enough.

        It may be at once; what is asked first is called first.
        """

    def announce(self) -> None:
        """Tell others of all subscriptions made by now, before whatever they are told next."""


class Broker:
    def __init__(
        self,
        limits: Limits,
        store: Store,
        gate: Gate,
        make_client_id: Callable[[], str],
        on_closed: Callable[[Connection, str], None] = lambda connection, why: None,
        on_observer_failure: OnFailure = lambda observer, error: None,
        groups: GroupsConfig | None = None,
        rng: Random | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self.limits = limits
        self.caps = Caps(limits.properties_max, limits.filters_max)
        self.gate = gate
        self.hub = Hub(limits, store, stopwatch)
        self.audience = Audience(self.hub, on_observer_failure)
        self.timers = Timers()
        # Policies that choose at random are the same in every run unless they are given another generator.
        self._rng = rng or Random(0)
        self.groups = GroupRegistry(self.hub, self.timers, self._rng, groups or GroupsConfig())
        self.router = Router(self.hub, self.groups)
        self.groups.on_gone(self.router.forget_group)
        self.groups.on_replaced(self.router.replace_group)
        if store.pages is not None:
            self.hub.pager = Pager(self.hub, self.router, store.pages)
        self.status_reports = StatusReports()
        self.retained = RetainedMessages(self.hub)
        self.replays = Replays(self.hub)
        self.publishing = Publishing(self.hub, self.router, self.retained)
        self.peers = Peers(self.hub)  # other nodes of a cluster
        self.sessions: dict[str, Session] = {}
        self._sessions_of: Counter[str | None] = Counter()  # how many of them each user has
        self.connections: set[Connection] = set()
        self._seated: set[Connection] = set()  # those of them that have a session
        # Where a decision that takes long is made; None: in the next turn, which is good enough for tests.
        self.run_aside: Aside | None = None
        # Who else may have a client's session, and is asked before it is used here; None: nobody.
        self.claims: Claims | None = None
        # Where new clients should go instead (empty: anywhere else); None, or it says None: they are welcome.
        self.elsewhere: Callable[[], str | None] | None = None
        # Told that a session outlasts its connection, or that it doesn't or is over; None: nobody is.
        self.lasting: Callable[[str, bool], None] | None = None
        # Who else must know of a subscription before it is confirmed; None: nobody.
        self.announcements: Announcements | None = None
        self.wills = Wills(limits.wills_bytes_max)
        self.wills_from_s = 0.0  # none is sent before: a node of a cluster has to find the others first
        self.noted_wills: set[str] = set()  # client ids whose will the store has
        self._make_client_id = make_client_id
        self._on_closed = on_closed
        self._watched_outlets: set[Outlet] = set()
        self.handshakes = 0  # sockets whose PROXY header or TLS handshake isn't over, counted by the shell
        # Those whose connection is over, and who have yet to read what was written to them.
        self.lingering: dict[Lingerer, None] = {}
        self.newcomers = Newcomers(limits.connecting_max)
        self.sockets_max = limits.connections_max + limits.connecting_max
        self.opened = 0  # connections that came to be, with their handshake over
        self.connects_received = 0
        self.sessions_expired = 0
        self.refused_connections = 0  # closed because there were connections_max
        self.quota_pauses = 0  # how often somebody who sent too fast was made to wait
        self.refused_addresses = 0  # connections closed because their address opened too many
        self.refused_logins = 0  # told to come again: too many were being authenticated
        is_metered = limits.client_bytes_per_s_max or limits.client_messages_per_s_max
        self._connection_kind = MeteredConnection if is_metered else Connection
        connects_max = limits.address_connects_per_s_max
        self._address_rates = AddressRates(connects_max) if connects_max else None
        replace_gate(self, gate)
        self._sweep_retained()

    # ---- for the shell -------------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """Time goes on: what is told to the broker from here on happens at `now`."""
        self.hub.begin(now)

    def open(self, shell: Shell, peer: str, now: float) -> Connection:
        """Somebody has connected."""
        self.turn(now)
        connection = self._connection_kind(self.hub, self.publishing, self, shell, peer)
        connection.takes_fast_lane = not self.audience.needs_every_message
        if self._sockets() >= self.sockets_max:
            self._make_way()
        self.connections.add(connection)
        self.newcomers.add(connection)
        self.opened += 1
        if not self.has_room():
            self._turn_away(connection, "there are no more sockets")
        if self._address_rates is not None and not self._address_rates.admits(peer, now):
            self.refused_addresses += 1
            self._turn_away(connection, "too many connections from its address")
        return connection

    def grant_sockets(self, sockets_max: int) -> None:
        """There may be only so many sockets; those who aren't in yet may not take more than a quarter."""
        self.sockets_max = sockets_max
        self.newcomers.newcomers_max = min(self.limits.connecting_max, max(1, sockets_max // 4))

    def has_room(self) -> bool:
        """Whether there may be as many sockets as there are now."""
        if self._sockets() <= self.sockets_max:
            return True
        self.refused_connections += 1
        return False

    def _sockets(self) -> int:
        return len(self.connections) + self.handshakes + len(self.lingering)

    def _make_way(self) -> None:
        """Somebody needs a socket: first who is done gives way, then who says nothing."""
        if self.lingering:
            oldest = next(iter(self.lingering))
            del self.lingering[oldest]
            oldest.give_up()
        else:
            self.newcomers.push_out()

    def _turn_away(self, connection: Connection, why: str) -> None:
        """Close it without a word, as soon as its transport is complete."""
        connection.is_finished = True  # what it sends isn't looked at
        connection.shell.defer(lambda: connection.close(why))

    def advance(self, now: float) -> None:
        """Let happen what is due by `now`."""
        self.turn(now)
        self.timers.run_due(now)

    def shut_down(self, now: float) -> None:
        """Say goodbye to everybody; sessions that last are kept."""
        self.turn(now)
        for connection in list(self.connections):
            connection.end(ReasonCode.SERVER_SHUTTING_DOWN, "the server is shutting down")

    def add_observer(self, observer: Observer, heeds: Heeds | None = None) -> None:
        """Begin to tell somebody what happens; about messages only if `heeds` says so, if it is given."""
        self.audience.add(observer, heeds)
        self._choose_lanes()

    def remove_observer(self, observer: Observer) -> None:
        """Tell it no more; when nobody wants to know of single messages they are fast again."""
        self.audience.remove(observer)
        self._choose_lanes()

    def _choose_lanes(self) -> None:
        for connection in self.connections:
            connection.takes_fast_lane = not self.audience.needs_every_message

    # ---- getting in ----------------------------------------------------------------------------------

    def check_connect(self, packet: Connect) -> None:
        """Raise ProtocolError if the CONNECT asks for what nobody can have here."""
        self.connects_received += 1
        reference = self.elsewhere() if self.elsewhere is not None else None
        if reference is not None:
            raise ProtocolError(ReasonCode.USE_ANOTHER_SERVER, "this server is being drained", reference)
        self._check_seats()
        check_wishes(packet, self.limits, can_keep=not self.hub.promises.store.is_failing)

    @property
    def clients_connected(self) -> int:
        return len(self._seated)

    @property
    def is_full(self) -> bool:
        """Whether as many clients are connected as may be."""
        return self.clients_connected >= self.limits.connections_max

    def _check_seats(self) -> None:
        if self.is_full:
            self.refused_connections += 1
            raise ProtocolError(ReasonCode.SERVER_BUSY, "too many connections")

    def prepare(
        self, connection: Connection, packet: Connect, authentication_data: bytes | None
    ) -> SessionClaim:
        """The client is admitted: which session it wants, if it can have one here at all."""
        client_id = connection.client_id = packet.client_id or self._make_client_id()
        if self.hub.watching.audience is not None:
            admitted = Authenticated(client_id=client_id, peer=connection.peer, user=connection.user)
            self.hub.watching.audience.tell(admitted)
        properties = self._connack_properties(packet, client_id, authentication_data)
        fitting = confirmed(properties, 0) if are_wanted(packet) else properties
        connection.check_fits(Connack(False, ReasonCode.SUCCESS, fitting))
        self._check_owner(client_id, connection.user)
        return SessionClaim(client_id, connection.user, packet.clean_start)

    def establish(self, connection: Connection, packet: Connect, authentication_data: bytes | None) -> None:
        """Nobody else has the session: find or make it, answer, and send what waits."""
        client_id = connection.client_id
        assert client_id is not None
        self.wills.check_room(self.sessions.get(client_id), packet.will)
        session, is_resumed = self._session_for(client_id, packet, connection)
        connection.session = session
        self.newcomers.settle(connection)
        self._seated.add(connection)
        self._adopt_wishes(session, packet)
        properties = self._connack_properties(packet, client_id, authentication_data)
        if are_wanted(packet):
            connection.numbers_deliveries = True
            properties = confirmed(properties, identify(session, self._rng))
        connection.keep_alive(granted_keep_alive(packet, self.limits))
        self._greet(connection, Connack(is_resumed, ReasonCode.SUCCESS, properties))
        if self.hub.watching.audience is not None:
            self.hub.watching.audience.tell(
                SessionEstablished(
                    client_id=client_id, peer=connection.peer, user=connection.user, is_resumed=is_resumed
                )
            )
        self._listen_to_status(connection, session, packet)
        receive_maximum = packet.properties.receive_maximum or UINT16_CEILING
        session.attach(connection, min(receive_maximum, self.limits.inflight_max))

    def _listen_to_status(self, connection: Connection, session: Session, packet: Connect) -> None:
        """Take what the client says of itself as a member of shared groups, now and later."""
        declared = session.declared = declared_in(packet)
        if session.member is not None:
            session.member.adopt(declared)
        connection.expect_status(declared.status)
        if declared.status == STATUS_BY_PUBLISH or self.groups.config.status_topic:
            connection.status_topic = status_topic_of(session.client_id)

    def _session_for(self, client_id: str, packet: Connect, connection: Connection) -> tuple[Session, bool]:
        self._check_owner(client_id, connection.user)  # again: somebody may have come meanwhile
        session = self.sessions.get(client_id)
        if session is not None:
            self.take_over(session, ends=packet.clean_start)
            session = self.sessions.get(client_id)  # taking over may have ended it
        if session is not None and packet.clean_start:  # [MQTT-3.1.2-4]
            self.end_session(session, "replaced")
            session = None
        self._check_seats()  # again: others may have been let in while this one was judged
        if session is not None:
            self._resume(session)
            recheck(self, session)
            return session, True
        self.check_quota(connection.user)
        return self.add_session(client_id, connection.user), False

    def check_quota(self, user: str | None) -> None:
        """Raise ProtocolError if there can't be one more session, of this user or at all."""
        per_user_max = self.limits.sessions_per_user_max
        if len(self.sessions) >= self.limits.sessions_max:
            raise ProtocolError(ReasonCode.QUOTA_EXCEEDED, "too many sessions")
        if per_user_max and user is not None and self._sessions_of[user] >= per_user_max:
            raise ProtocolError(ReasonCode.QUOTA_EXCEEDED, "too many sessions of this user")

    def add_session(self, client_id: str, owner: str | None) -> Session:
        """A new session, empty, whose client isn't there yet."""
        session = self.sessions[client_id] = Session(self.hub, client_id, owner)
        session.overflow = overflow_of(self, session)
        self._sessions_of[owner] += 1
        return session

    def _check_owner(self, client_id: str, user: str | None) -> None:
        session = self.sessions.get(client_id)
        if session is not None and session.owner != user:
            raise ProtocolError(ReasonCode.NOT_AUTHORIZED, "the session belongs to another user")

    def take_over(self, session: Session, *, ends: bool) -> None:
        """The client has connected again, here or elsewhere; `ends`: without this session."""
        other = session.outlet
        if isinstance(other, Connection):  # [MQTT-3.1.4-3]
            if not ends and session.will is not None and session.will.delay_s:
                self.wills.put(session, None)  # the session goes on, so it isn't due yet [MQTT-3.1.3-9]
            other.end(ReasonCode.SESSION_TAKEN_OVER, "the client has connected again")

    def _resume(self, session: Session) -> None:
        if session.expiry_timer is not None:
            session.expiry_timer.cancel()
            session.expiry_timer = None
        if session.will_timer is not None:
            session.will_timer.cancel()
            session.will_timer = None
        self.wills.put(session, None)
        session.away_since_s = 0.0
        self.remember(session, AWAY, 0.0)

    def _adopt_wishes(self, session: Session, packet: Connect) -> None:
        self.wills.put(session, pending_will(packet.will) if packet.will is not None else None)
        self.change_expiry(session, asked_expiry(packet))
        self._note_will(session, 0.0)

    def granted_expiry_s(self, asked_s: float) -> float:
        """How long a session may outlive its connection, of what was asked for; infinite: for ever."""
        longest_s = self.limits.session_expiry_s_max
        return min(asked_s, inf if longest_s == UINT32_CEILING else float(longest_s))

    def change_expiry(self, session: Session, expiry_s: int) -> None:
        """How long the session outlives its connection, within our own limit."""
        granted_s = min(expiry_s, self.limits.session_expiry_s_max)
        session.expiry_s = self.granted_expiry_s(inf if expiry_s == UINT32_CEILING else expiry_s)
        if granted_s == 0:
            self.remember(session, SESSION_ENDED)  # it ends with its connection, even if that is by a crash
        session.remember(granted_s > 0)
        if granted_s == 0:
            for group in session.groups:
                group.lasts_no_longer(session)
        self.remember(session, SESSION, session.owner, session.expiry_s)
        if self.lasting is not None:
            self.lasting(session.client_id, granted_s > 0)

    def _connack_properties(
        self, packet: Connect, client_id: str, authentication_data: bytes | None
    ) -> Properties:
        agreement = agreed(declared_in(packet), self.groups.config.status_interval_ms)
        granted = granted_properties(packet, client_id, self.limits)
        return msgspec.structs.replace(
            granted, authentication_data=authentication_data, user_properties=agreement
        )

    # ---- going ---------------------------------------------------------------------------------------

    def closed(self, connection: Connection, why: str, *, was_open: bool) -> None:
        """A connection is over; its session may live on."""
        self.connections.discard(connection)
        self.newcomers.settle(connection)
        self._seated.discard(connection)
        self._watched_outlets.discard(connection)
        session = connection.session
        if was_open and self.hub.watching.audience is not None:
            gone = Disconnected(client_id=session.client_id, peer=connection.peer, why=why)
            self.hub.watching.audience.tell(gone)
        if was_open and session.outlet is connection:
            session.detach()
            self.settle_absence(session)
        self._on_closed(connection, why)

    def settle_absence(self, session: Session) -> None:
        """The client has gone: send its will and end its session, now or when it is time."""
        now = self.hub.now
        if session.expiry_s == 0:
            self.end_session(session, "not_kept")
            return
        self.remember(session, AWAY, now)
        will_due_s = now + session.will.delay_s if session.will is not None else 0.0
        self._note_will(session, will_due_s)  # one taken back by DISCONNECT too
        self.await_return(session, now, will_due_s)

    def await_return(self, session: Session, away_since_s: float, will_due_s: float) -> None:
        """Send the will of a client that is away, and end its session, when it is time."""
        session.away_since_s = away_since_s
        if session.will is not None:
            self.await_will(session, will_due_s)
        if session.expiry_s != inf:
            due_s = away_since_s + session.expiry_s
            session.expiry_timer = self.timers.set(due_s, lambda: self.end_session(session, "expired"))

    def await_will(self, session: Session, due_s: float) -> None:
        """Send the will of a client that is away when it is time [MQTT-3.1.3-9]."""
        due_s = max(due_s, self.wills_from_s)
        if due_s <= self.hub.now:
            self.send_will(session)
        else:
            session.will_timer = self.timers.set(due_s, lambda: self.send_will(session))

    def send_will(self, session: Session) -> None:
        will, session.will_timer = session.will, None
        assert will is not None
        self.wills.put(session, None)
        self._note_will(session, 0.0)
        topic = will.topic.decode()
        message = will.message(session.client_id, self.hub.now)
        if self.gate.checks_topics and not self.gate.may_publish(session.owner, session.client_id, topic):
            self.hub.count_drop("not_authorized", message)
            return
        if self.hub.watching.audience is not None:
            self.hub.watching.audience.tell(
                WillSent(
                    client_id=session.client_id, topic=topic, qos=will.qos, payload_bytes=len(will.payload)
                )
            )
        self.publishing.publish_anyway(message)

    def delete_session(self, session: Session) -> None:
        """An operator ends it, and its connection if it has one."""
        if isinstance(session.outlet, Connection):
            session.outlet.end(ReasonCode.ADMINISTRATIVE_ACTION, "the session was deleted by an operator")
        if self.sessions.get(session.client_id) is session:  # else it has ended with its connection
            self.end_session(session, "deleted")

    def end_session(self, session: Session, why: SessionEnd) -> None:
        """The session is over: nothing of it remains, but its will is sent and its group's work goes on."""
        self.sessions_expired += why == "expired"
        for timer in (session.expiry_timer, session.will_timer):
            if timer is not None:
                timer.cancel()
        if session.will is not None:
            self.send_will(session)  # [MQTT-3.1.2-8] at the latest when the session ends
        self._note_will(session, 0.0)
        for subscription in session.subscriptions.values():
            self.router.unsubscribe(subscription)
        session.subscriptions.clear()
        del self.sessions[session.client_id]
        self._sessions_of[session.owner] -= 1
        if not self._sessions_of[session.owner]:
            del self._sessions_of[session.owner]
        self.remember(session, SESSION_ENDED)
        if self.lasting is not None:
            self.lasting(session.client_id, False)
        if self.hub.watching.audience is not None:
            self.hub.watching.audience.tell(SessionEnded(client_id=session.client_id, why=why))
        session.abandon()
        for group in list(session.groups):
            group.ended(session)
        session.member = None

    # ---- the rest ------------------------------------------------------------------------------------

    def watch_congestion(self, outlet: Outlet) -> None:
        """Somebody reads too slowly: give it some time, then stop holding up those who write to it."""
        if outlet not in self._watched_outlets:
            self._watched_outlets.add(outlet)
            self._watch(outlet)

    def _watch(self, outlet: Outlet) -> None:
        due_s = outlet.patience_ends_at_s
        if outlet.congested and not outlet.impatient and due_s > self.hub.now:
            self.timers.set(due_s, lambda: self._watch(outlet))
            return
        self._watched_outlets.discard(outlet)
        outlet.lose_patience()

    def _sweep_retained(self) -> None:
        self.retained.expire()
        self.timers.set(self.hub.now + RETAINED_SWEEP_S, self._sweep_retained)

    def answer(self, connection: Connection, packet: Packet) -> None:
        """Confirm a change of a session when it is kept; at once if nothing has to be and nothing can be."""
        if self._awaits_store(connection):
            connection.promise(packet)
        else:
            connection.send(packet)

    def answer_seen(self, connection: Connection, packet: Packet) -> None:
        """The same when others know of it, too, so that what is published there from then on comes here."""
        if self.announcements is None:
            self.answer(connection, packet)
        else:
            self.announcements.when_seen(lambda: self._answer_late(connection, packet))

    def _answer_late(self, connection: Connection, packet: Packet) -> None:
        if connection.is_open:
            try:
                self.answer(connection, packet)
            except ProtocolError as error:
                connection.fail(error)

    def _greet(self, connection: Connection, connack: Connack) -> None:
        """The same for the answer that comes before all others."""
        if self._awaits_store(connection):
            connection.promise_first(connack)
        else:
            connection.send(connack)

    def _awaits_store(self, connection: Connection) -> bool:
        return connection.session.is_remembered or not self.hub.promises.store.is_failing

    def withdraw_will(self, session: Session) -> None:
        """Nobody sends it from here."""
        self.wills.put(session, None)
        self._note_will(session, 0.0)

    def _note_will(self, session: Session, due_s: float) -> None:
        """Note the will for the store, or that there is none any more. The session need not last for that."""
        if self.hub.promises.journal is None:
            return
        if session.will is not None:
            self.noted_wills.add(session.client_id)
        elif session.client_id in self.noted_wills:
            self.noted_wills.remove(session.client_id)
        else:
            return
        self.hub.promises.journal.append((WILL, session.client_id, session.will, due_s, session.owner))

    def remember(self, session: Session, kind: int, *details: Any) -> None:
        """Note a change of a session for the store, if it outlives its connection."""
        if session.is_remembered:
            self.hub.promises.journal.append((kind, session.client_id, *details))
