"""One session between two brokers of a cluster: it freezes and leaves here, or is prepared and installed
here.

These are the steps; who takes them, and when, is decided by the cluster. All records of a session that name
other nodes are written here.
"""

from braidmq.broker.broker import Broker
from braidmq.broker.passages import ArrivingPassage, LeavingPassage
from braidmq.broker.restoring import install_session, restore_subscriptions, subscription_records
from braidmq.broker.session import Session
from braidmq.store.records import LEAVING, MOVED, QUEUED, SESSION, STAMPED, Record
from braidmq.store.state import Standing, State
from braidmq.topics import split_shared

Claim = tuple[int, int]  # its stamp: hybrid time and node


def standing_of(session: Session) -> Standing:
    """What the cluster has agreed on about the session."""
    if session.standing is None:
        session.standing = Standing()
    return session.standing


def stamp(broker: Broker, session: Session, claim: Claim) -> None:
    """The client has connected with this claim."""
    standing_of(session).stamp = claim
    broker.remember(session, STAMPED, *claim)


# ---- at the old home ---------------------------------------------------------------------------------


def freeze(broker: Broker, session: Session, to: int, claim: Claim) -> LeavingPassage:
    """Take the session over from its client, and let it only queue, until it has left or stays after all."""
    broker.take_over(session, ends=False)
    passage = LeavingPassage(session, _stop_timers(session))
    session.passage = passage
    standing_of(session).leaving = (to, *claim)
    broker.remember(session, LEAVING, to, *claim)
    return passage


def _stop_timers(session: Session) -> float:
    """Let neither the will nor the session fall due; when the will would have."""
    will_due_s = session.will_timer.at_s if session.will_timer is not None else 0.0
    for timer in (session.expiry_timer, session.will_timer):
        if timer is not None:
            timer.cancel()
    session.expiry_timer = session.will_timer = None
    return will_due_s


def thaw(broker: Broker, session: Session) -> None:
    """The session stays, with all that has come."""
    passage, session.passage = session.passage, None
    standing_of(session).leaving = None
    broker.remember(session, LEAVING, 0, 0, 0)
    will_due_s = passage.will_due_s if isinstance(passage, LeavingPassage) else 0.0
    broker.await_return(session, session.away_since_s or broker.hub.now, will_due_s)


def offer_records(session: Session) -> list[Record]:
    """What another node has to know to subscribe on behalf of the session."""
    return [(SESSION, session.client_id, session.owner, session.expiry_s), *subscription_records(session)]


def without_aside(records: list[Record], passage: LeavingPassage) -> list[Record]:
    """Of an export, what the session had before the cuts, and nothing of how it leaves."""
    return [
        record
        for record in records
        if record[0] not in (LEAVING, MOVED) and not (record[0] == QUEUED and record[2] in passage.aside)
    ]


def let_go(broker: Broker, session: Session, is_sending_on: bool = False) -> None:
    """Another node has the session: end it here, without dropping or sending anything that belongs to it.

    If some nodes' cuts are late its passage stays, and sees to what they have published before.
    """
    _stop_timers(session)
    broker.withdraw_will(session)
    session.let_go()
    kept = [one for one in session.subscriptions.values() if one.group is None] if is_sending_on else []
    broker.end_session(session, "moved")
    session.remember(False)
    if not is_sending_on:
        session.passage = None
    if isinstance(session.passage, LeavingPassage):
        session.passage.is_gone = True
    for subscription in kept:
        broker.router.subscribe(subscription)
        session.subscriptions[subscription.filter.decode()] = subscription


def stop_sending_on(broker: Broker, session: Session) -> None:
    """Nothing late can come any more."""
    for subscription in session.subscriptions.values():
        broker.router.unsubscribe(subscription)
    session.subscriptions.clear()
    session.passage = None


# ---- at the new home ---------------------------------------------------------------------------------


def prepare(broker: Broker, offered: list[Record]) -> ArrivingPassage:
    """Subscribe on behalf of a session that is on its way here. What it takes waits until it is installed.

    ValueError if that is no offer, or there is a session of its name; ProtocolError if there is no room.
    """
    state = State()
    state.apply(offered)
    [(client_id, saved)] = state.sessions.items()
    if client_id in broker.sessions:
        raise ValueError(f"there is a session {client_id}")
    broker.check_quota(saved.owner)
    for filter in [filter for filter in saved.subscriptions if split_shared(filter)[0] is not None]:
        del saved.subscriptions[filter]  # a group gives it nothing before it is here
    session = broker.add_session(client_id, saved.owner)
    session.expiry_s = broker.granted_expiry_s(saved.expiry_s)
    passage = session.passage = ArrivingPassage(session)
    restore_subscriptions(broker, session, saved)
    return passage


def install(
    broker: Broker, session: Session, records: list[Record], old: int, claim: Claim, in_time: frozenset[int]
) -> None:
    """Give a prepared session all that it had; what has come for it here is behind that."""
    install_session(broker, records, broker.hub.now, session)
    standing_of(session).moved = (old, *claim, 0)
    broker.remember(session, MOVED, old, *claim, 0)
    if isinstance(session.passage, ArrivingPassage):
        session.passage.installed(in_time)


def settle(broker: Broker, session: Session, old: int, claim: Claim, is_confirmed: bool) -> None:
    """The session is this broker's own. `is_confirmed`: the old home has let go of it."""
    moved = (0, 0, 0, 0) if is_confirmed else (old, *claim, 1)
    standing_of(session).moved = None if is_confirmed else moved
    broker.remember(session, MOVED, *moved)
