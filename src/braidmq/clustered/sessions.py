"""The broker's side of claims and moves: what `cluster.claims` and `cluster.moving` decide is done here.

A node plugs it in like this:

    sessions = Sessions(broker, node_id, clock)
    moves = Moves(members, sessions)
    claims = Claims(members, clock, sessions, moves)      # both are added to the core
    node.carry_out(sessions.hands, sessions.entries)      # effects by type, entries by kind
    sessions.connect(node.tell, node.enter)               # give an event to the core; carry out an Enter

`connect` is called when the broker has its restored sessions and the core its members. Entries are given in
their order among the messages of the same stream. Node ids stand for origins; in a passage this node is 0.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from braidmq.access.verdicts import Refused
from braidmq.broker import moving
from braidmq.broker.admission import SessionClaim
from braidmq.broker.broker import Broker
from braidmq.broker.passages import ArrivingPassage, LeavingPassage
from braidmq.broker.peers import Peer
from braidmq.broker.receiver import Target
from braidmq.broker.restoring import export_session
from braidmq.broker.session import Session
from braidmq.cluster.claim_messages import ClaimAsked, ClaimWithdrawn, Denied, Granted
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.effects import Enter
from braidmq.cluster.homes import Home
from braidmq.cluster.move_messages import (
    CUT,
    NO_ROUTE,
    SENT_ON,
    ClosePassage,
    CutCame,
    CutHead,
    CutHere,
    Describe,
    Described,
    Drop,
    EndSession,
    Export,
    Exported,
    Freeze,
    Install,
    Installed,
    LetGo,
    LetGone,
    Move,
    Prepare,
    Prepared,
    Recovered,
    SentOnHead,
    Settle,
    StopSendingOn,
    TailCame,
    Thaw,
)
from braidmq.clustered.node import CarryOut, TakeEntry
from braidmq.errors import ProtocolError
from braidmq.messages.message import Message
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.records import QUEUED, Record
from braidmq.topics.filters import matches
from braidmq.wire import ReasonCode

HERE: Final = 0  # this node, as the origin of messages
SPLIT: Final = 0  # in place of a claim's time: from one of two sessions of a client

Head = TypeVar("Head", CutHead, SentOnHead)
Answered = Callable[[Refused | None], None]
UNREADABLE: Final = (ValueError, TypeError, msgspec.MsgspecError)


def _nobody(what: Any) -> None:
    """Until the node is connected nobody listens."""


class Sessions:
    """Is the broker's `Claims`, and the cluster's `Homes`."""

    def __init__(self, broker: Broker, me: int, clock: HybridClock) -> None:
        self._broker = broker
        self._me = me
        self._clock = clock
        self._tell: Callable[[object], None] = _nobody
        self._enter: Callable[[Enter], None] = _nobody
        self._asked: dict[int, Answered] = {}  # by token
        self._last_token = 0
        self._leaving: dict[Move, tuple[Session, LeavingPassage]] = {}
        self._arriving: dict[Move, tuple[Session, ArrivingPassage]] = {}
        self.hands: dict[type, CarryOut] = {
            Granted: self._granted,
            Denied: self._denied,
            EndSession: self._end_session,
            Freeze: self._freeze,
            Describe: self._describe,
            Export: self._export,
            Thaw: self._thaw,
            LetGo: self._let_go,
            StopSendingOn: lambda effect: self._stop_sending_on(effect.move),
            Prepare: self._prepare,
            CutHere: self._cut_here,
            Install: self._install,
            Drop: self._drop,
            Settle: self._settle,
            ClosePassage: self._close_passage,
        }
        self.entries: dict[int, TakeEntry] = {CUT: self._cut_entered, SENT_ON: self._sent_on_entered}

    def connect(self, tell: Callable[[object], None], enter: Callable[[Enter], None]) -> None:
        """The node is ready: go on with the moves that a restart has cut short."""
        self._tell, self._enter = tell, enter
        self._broker.claims = self
        leaving, moved = [], []
        for session in self._broker.sessions.values():
            standing = session.standing
            if standing is not None and standing.leaving is not None:
                to, hlc, _ = standing.leaving
                move = Move(session.client_id, hlc, to)
                leaving.append(move)
                if isinstance(session.passage, LeavingPassage):
                    self._leaving[move] = (session, session.passage)
            if standing is not None and standing.moved is not None:
                old, hlc, to, is_settled = standing.moved
                moved.append((Move(session.client_id, hlc, to), old, bool(is_settled)))
        if leaving or moved:
            tell(Recovered(tuple(leaving), tuple(moved)))

    # ---- what the cluster asks -----------------------------------------------------------------------

    def find(self, client: str) -> Home | None:
        session = self._broker.sessions.get(client)
        if session is None:
            return None
        stamp = session.standing.stamp if session.standing is not None else None
        return Home(stamp or (0, self._me), session.owner, session.expiry_s > 0, session.is_connected)

    def clients(self) -> Iterable[str]:
        return list(self._broker.sessions)

    # ---- what the broker asks ------------------------------------------------------------------------

    def ask(self, claim: SessionClaim, answered: Answered) -> Callable[[], None] | None:
        self._last_token += 1
        token = self._last_token
        self._asked[token] = answered
        self._tell(ClaimAsked(token, claim.client_id, claim.user, claim.clean_start))
        return partial(self._withdraw, token)

    def _withdraw(self, token: int) -> None:
        if self._asked.pop(token, None) is not None:
            self._tell(ClaimWithdrawn(token))

    def _granted(self, effect: Granted) -> None:
        answered = self._asked.pop(effect.token, None)
        if answered is None:
            return
        answered(None)
        session = self._broker.sessions.get(effect.client)
        if session is not None:
            moving.stamp(self._broker, session, effect.stamp)

    def _denied(self, effect: Denied) -> None:
        answered = self._asked.pop(effect.token, None)
        if answered is not None:
            answered(Refused(effect.reason, effect.why))

    def _end_session(self, effect: EndSession) -> None:
        session = self._broker.sessions.get(effect.client)
        if session is None:
            return
        self._broker.take_over(session, ends=True)
        if self._broker.sessions.get(effect.client) is not session:
            return  # it has ended with its connection
        if effect.newer_at:
            export_session(session, partial(self._send_rest_on, session, effect.newer_at))
        else:
            self._broker.end_session(session, "replaced")

    def _send_rest_on(self, session: Session, newer_at: int, records: list[Record] | None) -> None:
        """There are two sessions of one client: give the newer one what may come twice, and end the other."""
        client, count_drop = session.client_id, self._broker.hub.count_drop
        if self._broker.sessions.get(client) is not session:
            return
        for record in records or ():
            if record[0] != QUEUED or record[3] is None or record[7] is not None:
                continue
            if record[4] == 1:
                head = SentOnHead(client, SPLIT, newer_at, self._me, 1, record[5], b"")
                self._enter(Enter(newer_at, SENT_ON, msgspec.msgpack.encode(head), record[3], NO_ROUTE))
            else:
                count_drop("session_ended", record[3], client)  # the client may have it already
        moving.let_go(self._broker, session)

    # ---- the old home --------------------------------------------------------------------------------

    def _freeze(self, effect: Freeze) -> None:
        move, session = effect.move, self._broker.sessions.get(effect.move.client)
        if session is not None:
            passage = moving.freeze(self._broker, session, move.to, (move.hlc, move.to))
            self._leaving[move] = (session, passage)

    def _describe(self, effect: Describe) -> None:
        if effect.move in self._leaving:
            session, _ = self._leaving[effect.move]
            self._tell(Described(effect.move, self._encoded(moving.offer_records(session))))

    def _export(self, effect: Export) -> None:
        if effect.move in self._leaving:
            session, _ = self._leaving[effect.move]
            export_session(session, partial(self._exported, effect.move))

    def _exported(self, move: Move, records: list[Record] | None) -> None:
        """What the session has is known: from here on nothing is added to it."""
        if move not in self._leaving:
            return
        _, passage = self._leaving[move]
        if records is None:
            self._tell(Exported(move, None, ()))
            return
        passage.exported(partial(self._send_on, move))
        state = self._encoded(moving.without_aside(records, passage))
        cuts = tuple(self._node(origin) for origin in passage.cuts)
        # Not before it is kept: a publisher would repeat to us what is in it.
        self._when_kept(Exported(move, state, cuts))

    def _send_on(self, move: Move, message: Message, target: Target) -> None:
        head = SentOnHead(
            *move, self._node(message.origin), target.qos, target.retain_as_published, target.identifiers
        )
        self._enter(Enter(move.to, SENT_ON, msgspec.msgpack.encode(head), message, NO_ROUTE))

    def _thaw(self, effect: Thaw) -> None:
        if effect.move in self._leaving:
            session, _ = self._leaving.pop(effect.move)
            moving.thaw(self._broker, session)

    def _let_go(self, effect: LetGo) -> None:
        if effect.move in self._leaving:
            session, _ = self._leaving[effect.move]
            moving.let_go(self._broker, session, effect.is_sending_on)
            if not effect.is_sending_on:
                del self._leaving[effect.move]
        self._when_kept(LetGone(effect.move))

    def _stop_sending_on(self, move: Move) -> None:
        if move in self._leaving:
            session, _ = self._leaving.pop(move)
            moving.stop_sending_on(self._broker, session)

    # ---- the new home --------------------------------------------------------------------------------

    def _prepare(self, effect: Prepare) -> None:
        move = effect.move
        for earlier in [one for one, (_, passage) in self._leaving.items() if passage.is_gone]:
            if earlier.client == move.client:  # it comes back
                self._stop_sending_on(earlier)
        try:
            passage = moving.prepare(self._broker, self._decoded(move, effect.offer))
        except (ProtocolError, *UNREADABLE):
            self._tell(Prepared(move, False))
            return
        self._arriving[move] = (self._broker.sessions[move.client], passage)
        if self._broker.announcements is not None:
            self._broker.announcements.announce()  # the requests for cuts come behind it, on every link
        self._tell(Prepared(move, True))

    def _cut_here(self, effect: CutHere) -> None:
        self._cut(effect.move, HERE)

    def _install(self, effect: Install) -> None:
        move = effect.move
        if move not in self._arriving:
            return
        session, _ = self._arriving[move]
        in_time = frozenset(self._origin(node) for node in effect.cuts)
        try:
            records = self._decoded(move, effect.state)
            moving.install(self._broker, session, records, effect.old, (move.hlc, move.to), in_time)
        except (ProtocolError, *UNREADABLE):
            self._tell(Installed(move, False))
        else:
            self._when_kept(Installed(move, True))

    def _drop(self, effect: Drop) -> None:
        session, _ = self._arriving.pop(effect.move, (self._found_moved(effect.move), None))
        if session is not None and self._broker.sessions.get(effect.move.client) is session:
            moving.let_go(self._broker, session)

    def _found_moved(self, move: Move) -> Session | None:
        """The session that a restart has found, if it came by this move."""
        session = self._broker.sessions.get(move.client)
        moved = session.standing.moved if session is not None and session.standing is not None else None
        return session if moved is not None and moved[1:3] == (move.hlc, move.to) else None

    def _settle(self, effect: Settle) -> None:
        session = self._broker.sessions.get(effect.move.client)
        if session is not None:
            claim = (effect.move.hlc, effect.move.to)
            moving.settle(self._broker, session, effect.old, claim, effect.is_confirmed)

    def _close_passage(self, effect: ClosePassage) -> None:
        if effect.move in self._arriving:
            _, passage = self._arriving.pop(effect.move)
            passage.close()

    # ---- streams -------------------------------------------------------------------------------------

    def _cut_entered(self, peer: Peer, head: bytes, message: Message | None, route: bytes) -> None:
        self._cut_came(peer.node, _head(head, CutHead))

    def _sent_on_entered(self, peer: Peer, head: bytes, message: Message | None, route: bytes) -> None:
        if message is not None:
            self._sent_on(_head(head, SentOnHead), message)

    def _cut_came(self, origin: int, head: CutHead) -> None:
        if head.origin:
            if head.move in self._arriving:
                self._arriving[head.move][1].tail(self._origin(head.origin))
            self._tell(TailCame(head.move, head.origin))
        else:
            self._cut(head.move, origin)
            self._tell(CutCame(head.move, origin))

    def _cut(self, move: Move, origin: int) -> None:
        """What `origin` publishes from now on is the new home's."""
        if move in self._arriving:
            self._arriving[move][1].cut(origin)
        if move not in self._leaving:
            return
        _, passage = self._leaving[move]
        if origin not in passage.cuts and passage.is_exported:
            head = CutHead(*move, self._node(origin))
            self._enter(Enter(move.to, CUT, msgspec.msgpack.encode(head), None, NO_ROUTE))
        passage.cuts.add(origin)

    def _sent_on(self, head: SentOnHead, message: Message) -> None:
        session = self._broker.sessions.get(head.client)
        if session is None:
            self._broker.hub.count_drop("session_ended", message, head.client)
            return
        if head.hlc == SPLIT:
            self._take_rest(session, message)
            return
        target = Target(session, head.qos, head.retain, head.identifiers)
        if head.move in self._arriving:
            self._arriving[head.move][1].sent_on(message, target, self._origin(head.origin))
        else:
            session.take(message, target)

    def _take_rest(self, session: Session, message: Message) -> None:
        """What an older session of the client had, if it is still wanted."""
        for subscription in session.subscriptions.values():
            if subscription.group is None and matches(subscription.filter, message.topic):
                session.take(message, subscription.target())
                return
        self._broker.hub.count_drop("session_ended", message, session.client_id)

    # ---- the rest ------------------------------------------------------------------------------------

    def _when_kept(self, event: object) -> None:
        self._broker.hub.promises.when_turn_kept(partial(self._tell, event))

    def _encoded(self, records: list[Record]) -> bytes:
        return Encoder(self._clock.wall_offset_s).encode(records)  # times are on the wall clock

    def _decoded(self, move: Move, data: bytes) -> list[Record]:
        records = Decoder(self._clock.wall_offset_s).decode(data)
        if any(record[1] != move.client for record in records):
            raise ValueError("these are not the records of one session")
        return records

    def _node(self, origin: int) -> int:
        return origin or self._me

    def _origin(self, node: int) -> int:
        return HERE if node == self._me else node


def _head(head: bytes, kind: type[Head]) -> Head:
    try:
        return msgspec.msgpack.decode(head, type=kind)
    except msgspec.MsgspecError as fault:
        raise ProtocolError(ReasonCode.MALFORMED_PACKET, f"the head of an entry: {fault}") from None
