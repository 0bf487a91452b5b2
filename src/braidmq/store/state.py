"""What the records add up to: the sessions, retained messages and wills that a restart finds.

`State.apply` is the meaning of every record. Records about a session that isn't there are let pass: they are
what was still under way when it ended. Cost: a few dictionary operations a record.
"""

from bisect import insort
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Final

from braidmq.messages.message import Message
from braidmq.store import records as kinds
from braidmq.store.records import GroupName, Record

Page = tuple[int, int, int, int, int, int, int]  # first, last, cost, file, offset, size, count
Terms = tuple[int, bool, bytes, GroupName | None]  # of a delivery: QoS, retain, identifiers, shared group

QUEUED: Final = kinds.QUEUED
NO_TERMS: Final[Terms] = (0, False, b"", None)  # of no delivery
TERMS_MAX: Final = 10_000  # of which one object is shared
DENSE: Final = 8  # sequences of a page that are looked for one by one, for each delivery in it
NONE: Final[AbstractSet[int]] = frozenset()  # most sessions have none, and a set of one's own takes room


class Standing:
    """What the nodes of a cluster have agreed on about one session. A stamp is (time, node)."""

    __slots__ = ("leaving", "moved", "stamp")

    def __init__(self) -> None:
        self.stamp: tuple[int, int] | None = None  # of its client's last CONNECT
        self.leaving: tuple[int, int, int] | None = None  # for which node, by which claim
        self.moved: tuple[int, int, int, int] | None = None  # from where, by which claim; 1: used since


class SavedSession:
    """One session as it was when the last record was kept."""

    __slots__ = (
        "away_since_s", "deliveries", "expiry_s", "identity", "inbound", "last_packet_id", "last_sequence",
        "other_terms", "owner", "pages", "received", "sent", "standing", "subscriptions", "terms",
    )

    def __init__(self, owner: str | None, expiry_s: float) -> None:
        self.owner = owner
        self.expiry_s = expiry_s
        self.away_since_s = 0.0  # 0 = it was connected
        self.subscriptions: dict[str, tuple[int, int]] = {}  # filter -> options byte, identifier
        self.deliveries: dict[int, Message | None] = {}  # by sequence, in the order of queueing
        self.terms: Terms = NO_TERMS  # of all deliveries but for
        self.other_terms: dict[int, Terms] | None = None  # these
        self.sent: dict[int, int] = {}  # sequence -> packet id
        self.received = NONE  # sequences of QoS 2 deliveries that the client has
        self.inbound = NONE
        self.identity = 0  # 0 = nobody has asked for it
        self.last_sequence = 0  # of all deliveries there ever were
        self.last_packet_id = 0
        self.pages: list[Page] = []  # in order; what they hold is in no other place
        self.standing: Standing | None = None  # None: its node is in no cluster

    def terms_of(self, sequence: int) -> Terms:
        """On what terms a delivery is to be made."""
        return self.other_terms.get(sequence, self.terms) if self.other_terms else self.terms

    def set_terms(self, sequence: int, terms: Terms) -> None:
        """A million deliveries have nearly always the terms of their neighbours, so those take no room."""
        if self.other_terms:
            self.other_terms.pop(sequence, None)
        if self.terms is NO_TERMS:
            self.terms = terms
        elif self.terms != terms:
            self.other_terms = self.other_terms or {}
            self.other_terms[sequence] = terms

    def forget(self, sequence: int) -> None:
        self.deliveries.pop(sequence, None)
        if self.other_terms:
            self.other_terms.pop(sequence, None)


class SavedWill:
    """A will that was not sent; `due_s` is 0 if its client was connected."""

    __slots__ = ("due_s", "owner", "will")

    def __init__(self, will: Any, due_s: float, owner: str | None) -> None:
        self.will = will
        self.due_s = due_s
        self.owner = owner


class State:
    def __init__(self) -> None:
        self.sessions: dict[str, SavedSession] = {}
        self.retained: dict[bytes, Any] = {}
        self.wills: dict[str, SavedWill] = {}
        self.groups: dict[GroupName, dict[int, Any]] = {}  # what waits in shared groups, by its sequence
        self.group_pages: dict[GroupName, list[Page]] = {}  # in order; what they hold is in no other place
        self.peer_positions: dict[int, int] = {}  # node -> up to where what it sent was taken
        self.oldest_needed = 0  # number of the first file that counts
        self._terms: dict[Terms, Terms] = {}  # one object for all deliveries on the same terms

    def apply(self, records: list[Record]) -> None:
        sessions = self.sessions
        for record in records:
            if record[0] == QUEUED:  # nearly all of them in a large store
                session = sessions.get(record[1])
                if session is not None:
                    sequence = record[2]
                    session.deliveries[sequence] = record[3]
                    if session.terms != record[4:] or session.other_terms:
                        session.set_terms(sequence, self._shared(record[4:]))
                    if sequence > session.last_sequence:
                        session.last_sequence = sequence
            else:
                HANDLERS[record[0]](self, *record[1:])

    def _shared(self, terms: Terms) -> Terms:
        if len(self._terms) >= TERMS_MAX:
            self._terms.clear()
        return self._terms.setdefault(terms, terms)

    def _session(self, client_id: str, owner: str | None, expiry_s: float) -> None:
        session = self.sessions.get(client_id)
        if session is None:
            self.sessions[client_id] = SavedSession(owner, expiry_s)
        else:
            session.owner = owner
            session.expiry_s = expiry_s

    def _session_ended(self, client_id: str) -> None:
        self.sessions.pop(client_id, None)

    def _retained(self, topic: bytes, message: Any) -> None:
        if message is None:
            self.retained.pop(topic, None)
        else:
            self.retained[topic] = message

    def _will(self, client_id: str, will: Any, due_s: float, owner: str | None) -> None:
        if will is None:
            self.wills.pop(client_id, None)
        else:
            self.wills[client_id] = SavedWill(will, due_s, owner)

    def _group_queued(self, name: str, filter: bytes, sequence: int, message: Any) -> None:
        self.groups.setdefault(GroupName(name, filter), {})[sequence] = message

    def _group_taken(self, name: str, filter: bytes, sequence: int) -> None:
        self.groups.get(GroupName(name, filter), {}).pop(sequence, None)

    def _group_ended(self, name: str, filter: bytes) -> None:
        self.groups.pop(GroupName(name, filter), None)
        self.group_pages.pop(GroupName(name, filter), None)

    def _group_paged(self, name: str, filter: bytes, *page: int) -> None:
        group = GroupName(name, filter)
        waiting = self.groups.get(group, {})
        for sequence in _sequences_of(page, waiting):
            waiting.pop(sequence, None)
        self.group_pages[group] = _with_page(self.group_pages.get(group, []), page)

    def _group_unpaged(self, name: str, filter: bytes) -> None:
        pages = self.group_pages.get(GroupName(name, filter))
        if pages:
            del pages[0]

    def _peer_position(self, node: int, sequence: int) -> None:
        if sequence:
            self.peer_positions[node] = sequence
        else:
            self.peer_positions.pop(node, None)

    def _checkpointed(self, number: int) -> None:
        self.oldest_needed = number


def _of_session(change: Callable[..., None]) -> Callable[..., None]:
    """The handler of a record that changes one session, if it is there."""

    def handle(state: State, client_id: str, *details: Any) -> None:
        session = state.sessions.get(client_id)
        if session is not None:
            change(session, *details)

    return handle


def _away(session: SavedSession, since_s: float) -> None:
    session.away_since_s = since_s


def _subscribed(session: SavedSession, filter: str, options: int, identifier: int) -> None:
    session.subscriptions[filter] = (options, identifier)


def _unsubscribed(session: SavedSession, filter: str) -> None:
    session.subscriptions.pop(filter, None)


def _numbered(session: SavedSession, identity: int, last_sequence: int, last_packet_id: int) -> None:
    session.identity = identity
    session.last_sequence = max(session.last_sequence, last_sequence)
    session.last_packet_id = last_packet_id


def _standing(session: SavedSession) -> Standing:
    session.standing = session.standing or Standing()
    return session.standing


def _stamped(session: SavedSession, *stamp: int) -> None:
    _standing(session).stamp = (stamp[0], stamp[1])


def _leaving(session: SavedSession, node: int, *stamp: int) -> None:
    _standing(session).leaving = (node, stamp[0], stamp[1]) if node else None


def _moved(session: SavedSession, node: int, time: int, claimer: int, is_settled: int) -> None:
    _standing(session).moved = (node, time, claimer, is_settled) if node else None


def _sent(session: SavedSession, sequence: int, packet_id: int) -> None:
    session.last_packet_id = packet_id
    if sequence in session.deliveries:
        session.sent[sequence] = packet_id


def _received(session: SavedSession, sequence: int) -> None:
    if sequence in session.deliveries:
        session.received = with_one(session.received, sequence)


def _settled(session: SavedSession, sequence: int) -> None:
    session.forget(sequence)
    session.sent.pop(sequence, None)
    session.received = without_one(session.received, sequence)


def with_one(found: AbstractSet[int], one: int) -> AbstractSet[int]:
    changed = found if isinstance(found, set) else set()
    changed.add(one)
    return changed


def without_one(found: AbstractSet[int], one: int) -> AbstractSet[int]:
    if isinstance(found, set):
        found.discard(one)
    return found


def _inbound(session: SavedSession, packet_id: int) -> None:
    session.inbound = with_one(session.inbound, packet_id)


def _inbound_released(session: SavedSession, packet_id: int) -> None:
    session.inbound = without_one(session.inbound, packet_id)


def _paged(session: SavedSession, *page: int) -> None:
    for sequence in _sequences_of(page, session.deliveries):
        session.forget(sequence)
    session.last_sequence = max(session.last_sequence, page[1])
    session.pages = _with_page(session.pages, page)


def _sequences_of(page: tuple[int, ...], waiting: Iterable[int]) -> Iterable[int]:
    """Where what a page holds may be among what waits."""
    first, last, count = page[0], page[1], page[6]
    # Sequences may have wide gaps; then it is shorter to look at what there is.
    is_dense = last - first < DENSE * count
    return range(first, last + 1) if is_dense else [at for at in waiting if first <= at <= last]


def _with_page(pages: list[Page], page: tuple[int, ...]) -> list[Page]:
    first, last, cost, file, offset, size, count = page
    if pages and first <= pages[-1][0]:  # perhaps one that has moved
        pages = [known for known in pages if known[0] != first]
    insort(pages, (first, last, cost, file, offset, size, count))
    return pages


def _unpaged(session: SavedSession) -> None:
    if session.pages:
        del session.pages[0]


HANDLERS: Final[dict[int, Callable[..., None]]] = {
    kinds.SESSION: State._session,
    kinds.SESSION_ENDED: State._session_ended,
    kinds.AWAY: _of_session(_away),
    kinds.SUBSCRIBED: _of_session(_subscribed),
    kinds.UNSUBSCRIBED: _of_session(_unsubscribed),
    kinds.NUMBERED: _of_session(_numbered),
    kinds.SENT: _of_session(_sent),
    kinds.RECEIVED: _of_session(_received),
    kinds.SETTLED: _of_session(_settled),
    kinds.INBOUND: _of_session(_inbound),
    kinds.INBOUND_RELEASED: _of_session(_inbound_released),
    kinds.PAGED: _of_session(_paged),
    kinds.UNPAGED: _of_session(_unpaged),
    kinds.STAMPED: _of_session(_stamped),
    kinds.LEAVING: _of_session(_leaving),
    kinds.MOVED: _of_session(_moved),
    kinds.RETAINED: State._retained,
    kinds.WILL: State._will,
    kinds.GROUP_QUEUED: State._group_queued,
    kinds.GROUP_TAKEN: State._group_taken,
    kinds.GROUP_ENDED: State._group_ended,
    kinds.GROUP_PAGED: State._group_paged,
    kinds.GROUP_UNPAGED: State._group_unpaged,
    kinds.PEER_POSITION: State._peer_position,
    kinds.CHECKPOINTED: State._checkpointed,
}
