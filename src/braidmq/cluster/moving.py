"""How a session moves to the node where its client is, with no message lost, doubled or out of order.

```
old home:  home ──claimed──▶ leaving ──Taken──▶ gone          leaving ──Release, new home dead──▶ home
new home:  fetching ▶ preparing ▶ collecting ▶ installing ▶ taken ──Gone, old home dead──▶ home
```

1. The old home freezes the session: its client is taken over, and it only queues. It says what the session
   subscribes to (`Offer`).
2. The new home subscribes to the same, tells all of it, and then asks them for a *cut* (`CutRequest`). Each
   node puts one into its streams to the old and to the new home, both in the same turn: each of its messages
   is before both cuts or behind both.
3. The old home takes what comes before a node's cut, and puts aside what comes behind it; the new home takes
   only what comes behind. So each message is taken once, in the order of its node.
4. With the cuts of all nodes it is linked with, or after LATE_CUT_S, the old home sends what the session has
   (`SessionState`). What comes later before a cut is sent on; a *tail* behind it says that this was all, and
   the new home holds that node's own messages back until then.
5. When the new home's store has the session it says `Taken`; the old home lets go of its own, and when its
   store has that says `Gone`. Then the client is answered.

The stamp of the claim is the name of the move: messages of another one are ignored.

| who fails | when | what becomes of the session |
|---|---|---|
| new home dies | before Taken | stays with the old one, which has kept what it put aside |
| new home restarts | before Gone | it asks; unless the old home has let go it drops its copy |
| old home dies | before the state is complete | stays there; the client is told to come again |
| old home dies | before Gone | the new home goes on; the old one, restarted, asks and drops its copy |
| link between them | before the state is complete | stays with the old home, which asks at the relink |
| another node dies | any time | its cuts are in both queues or in none; it is asked again at the relink |
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from math import inf
from typing import Final

import msgspec

from braidmq.cluster.effects import Effect, Enter, SendControl
from braidmq.cluster.frames import PART, Control, read_part
from braidmq.cluster.homes import Homes, Stamp
from braidmq.cluster.members import Members, State
from braidmq.cluster.move_messages import (
    CUT,
    NO_ROUTE,
    ClosePassage,
    CutCame,
    CutHead,
    CutHere,
    CutRequest,
    Describe,
    Described,
    Drop,
    EndSession,
    Export,
    Exported,
    Fetch,
    Freeze,
    Gone,
    HaveYouLetGo,
    HaveYouTaken,
    Install,
    Installed,
    LetGo,
    LetGone,
    Move,
    Offer,
    Prepare,
    Prepared,
    Recovered,
    Release,
    Released,
    SessionState,
    Settle,
    StopSendingOn,
    Superseded,
    TailCame,
    Taken,
    Thaw,
)
from braidmq.cluster.parts import Part
from braidmq.cluster.transfers import Transfers

LATE_CUT_S: Final = 1.0  # a cut is waited for
REMEMBERED_MAX: Final = 65_536  # moves that came to nothing, or wait for late cuts


# ---- the part ----------------------------------------------------------------------------------------


class _Leaving:
    def __init__(self, move: Move) -> None:
        self.move = move
        self.cuts: set[int] = set()
        self.is_exported = False
        self.is_gone = False
        self.is_recovered = False  # after a restart: it only waits for what the new home says


class _Stage(IntEnum):
    FETCHING = 0
    PREPARING = 1
    COLLECTING = 2
    INSTALLING = 3
    TAKEN = 4
    HOME = 5  # only some late cuts are missing


class _Arriving:
    def __init__(self, move: Move, old: int) -> None:
        self.move = move
        self.old = old
        self.stage = _Stage.FETCHING
        self.cuts: set[int] = set()
        self.tails: set[int] = set()
        self.in_time: set[int] = set()  # whose cuts the old home had when it sent the state
        self.is_orphan = False  # the old home has died

    def is_through(self, origin: int) -> bool:
        return origin in self.cuts and (origin in self.in_time or origin in self.tails)


Over = Callable[[str, bool, float], Iterable[Effect]]


class Moves(Part):
    events = (Described, Exported, LetGone, Prepared, Installed, CutCame, TailCame, Recovered)
    controls = (
        Fetch,
        Offer,
        CutRequest,
        SessionState,
        Taken,
        Gone,
        Release,
        Released,
        Superseded,
        HaveYouTaken,
        HaveYouLetGo,
    )
    frames = (PART,)

    def __init__(self, members: Members, homes: Homes) -> None:
        self.moved_count = 0  # sessions that came to this node
        self._members = members
        self._me = members.me.node
        self._homes = homes
        self._leaving: dict[str, _Leaving] = {}
        self._sending_on: dict[Move, _Leaving] = {}  # gone, but for late cuts
        self._arriving: dict[str, _Arriving] = {}
        self._marked: dict[str, tuple[Move, int]] = {}  # found by a restart: the old home is asked
        self._unconfirmed: dict[Move, int] = {}  # used here, though the old home hasn't said Gone
        self._stayed: dict[Move, None] = {}  # moves from here that came to nothing
        self._impatient: deque[tuple[float, Move]] = deque()  # when late cuts are no longer waited for
        self._transfers = Transfers()
        self._contents: dict[tuple[int, int], Offer | SessionState] = {}  # of transfers
        self._over: Over = lambda client, is_here, now: ()

    def when_over(self, over: Over) -> None:
        """Call `over(client, is_here, now)` when a move to this node has ended."""
        self._over = over

    # ---- questions -----------------------------------------------------------------------------------

    def is_busy_here(self, client: str) -> bool:
        """Whether the session is on its way from or to this node, so that it can't be used here now."""
        arriving = self._arriving.get(client)
        is_arriving = arriving is not None and arriving.stage < _Stage.HOME
        return is_arriving or client in self._leaving or client in self._marked

    def is_busy(self, client: str) -> bool:
        """Whether it can't leave now: the same, and while cuts are missing that will come soon."""
        if self.is_busy_here(client):
            return True
        arriving = self._arriving.get(client)
        return arriving is not None and any(map(self._members.is_linked, self._missing(arriving)))

    def _missing(self, arriving: _Arriving) -> list[int]:
        """The nodes whose cuts or tails have yet to come."""
        origins = {*self._members.remembered(), self._me, arriving.old}
        return [origin for origin in origins if not arriving.is_through(origin)]

    @property
    def counts(self) -> dict[str, int]:
        """How many sessions are on their way (for metrics)."""
        return {"leaving": len(self._leaving), "arriving": len(self._arriving), "moved": self.moved_count}

    # ---- for claims ----------------------------------------------------------------------------------

    def leave(self, client: str, stamp: Stamp, peer: int, now: float) -> list[Effect]:
        """A peer has claimed a session that is here."""
        effects: list[Effect] = []
        late = self._arriving.pop(client, None)
        if late is not None:  # of nodes that are dead; what they have from before the last move may be lost
            effects.append(ClosePassage(late.move))
        move = Move(client, stamp[0], peer)
        self._leaving[client] = _Leaving(move)
        return [*effects, Freeze(move)]

    def arrive(self, client: str, stamp: Stamp, peer: int, now: float) -> list[Effect]:
        """A peer has frozen a session for us."""
        self._arriving[client] = _Arriving(Move(client, *stamp), peer)
        return [SendControl(peer, Fetch(client, stamp[0]))]

    def release(self, client: str, stamp: Stamp, peer: int) -> list[Effect]:
        """What a peer has frozen for us isn't wanted any more."""
        return [SendControl(peer, Release(client, stamp[0]))]

    def supersede(self, client: str, stamp: Stamp, peer: int) -> list[Effect]:
        """What a peer has frozen for us is older than what another one has."""
        return [SendControl(peer, Superseded(client, stamp[0]))]

    # ---- events --------------------------------------------------------------------------------------

    def handle(self, event: object, now: float) -> list[Effect]:
        match event:
            case CutCame(move, origin):
                return self._cut_came(move, origin)
            case TailCame(move, origin):
                return self._tail_came(move, origin)
            case Described(move, offer):
                return self._described(move, offer, now)
            case Exported():
                return self._exported(event, now)
            case LetGone(move):
                return [SendControl(move.to, Gone(move.client, move.hlc))]
            case Prepared(move, is_done):
                return self._prepared(move, is_done, now)
            case Installed(move, is_done):
                return self._installed(move, is_done, now)
            case Recovered():
                return self._recovered(event)
        return []

    # ---- the old home --------------------------------------------------------------------------------

    def _left(self, client: str, hlc: int, peer: int) -> _Leaving | None:
        leaving = self._leaving.get(client)
        return leaving if leaving is not None and leaving.move == Move(client, hlc, peer) else None

    def _fetched(self, peer: int, fetch: Fetch) -> list[Effect]:
        leaving = self._left(fetch.client, fetch.hlc, peer)
        if leaving is None or leaving.is_recovered:
            return [SendControl(peer, Released(fetch.client, fetch.hlc))]
        return [Describe(leaving.move)]

    def _described(self, move: Move, offer: bytes, now: float) -> list[Effect]:
        if self._left(*move) is None:
            return []
        number = self._transfers.number()
        announced = SendControl(move.to, Offer(move.client, move.hlc, number))
        return [announced, *self._transfers.send(move.to, number, offer, now)]

    def _export_if_complete(self, leaving: _Leaving) -> list[Effect]:
        if leaving.is_exported or not leaving.cuts.issuperset((*self._members.linked(), self._me)):
            return []
        return self._export(leaving)

    def _export(self, leaving: _Leaving) -> list[Effect]:
        leaving.is_exported = True
        return [Export(leaving.move)]

    def _exported(self, event: Exported, now: float) -> list[Effect]:
        move, leaving = event.move, self._left(*event.move)
        if leaving is None:
            return []
        if event.state is None:
            return [*self._stay(leaving), SendControl(move.to, Released(move.client, move.hlc))]
        number = self._transfers.number()
        announced = SendControl(move.to, SessionState(move.client, move.hlc, number, event.cuts))
        return [announced, *self._transfers.send(move.to, number, event.state, now)]

    def _stay(self, leaving: _Leaving) -> list[Effect]:
        """The move comes to nothing: the session goes on here."""
        del self._leaving[leaving.move.client]
        self._stayed[leaving.move] = None
        if len(self._stayed) > REMEMBERED_MAX:
            del self._stayed[next(iter(self._stayed))]
        return [Thaw(leaving.move)]

    def _taken(self, peer: int, taken: Taken) -> list[Effect]:
        leaving = self._left(taken.client, taken.hlc, peer)
        if leaving is None:
            return [self._has_let_go(peer, taken.client, taken.hlc, taken.is_used)]
        return self._let_go(leaving)

    def _let_go(self, leaving: _Leaving) -> list[Effect]:
        del self._leaving[leaving.move.client]
        if self._is_complete(leaving):
            return [LetGo(leaving.move, False)]
        leaving.is_gone = True
        self._sending_on[leaving.move] = leaving
        effects: list[Effect] = [LetGo(leaving.move, True)]
        if len(self._sending_on) > REMEMBERED_MAX:
            effects += self._stop(next(iter(self._sending_on.values())))
        return effects

    def _is_complete(self, leaving: _Leaving) -> bool:
        return leaving.cuts.issuperset((*self._members.remembered(), self._me, leaving.move.to))

    def _stop_if_complete(self, leaving: _Leaving) -> list[Effect]:
        return self._stop(leaving) if self._is_complete(leaving) else []

    def _stop(self, leaving: _Leaving) -> list[Effect]:
        del self._sending_on[leaving.move]
        return [StopSendingOn(leaving.move)]

    def _has_let_go(self, peer: int, client: str, hlc: int, is_used: bool) -> SendControl:
        """Whether a move that isn't known here any more has been decided for the other side."""
        stayed = Move(client, hlc, peer) in self._stayed or self._homes.find(client) is not None
        if stayed and not is_used:
            return SendControl(peer, Released(client, hlc))
        return SendControl(peer, Gone(client, hlc))

    def _asked_if_let_go(self, peer: int, asked: HaveYouLetGo) -> list[Effect]:
        """The new home has restarted, and has lost what it knew of the move."""
        leaving = self._left(asked.client, asked.hlc, peer)
        effects = self._stay(leaving) if leaving is not None else []
        return [*effects, self._has_let_go(peer, asked.client, asked.hlc, False)]

    def _released(self, peer: int, release: Release) -> list[Effect]:
        leaving = self._left(release.client, release.hlc, peer)
        return self._stay(leaving) if leaving is not None else []

    def _superseded(self, peer: int, control: Superseded) -> list[Effect]:
        leaving = self._left(control.client, control.hlc, peer)
        if leaving is None:
            return []
        return [*self._stay(leaving), EndSession(control.client, peer)]

    # ---- every node ----------------------------------------------------------------------------------

    def _cut_requested(self, peer: int, request: CutRequest, now: float) -> list[Effect]:
        """Put cuts into both streams, in one turn. At the old home its own side is cut at once."""
        head = msgspec.msgpack.encode(CutHead(request.client, request.hlc, peer))
        cut = Enter(peer, CUT, head, None, NO_ROUTE)
        if request.old != self._me:
            other = [Enter(request.old, CUT, head, None, NO_ROUTE)] if self._knows(request.old) else []
            return [*other, cut]
        leaving = self._left(request.client, request.hlc, peer)
        if leaving is None:
            return self._cut_for_a_late_one(peer, request, cut)
        leaving.cuts.add(self._me)
        self._impatient.append((now + LATE_CUT_S, leaving.move))
        return [CutHere(leaving.move), cut, *self._export_if_complete(leaving)]

    def _cut_for_a_late_one(self, peer: int, request: CutRequest, cut: Enter) -> list[Effect]:
        known = Move(request.client, request.hlc, peer) in self._sending_on
        return [cut] if known else []

    def _knows(self, peer: int) -> bool:
        return self._members.info(peer) is not None

    def _cut_came(self, move: Move, origin: int) -> list[Effect]:
        if move.to == self._me:
            arriving = self._arrived(move)
            if arriving is None:
                return []
            arriving.cuts.add(origin)
            return self._close_if_complete(arriving)
        leaving = self._left(*move) or self._sending_on.get(move)
        if leaving is None:
            return []
        leaving.cuts.add(origin)
        return self._stop_if_complete(leaving) if leaving.is_gone else self._export_if_complete(leaving)

    def _tail_came(self, move: Move, origin: int) -> list[Effect]:
        arriving = self._arrived(move)
        if arriving is None:
            return []
        arriving.tails.add(origin)
        return self._close_if_complete(arriving)

    # ---- the new home --------------------------------------------------------------------------------

    def _arrived(self, move: Move, old: int | None = None) -> _Arriving | None:
        arriving = self._arriving.get(move.client)
        if arriving is None or arriving.move != move or old not in (None, arriving.old):
            return None
        return arriving

    def _announced(self, peer: int, control: Offer | SessionState) -> list[Effect]:
        arriving = self._arrived(Move(control.client, control.hlc, self._me), peer)
        awaited = _Stage.FETCHING if isinstance(control, Offer) else _Stage.COLLECTING
        if arriving is None or arriving.stage is not awaited:
            return []
        self._contents[peer, control.transfer] = control
        self._transfers.expect(peer, control.transfer)
        return []

    def framed(self, peer: int, first: int, body: bytes, now: float) -> list[Effect]:
        piece = read_part(body)
        data = self._transfers.receive(peer, piece)
        if data is None:
            return []
        content = self._contents.pop((peer, piece.transfer))
        arriving = self._arrived(Move(content.client, content.hlc, self._me), peer)
        if arriving is None:
            return []
        if isinstance(content, Offer):
            arriving.stage = _Stage.PREPARING
            return [Prepare(arriving.move, data)]
        arriving.stage = _Stage.INSTALLING
        arriving.in_time = set(content.cuts)
        return [Install(arriving.move, peer, data, content.cuts)]

    def _prepared(self, move: Move, is_done: bool, now: float) -> list[Effect]:
        arriving = self._arrived(move)
        if arriving is None or arriving.stage is not _Stage.PREPARING:
            return []
        if not is_done:
            return self._fail(arriving, now)
        arriving.stage = _Stage.COLLECTING
        arriving.cuts.add(self._me)
        head = msgspec.msgpack.encode(CutHead(*move))
        effects: list[Effect] = [CutHere(move), Enter(arriving.old, CUT, head, None, NO_ROUTE)]
        return effects + [self._request_cut(peer, arriving) for peer in self._members.linked()]

    def _request_cut(self, peer: int, arriving: _Arriving) -> SendControl:
        return SendControl(peer, CutRequest(arriving.move.client, arriving.move.hlc, arriving.old))

    def _installed(self, move: Move, is_done: bool, now: float) -> list[Effect]:
        arriving = self._arrived(move)
        if arriving is None or arriving.stage is not _Stage.INSTALLING:
            return []
        if not is_done:
            return self._fail(arriving, now)
        arriving.stage = _Stage.TAKEN
        if arriving.is_orphan:
            return self._arrive_home(arriving, False, now)
        return [SendControl(arriving.old, Taken(move.client, move.hlc, False))]

    def _gone(self, peer: int, gone: Gone, now: float) -> list[Effect]:
        move = Move(gone.client, gone.hlc, self._me)
        if self._unconfirmed.pop(move, None) is not None:
            return [Settle(move, peer, True)]
        marked = self._marked.get(gone.client)
        if marked == (move, peer):
            del self._marked[gone.client]
            return [Settle(move, peer, True)]
        arriving = self._arrived(move, peer)
        if arriving is None or arriving.stage is not _Stage.TAKEN:
            return []
        return self._arrive_home(arriving, True, now)

    def _arrive_home(self, arriving: _Arriving, is_confirmed: bool, now: float) -> list[Effect]:
        """The session is ours, whatever the old home will say."""
        arriving.stage = _Stage.HOME
        self.moved_count += 1
        if not is_confirmed:
            self._unconfirmed[arriving.move] = arriving.old
        effects: list[Effect] = [Settle(arriving.move, arriving.old, is_confirmed)]
        effects += self._close_if_complete(arriving)
        return effects + list(self._over(arriving.move.client, True, now))

    def _close_if_complete(self, arriving: _Arriving) -> list[Effect]:
        if arriving.stage is not _Stage.HOME or self._missing(arriving):
            return []
        del self._arriving[arriving.move.client]
        return [ClosePassage(arriving.move)]

    def _fail(self, arriving: _Arriving, now: float) -> list[Effect]:
        """The session stays where it was."""
        move = arriving.move
        del self._arriving[move.client]
        effects: list[Effect] = [SendControl(arriving.old, Release(move.client, move.hlc))]
        if arriving.stage > _Stage.FETCHING:
            effects.append(Drop(move))
        return effects + list(self._over(move.client, False, now))

    def _stayed_there(self, peer: int, released: Released, now: float) -> list[Effect]:
        move = Move(released.client, released.hlc, self._me)
        if self._marked.get(move.client) == (move, peer):
            del self._marked[move.client]
            return [Drop(move)]
        arriving = self._arrived(move, peer)
        if arriving is None or arriving.stage is _Stage.HOME:
            return []
        return self._fail(arriving, now)

    def _asked_if_taken(self, peer: int, asked: HaveYouTaken) -> list[Effect]:
        move = Move(asked.client, asked.hlc, self._me)
        if move in self._unconfirmed:
            return [SendControl(peer, Taken(asked.client, asked.hlc, True))]
        if self._marked.get(asked.client) == (move, peer):
            return [SendControl(peer, HaveYouLetGo(asked.client, asked.hlc))]
        arriving = self._arrived(move, peer)
        if arriving is None:
            return [SendControl(peer, Release(asked.client, asked.hlc))]
        if arriving.stage < _Stage.TAKEN:
            return []  # it will be said when it is so
        return [SendControl(peer, Taken(asked.client, asked.hlc, arriving.stage is _Stage.HOME))]

    # ---- after a restart -----------------------------------------------------------------------------

    def _recovered(self, event: Recovered) -> list[Effect]:
        effects: list[Effect] = []
        for move in event.leaving:
            leaving = self._leaving[move.client] = _Leaving(move)
            leaving.is_recovered = leaving.is_exported = True
            if self._is_lost(move.to):
                effects += self._stay(leaving)
        for move, old, is_used in event.moved:
            if is_used or self._is_lost(old):
                self._unconfirmed[move] = old
                effects.append(Settle(move, old, False))
            else:
                self._marked[move.client] = (move, old)
        return effects

    def _is_lost(self, peer: int) -> bool:
        """Whether the peer isn't expected back within seconds."""
        return self._members.state(peer) in (State.DEAD, State.FORGOTTEN, State.LEFT)

    # ---- messages ------------------------------------------------------------------------------------

    def received(self, peer: int, control: Control, now: float) -> list[Effect]:
        match control:
            case CutRequest():
                return self._cut_requested(peer, control, now)
            case Fetch():
                return self._fetched(peer, control)
            case Offer() | SessionState():
                return self._announced(peer, control)
            case Taken():
                return self._taken(peer, control)
            case Gone():
                return self._gone(peer, control, now)
            case Release():
                return self._released(peer, control)
            case Released():
                return self._stayed_there(peer, control, now)
            case Superseded():
                return self._superseded(peer, control)
            case HaveYouTaken():
                return self._asked_if_taken(peer, control)
            case HaveYouLetGo():
                return self._asked_if_let_go(peer, control)
        return []

    # ---- peers come and go ---------------------------------------------------------------------------

    def linked(self, peer: int, now: float) -> list[Effect]:
        leaving = [one.move for one in self._leaving.values() if one.move.to == peer]
        marked = [move for move, old in self._marked.values() if old == peer]
        effects: list[Effect] = []
        effects += [SendControl(peer, HaveYouTaken(move.client, move.hlc)) for move in leaving]
        effects += [SendControl(peer, HaveYouLetGo(move.client, move.hlc)) for move in marked]
        for arriving in self._arriving.values():
            if arriving.stage >= _Stage.COLLECTING and peer not in arriving.cuts:
                effects.append(self._request_cut(peer, arriving))
            if arriving.stage is _Stage.TAKEN and arriving.old == peer:
                effects.append(SendControl(peer, Taken(arriving.move.client, arriving.move.hlc, False)))
        return effects

    def unlinked(self, peer: int, now: float) -> list[Effect]:
        self._transfers.unlinked(peer)
        for key in [key for key in self._contents if key[0] == peer]:
            del self._contents[key]
        effects: list[Effect] = []
        for arriving in [arriving for arriving in self._arriving.values() if arriving.old == peer]:
            if arriving.stage < _Stage.INSTALLING:
                effects += self._fail(arriving, now)
        for leaving in list(self._leaving.values()):  # its cut isn't waited for any more
            effects += self._export_if_complete(leaving) if self._me in leaving.cuts else []
        return effects

    def died(self, peer: int, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for leaving in [leaving for leaving in self._leaving.values() if leaving.move.to == peer]:
            effects += self._stay(leaving)
        for arriving in [arriving for arriving in self._arriving.values() if arriving.old == peer]:
            arriving.is_orphan = True
            if arriving.stage is _Stage.TAKEN:
                effects += self._arrive_home(arriving, False, now)
        for move, old in [marked for marked in self._marked.values() if marked[1] == peer]:
            del self._marked[move.client]
            self._unconfirmed[move] = old
            effects.append(Settle(move, old, False))
        return effects

    def forgotten(self, peer: int, now: float) -> list[Effect]:
        effects = self.died(peer, now)
        for move in [move for move, old in self._unconfirmed.items() if old == peer]:
            del self._unconfirmed[move]
            effects.append(Settle(move, peer, True))
        for leaving in list(self._sending_on.values()):
            effects += self._stop_if_complete(leaving)
        for arriving in list(self._arriving.values()):
            effects += self._close_if_complete(arriving)
        return effects

    # ---- time ----------------------------------------------------------------------------------------

    @property
    def next_at_s(self) -> float:  # type: ignore[override]
        due_s = self._impatient[0][0] if self._impatient else inf
        return min(due_s, self._transfers.next_at_s)

    def time_came(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while self._impatient and self._impatient[0][0] <= now:
            leaving = self._left(*self._impatient.popleft()[1])
            if leaving is not None and not leaving.is_exported:
                effects += self._export(leaving)
        if self._transfers.next_at_s <= now:
            effects += self._transfers.go_on(now)
        return effects
