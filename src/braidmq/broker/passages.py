"""What a session takes while it moves between the nodes of a cluster.

Messages are told apart by the node where they were published (`Message.origin`; 0 is this one), and each node
says in its stream where it makes a cut: what comes before it is for the old home, what comes behind it for
the new one. A passage is asked about every message of QoS 1 or 2; where a session stays there is none.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from braidmq.broker.receiver import Target
from braidmq.broker.session import Session
from braidmq.messages.message import Message

SendOn = Callable[[Message, Target], None]


class Passage(Protocol):
    def takes(self, message: Message, target: Target) -> bool:
        """Whether the session takes the message in the ordinary way."""


class LeavingPassage:
    """At the old home. All that comes is queued, since the session may have to stay after all.

    What comes behind a cut is not the session's when it leaves: `aside` has the numbers of those deliveries.
    After the export nothing is; what comes then before a cut is sent on.
    """

    def __init__(self, session: Session, will_due_s: float) -> None:
        self.will_due_s = will_due_s  # 0: it has none that is delayed
        self.cuts: set[int] = set()
        self.aside: set[int] = set()
        self.is_gone = False  # the session has left; only what is late is seen to
        self._session = session
        self._send_on: SendOn | None = None

    def exported(self, send_on: SendOn) -> None:
        """What the session has is on its way: what is late is sent after it."""
        self._send_on = send_on

    @property
    def is_exported(self) -> bool:
        return self._send_on is not None

    def takes(self, message: Message, target: Target) -> bool:
        is_late = message.origin not in self.cuts
        if is_late and self._send_on is not None:
            self._send_on(message, target)
        if self.is_gone:
            return False
        following = self._session.last_sequence + 1
        if is_late and self._send_on is None:
            self.aside.discard(following)  # its bearer was dropped
        else:
            self.aside.add(following)
        return True


class _Held(NamedTuple):
    message: Message
    target: Target
    origin: int
    is_sent_on: bool


class ArrivingPassage:
    """At the new home: takes what comes behind the cuts, once what was before them is there."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cuts: set[int] = set()
        self._tails: set[int] = set()
        self._in_time: frozenset[int] | None = None  # whose cuts the old home had; None: not known yet
        self._held: list[_Held] = []
        self._held_bytes = 0

    def takes(self, message: Message, target: Target) -> bool:
        origin = message.origin
        if origin not in self._cuts:
            return False  # it is the old home's
        if self._is_open(origin):
            return True
        self._hold(_Held(message, target, origin, False))
        return False

    def cut(self, origin: int) -> None:
        self._cuts.add(origin)

    def sent_on(self, message: Message, target: Target, origin: int) -> None:
        """The old home got this before the cut."""
        if self._in_time is None:
            self._hold(_Held(message, target, origin, True))
        else:
            self._session.take(message, target)

    def installed(self, in_time: frozenset[int]) -> None:
        """What the session had is there: what has come meanwhile is behind it."""
        self._in_time = in_time
        self._let_in()

    def tail(self, origin: int) -> None:
        """The old home has sent on all of that node's messages before the cut."""
        self._tails.add(origin)
        self._let_in()

    def close(self) -> None:
        """Nothing is waited for any more."""
        self._tails.update(held.origin for held in self._held)
        self._let_in()
        self._session.passage = None

    def _is_open(self, origin: int) -> bool:
        return self._in_time is not None and (origin in self._in_time or origin in self._tails)

    def _let_in(self) -> None:
        if self._in_time is None:
            return
        held, self._held, self._held_bytes = self._held, [], 0
        for one in held:
            if one.is_sent_on or self._is_open(one.origin):
                self._session.take(one.message, one.target)
            else:
                self._hold(one)

    def _hold(self, held: _Held) -> None:
        limits, cost = self._session.hub.limits, len(held.message.payload) + len(held.message.topic)
        if len(self._held) >= limits.queue_messages_max or self._held_bytes + cost > limits.queue_bytes_max:
            self._session.hub.count_drop("queue_full", held.message, self._session.client_id)
            return
        self._held.append(held)
        self._held_bytes += cost
