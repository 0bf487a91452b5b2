"""The broker's state from what a store kept, and back; and one session from one broker to another.

`restore` gives a new broker all that was kept, `install_session` gives a living one a session that another
had; both go the same way. `living` says all that is to be kept, `session_records` what rebuilds one
session.

Invariant: applying all that `living` gives to an empty State, and restoring that, gives the same broker.
What is not kept: connections, topic aliases, QoS 0, and of shared groups whose turn it is and what was
measured.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from math import inf
from typing import Final

from braidmq.broker.broker import Broker
from braidmq.broker.delivery_numbers import numbers_record
from braidmq.broker.passages import LeavingPassage
from braidmq.broker.peers import CLIENT_ID_PREFIX, Peer, node_of
from braidmq.broker.queued import QueuedReceiver
from braidmq.broker.receiver import Target
from braidmq.broker.router import Subscription
from braidmq.broker.session import Session
from braidmq.broker.sharing.receiver import GroupReceiver
from braidmq.broker.sharing.registry import GroupHere
from braidmq.store.records import (
    AWAY,
    GROUP_ENDED,
    GROUP_PAGED,
    GROUP_QUEUED,
    INBOUND,
    LEAVING,
    MOVED,
    PAGED,
    PEER_POSITION,
    QUEUED,
    RECEIVED,
    RETAINED,
    SENT,
    SESSION,
    SESSION_ENDED,
    SETTLED,
    STAMPED,
    SUBSCRIBED,
    WILL,
    GroupName,
    Record,
    options_byte,
)
from braidmq.store.state import SavedSession, SavedWill, Standing, State
from braidmq.topics import split_shared

RETAINED_SLICE: Final = 64

# ---- from the store ----------------------------------------------------------------------------------


def restore(broker: Broker, state: State, now: float) -> None:
    """Give a new broker the state that was kept, which is used up.

    Clients that were connected have just been lost.
    """
    broker.turn(now)
    for message in state.retained.values():
        broker.retained.restore(message)
    _restore_peers(broker, state)
    _restore_sessions(broker, state)


def install_session(
    broker: Broker, records: list[Record], now: float, prepared: Session | None = None
) -> Session:
    """Give a living broker a session that another one had, away from its client, and note it for the store.

    `records` are what `export_session` gave there; `prepared` is the session if it has begun to arrive.
    ValueError if they are of anything but one session whose pages have been read, or if there is another one
    of its name; ProtocolError if there is no room.
    """
    broker.turn(now)
    state = State()
    state.apply(records)
    [(client_id, saved)] = state.sessions.items()
    others = (saved.pages, state.retained, state.groups, state.group_pages)
    if any(others) or not state.wills.keys() <= {client_id}:
        raise ValueError("these are not the records of one session alone")
    if broker.sessions.get(client_id) is not prepared:
        raise ValueError(f"there is a session {client_id}")
    if prepared is None:
        broker.check_quota(saved.owner)
    for saved_will in state.wills.values():
        broker.wills.check_room_for(saved_will.will)
    if broker.hub.promises.journal is not None:
        for record in records:
            broker.hub.promises.journal.append(record)
    _restore_sessions(broker, state)
    return broker.sessions[client_id]


def _restore_peers(broker: Broker, state: State) -> None:
    for node, position in state.peer_positions.items():
        broker.peers.restored(node).restore_position(position)
    for client_id in [name for name in state.sessions if name.startswith(CLIENT_ID_PREFIX)]:
        saved = state.sessions.pop(client_id)
        peer = broker.peers.restored(node_of(client_id))
        targets: dict[bytes, Target] = {}
        for page in saved.pages:
            peer.restore_page(*page)
        for sequence in sorted(saved.deliveries):
            message = saved.deliveries[sequence]
            qos, retain, identifiers, _ = saved.terms_of(sequence)
            target = targets.setdefault(identifiers, Target(peer, qos, False, identifiers))
            if message is not None:
                peer.restore_queued(message, target, qos, retain, sequence)
        if broker.hub.pager is not None:
            broker.hub.pager.relieve()


def _restore_sessions(broker: Broker, state: State) -> None:
    for client_id, saved in state.sessions.items():
        session = broker.sessions.get(client_id) or broker.add_session(client_id, saved.owner)
        session.standing = saved.standing
        session.expiry_s = broker.granted_expiry_s(saved.expiry_s)  # the limit may be lower than it was
        session.remember(True)
        if broker.lasting is not None:
            broker.lasting(client_id, True)
        restore_subscriptions(broker, session, saved)
        saved.subscriptions.clear()
    # Only now every shared group is there again, so that what belongs to it finds it.
    _restore_waiting(broker, state)
    restored: list[tuple[Session, float]] = []  # and since when the client has been away
    for client_id in list(state.sessions):
        saved = state.sessions.pop(client_id)  # its memory is used for what follows
        session = broker.sessions[client_id]
        _restore_deliveries(broker, session, saved)
        restored.append((session, saved.away_since_s))
        if broker.hub.pager is not None:
            broker.hub.pager.relieve()
    for session, _ in restored:
        for group in list(session.groups):
            group.restored(session)
    _restore_absences(broker, restored, state.wills)


def _restore_waiting(broker: Broker, state: State) -> None:
    for name in state.groups | state.group_pages:
        waiting, pages = state.groups.get(name, {}), state.group_pages.get(name, [])
        group = broker.groups.get(*name)
        if not isinstance(group, GroupReceiver) and broker.groups.orphans is not None:
            broker.groups.orphans[name] = (waiting, pages)  # another node may have it
            continue
        if not isinstance(group, GroupReceiver):  # its last lasting member has left since
            broker.hub.promises.journal.append((GROUP_ENDED, *name))
            if broker.hub.pager is not None:
                broker.hub.pager.give_up(pages)
            continue
        group.restore_waiting(waiting, pages)
        waiting.clear()  # its memory is used for what follows
        if broker.hub.pager is not None:
            broker.hub.pager.relieve()


def restore_subscriptions(broker: Broker, session: Session, saved: SavedSession) -> None:
    """Let the session subscribe to what it did."""
    for filter, (options, identifier) in saved.subscriptions.items():
        group, plain = split_shared(filter)
        subscription = Subscription(
            session,
            plain.encode(),
            group,
            options & 3,
            bool(options & 4),
            bool(options & 8),
            options >> 4,
            identifier,
        )
        broker.router.subscribe(subscription)
        session.subscriptions[filter] = subscription


def _restore_deliveries(broker: Broker, session: Session, saved: SavedSession) -> None:
    targets: dict[tuple[bytes, GroupName | None], Target] = {}
    for page in saved.pages:
        session.restore_page(*page)
    # In order: what came back from a page was noted again, behind what followed it.
    for sequence in sorted(saved.deliveries):
        message = saved.deliveries[sequence]
        qos, retain, identifiers, group = saved.terms_of(sequence)
        target = targets.get((identifiers, group))
        if target is None:
            target = Target(session, qos, False, identifiers, _group(broker, group))
            targets[identifiers, group] = target
        packet_id = saved.sent.get(sequence)
        kept = None if sequence in saved.received else message
        if packet_id is not None:
            shared = target.group
            delivery = shared.restore_delivery(target, kept, sequence, qos) if shared is not None else None
            session.restore_sent(packet_id, kept, target, qos, retain, sequence, delivery)
        elif message is not None and target.group is not None:  # as brokers before this version kept it
            broker.remember(session, SETTLED, sequence)
            target.group.take_in(message)
        elif message is not None:
            session.restore_queued(message, target, qos, retain, sequence)
    session.restore_numbers(saved.identity, saved.last_sequence, saved.last_packet_id)
    session.restore_inbound(set(saved.inbound))


def _group(broker: Broker, name: GroupName | None) -> GroupHere | None:
    """The shared group of that name; None also when it has no members any more."""
    if name is None:
        return None
    return broker.groups.get(name.name, name.filter)


def _restore_absences(
    broker: Broker, restored: list[tuple[Session, float]], wills: dict[str, SavedWill]
) -> None:
    """Let the time of those go on who were away, and begin it for those who were connected."""
    broker.noted_wills.update(wills)
    for session, away_since_s in restored:
        saved_will = wills.pop(session.client_id, None)
        if saved_will is not None:
            broker.wills.put(session, saved_will.will)
        if session.standing is not None and session.standing.leaving is not None:
            session.away_since_s = away_since_s or broker.hub.now
            session.passage = LeavingPassage(session, saved_will.due_s if saved_will else 0.0)
        elif not away_since_s:
            broker.settle_absence(session)
        else:
            broker.await_return(session, away_since_s, saved_will.due_s if saved_will else 0.0)
    for client_id, saved_will in wills.items():  # their sessions ended with the connection
        session = Session(broker.hub, client_id, saved_will.owner)
        broker.wills.put(session, saved_will.will)
        broker.await_will(session, 0.0)


# ---- to the store ------------------------------------------------------------------------------------


def living(broker: Broker) -> Iterator[list[Record]]:
    """The state to be kept, in parts; each part is true at the moment in which it is taken."""
    sessions = list(broker.sessions.values())
    topics = iter(broker.retained.topics_to_keep())
    for session in sessions:
        if broker.sessions.get(session.client_id) is not session:
            continue  # it has ended meanwhile, and that is on record
        if session.is_remembered:
            yield session_records(session)
            if broker.hub.pager is not None:
                broker.hub.pager.tidy(session)
        elif session.will is not None:
            yield _will_records(session)
    for peer in broker.peers:
        yield peer_records(peer)
        if broker.hub.pager is not None:
            broker.hub.pager.tidy(peer)
    for group in broker.groups:
        if group.is_lasting:
            yield group.records()
        if group.pages is not None:
            group.pages.tidy()
    for name, (waiting, pages) in (broker.groups.orphans or {}).items():
        on_disk: list[Record] = [(GROUP_PAGED, *name, *page) for page in pages]
        yield on_disk + [(GROUP_QUEUED, *name, *kept) for kept in waiting.items()]
    while part := list(islice(topics, RETAINED_SLICE)):
        yield [(RETAINED, topic, broker.retained.newest(topic)) for topic in part]


def peer_records(peer: Peer) -> list[Record]:
    """What rebuilds what waits for a peer, and up to where its own entries were taken."""
    client_id = peer.client_id
    records: list[Record] = [
        (PEER_POSITION, peer.node, peer.taken),
        (SESSION_ENDED, client_id),
        (SESSION, client_id, None, inf),
    ]
    records += [
        (QUEUED, client_id, sequence, message, 1, False, head, None)
        for sequence, message, head in peer.unacknowledged()
    ]
    return records + list(_waiting_records(peer))


def session_records(session: Session) -> list[Record]:
    """What rebuilds the session, whatever the store had of it before."""
    client_id = session.client_id
    records: list[Record] = [
        (SESSION_ENDED, client_id),
        (SESSION, client_id, session.owner, session.expiry_s),
        (AWAY, client_id, session.away_since_s),
    ]
    records += subscription_records(session)
    if session.standing is not None:
        records += _standing_records(client_id, session.standing)
    records += _delivery_records(session)
    records.append(numbers_record(session))  # behind SENT records, which are not in the order of their ids
    records += [(INBOUND, client_id, packet_id) for packet_id in session.inbound or ()]
    return records + _will_records(session)


def subscription_records(session: Session) -> list[Record]:
    """What the session subscribes to."""
    records: list[Record] = []
    for filter, kept in session.subscriptions.items():
        options = options_byte(kept.qos, kept.no_local, kept.retain_as_published, kept.retain_handling)
        records.append((SUBSCRIBED, session.client_id, filter, options, kept.identifier))
    return records


def _standing_records(client_id: str, standing: Standing) -> list[Record]:
    records: list[Record] = []
    if standing.stamp is not None:
        records.append((STAMPED, client_id, *standing.stamp))
    if standing.leaving is not None:
        records.append((LEAVING, client_id, *standing.leaving))
    if standing.moved is not None:
        records.append((MOVED, client_id, *standing.moved))
    return records


def export_session(session: Session, then: Callable[[list[Record] | None], None]) -> None:
    """Give `then` the records that rebuild the session anywhere, as soon as its pages have been read.

    They are true at that moment: whoever moves a session lets nothing happen to it afterwards. None if a page
    can't be read.
    """
    _Export(session, then).go_on()


class _Export:
    def __init__(self, session: Session, then: Callable[[list[Record] | None], None]) -> None:
        self._session = session
        self._then = then
        self._pages: dict[tuple[int, int], list[Record] | None] = {}  # by file and offset
        self._awaited = 0

    def go_on(self) -> None:
        """Read the pages that aren't known yet; others may have been written meanwhile."""
        session, pager = self._session, self._session.hub.pager
        pages = session.queue.paged() if session.queue is not None else []
        missing = [page for page in pages if page[3:5] not in self._pages]
        if pager is None or not missing:
            self._then(self._records())
            return
        self._awaited = len(missing)
        for _, _, _, file, offset, size, _ in missing:
            pager.read(file, offset, size, partial(self._read, (file, offset)))

    def _read(self, place: tuple[int, int], records: list[Record] | None) -> None:
        self._pages[place] = records
        self._awaited -= 1
        if not self._awaited:
            self.go_on()

    def _records(self) -> list[Record] | None:
        found: list[Record] = []
        for record in session_records(self._session):
            of_page = [record] if record[0] != PAGED else self._pages[record[5], record[6]]
            if of_page is None:
                return None
            found += of_page
        return found


def _delivery_records(session: Session) -> Iterator[Record]:
    client_id = session.client_id
    for packet_id, message, target, qos, retain, sequence in session.in_flight():
        yield (QUEUED, client_id, sequence, message, qos, retain, target.identifiers, target.group)
        yield (SENT, client_id, sequence, packet_id)
        if message is None:
            yield (RECEIVED, client_id, sequence)
    yield from _waiting_records(session)


def _waiting_records(owner: QueuedReceiver) -> Iterator[Record]:
    client_id = owner.client_id
    if owner.queue is not None:
        yield from ((PAGED, client_id, *page) for page in owner.queue.paged())
    for waiting in owner.queue or ():
        target = waiting.target
        yield (
            QUEUED,
            client_id,
            waiting.sequence,
            waiting.message,
            waiting.qos,
            waiting.retain,
            target.identifiers,
            target.group,
        )


def _will_records(session: Session) -> list[Record]:
    if session.will is None:
        return []
    if isinstance(session.passage, LeavingPassage):
        due_s = session.passage.will_due_s
    else:
        due_s = session.will_timer.at_s if session.will_timer is not None else 0.0
    return [(WILL, session.client_id, session.will, due_s, session.owner)]
