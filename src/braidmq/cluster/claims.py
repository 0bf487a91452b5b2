"""Who may use a session: before a client is let in, its node asks all others whether they have its session.

A claim has a stamp, and stamps are totally ordered. Two nodes that are linked see each other's claims, so of
two CONNECTs at the same time the one with the larger stamp stays. There is no directory, so nothing has to be
rebuilt when nodes come and go. Cost: one short message to each linked node and back, batched by turns.

| the other node has | answer | and |
|---|---|---|
| nothing | none | |
| a claim of its own with a smaller stamp | none | it closes that connection |
| a claim or session with a larger stamp | yield | the client is told to come again |
| a session of another user | refused | the client is not authorized |
| a session that a clean start ends, or that doesn't last | none | it ends the session |
| a session that is on its way | busy | it is asked again |
| a session | have | the session moves (see `moving`) |

Nodes that are not linked are not waited for, with one exception: a suspect may have the session, and will be
live or dead within seconds. What was claimed without them is told to them when they are back ("held" claims),
and a node that was counted dead or has restarted is told of all sessions: the larger stamp stays.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from typing import Final, TypeVar

from braidmq.cluster.claim_messages import (
    Answer,
    AnswerClaims,
    Claim,
    ClaimAnswer,
    ClaimAsked,
    ClaimSessions,
    ClaimWithdrawn,
    Denied,
    Granted,
    Invite,
)
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.effects import Effect, SendControl
from braidmq.cluster.frames import Control
from braidmq.cluster.homes import NO_STAMP, Homes, Stamp
from braidmq.cluster.members import Members, State
from braidmq.cluster.move_messages import EndSession
from braidmq.cluster.moving import Moves
from braidmq.cluster.parts import Part
from braidmq.limits import KIB
from braidmq.wire import ReasonCode

ASK_AGAIN_S: Final = 0.05
PATIENCE_S: Final = 10.0  # for all answers; the client has waited long enough then
CLAIMS_MAX: Final = 65_536  # that are open at a time, and that are remembered for a node that is away
BATCH_BYTES: Final = 32 * KIB  # of claims in one message
NAME_BYTES_MAX: Final = 16 * KIB  # of a client id or a user, so that a claim fits into a message
ROLL_EVERY_S: Final = 0.01  # between two batches of a long list


One = TypeVar("One", Claim, ClaimAnswer)


# ---- the part ----------------------------------------------------------------------------------------


class _Open:
    """A claim of this node that isn't decided."""

    def __init__(self, asked: ClaimAsked, stamp: Stamp, now: float) -> None:
        self.token: int | None = asked.token  # None: nobody waits for the answer
        self.client = asked.client
        self.user = asked.user
        self.clean_start = asked.clean_start
        self.stamp = stamp
        self.until_s = now + PATIENCE_S
        self.waits_for: set[int] = set()  # nodes
        self.busy: dict[int, float] = {}  # those of them that are asked again, and when
        self.begins_at_s = inf  # again, because the session is on its way from or to this node
        self.has: dict[int, Stamp] = {}  # nodes that have a session, and its stamp
        self.is_moving = False  # it comes from one of them


class Claims(Part):
    """`may_have(peer, client)` is asked about a peer whose link is down: False if it can't have it.

    `waits_for_dead`: a client whose session may be at a dead node is denied until that is back or forgotten.
    """

    events = (ClaimAsked, ClaimWithdrawn)
    controls = (ClaimSessions, AnswerClaims, Invite)

    def __init__(
        self,
        members: Members,
        clock: HybridClock,
        homes: Homes,
        moves: Moves,
        may_have: Callable[[int, str], bool] = lambda peer, client: True,
        *,
        waits_for_dead: bool = False,
    ) -> None:
        self.outcomes: Counter[str] = Counter()  # of claims made here
        self._members = members
        self._me = members.me.node
        self._clock = clock
        self._homes = homes
        self._moves = moves
        self._may_have = may_have
        self._waits_for_dead = waits_for_dead
        self._open: dict[str, _Open] = {}
        self._clients: dict[int, str] = {}  # by token
        self._questions: dict[int, list[Claim]] = {}  # of this turn, by peer
        self._answers: dict[int, list[ClaimAnswer]] = {}
        self._missed: dict[int, dict[str, None]] = {}  # what was claimed while a peer wasn't linked
        self._rolls: dict[int, Iterator[Claim]] = {}  # what a peer is being told, bit by bit
        self._rolls_at_s = inf
        # What peers hold of sessions that were on their way here: judged when that is over.
        self._postponed: dict[tuple[int, str], Claim] = {}
        self._looks_at_s = inf  # through all that is open
        moves.when_over(self._moved)

    @property
    def open_count(self) -> int:
        return len(self._open)

    # ---- a client comes ------------------------------------------------------------------------------

    def handle(self, event: ClaimAsked | ClaimWithdrawn, now: float) -> list[Effect]:
        if isinstance(event, ClaimWithdrawn):
            return self._withdraw(event.token)
        effects: list[Effect] = []
        earlier = self._open.get(event.client)
        if earlier is not None:
            effects += self._replace(earlier)
            if earlier.is_moving:  # to this node: whoever came last gets it
                earlier.token, earlier.clean_start = event.token, event.clean_start
                earlier.until_s = now + PATIENCE_S
                self._clients[event.token] = event.client
                return effects
        elif len(self._open) >= CLAIMS_MAX:
            return [Denied(event.token, ReasonCode.SERVER_BUSY, "too many clients come at a time")]
        if max(len(event.client.encode()), len((event.user or "").encode())) > NAME_BYTES_MAX:
            why = "the client id or the user name is too long for a cluster"
            return [*effects, Denied(event.token, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)]
        self._clients[event.token] = event.client
        return effects + self._opened(_Open(event, (self._clock.tick(now), self._me), now), now)

    def _opened(self, claim: _Open, now: float) -> list[Effect]:
        self._open[claim.client] = claim
        self._looks_at_s = min(self._looks_at_s, now + ASK_AGAIN_S)
        return self._begin(claim, now)

    def _replace(self, earlier: _Open) -> list[Effect]:
        """The client has connected here once more, before its first connection was let in."""
        token, earlier.token = earlier.token, None
        effects = [] if earlier.is_moving else self._close(earlier)
        if token is None:
            return effects
        self._clients.pop(token, None)
        self.outcomes["replaced"] += 1
        return [*effects, Denied(token, ReasonCode.SERVER_BUSY, "the client has connected again")]

    def _withdraw(self, token: int) -> list[Effect]:
        claim = self._open.get(self._clients.pop(token, ""))
        if claim is None or claim.token != token:
            return []
        claim.token = None
        self.outcomes["withdrawn"] += 1
        return [] if claim.is_moving else self._close(claim)

    def _begin(self, claim: _Open, now: float) -> list[Effect]:
        """Ask whoever has to be asked."""
        if self._moves.is_busy_here(claim.client):
            claim.begins_at_s = now + ASK_AGAIN_S
            return []
        claim.begins_at_s = inf
        if self._homes.find(claim.client) is not None:
            return self._grant(claim)
        linked = self._members.linked()
        claim.waits_for = {*linked, *self._suspects(claim)}
        for peer in linked:
            self._ask(peer, claim)
        return self._decide(claim, now)

    def _suspects(self, claim: _Open) -> list[int]:
        """Those who aren't linked and may have the session; they will be live or dead before long."""
        if claim.clean_start:
            return []
        return [peer for peer in self._members.remembered() if self._is_awaited(peer, claim.client)]

    def _is_awaited(self, peer: int, client: str) -> bool:
        return self._members.state(peer) is State.SUSPECT and self._may_have(peer, client)

    def _is_out_of_reach(self, claim: _Open) -> bool:
        """Whether a node may have the session that is away for long, and clients are to wait for it."""
        if claim.clean_start or not self._waits_for_dead:
            return False
        away = (State.DEAD, State.UNREACHABLE)
        peers = [peer for peer in self._members.remembered() if self._members.state(peer) in away]
        return any(self._may_have(peer, claim.client) for peer in peers)

    def _ask(self, peer: int, claim: _Open) -> None:
        question = Claim(claim.client, claim.stamp[0], claim.user, claim.clean_start)
        self._questions.setdefault(peer, []).append(question)

    def _decide(self, claim: _Open, now: float) -> list[Effect]:
        """Go on if all have answered."""
        if claim.waits_for or claim.is_moving:
            return []
        if not claim.has:
            if self._is_out_of_reach(claim):
                return self._deny(claim, ReasonCode.SERVER_UNAVAILABLE, "the session's node is not there")
            return self._grant(claim)
        newest = max(claim.has, key=claim.has.__getitem__)
        others = [peer for peer in claim.has if peer != newest]
        claim.is_moving = True
        claim.has.clear()
        effects: list[Effect] = []
        for peer in others:
            effects += self._moves.supersede(claim.client, claim.stamp, peer)
        return effects + list(self._moves.arrive(claim.client, claim.stamp, newest, now))

    def _moved(self, client: str, is_here: bool, now: float) -> list[Effect]:
        """A move to this node is over."""
        claim = self._open.get(client)
        if claim is None or not claim.is_moving:
            return []
        if is_here:
            return self._grant(claim)
        return self._deny(claim, ReasonCode.SERVER_UNAVAILABLE, "the session could not be moved here")

    # ---- the end of a claim --------------------------------------------------------------------------

    def _close(self, claim: _Open) -> list[Effect]:
        """Whoever has frozen the session for this claim may go on with it."""
        del self._open[claim.client]
        if claim.token is not None:
            self._clients.pop(claim.token, None)
        effects: list[Effect] = []
        for peer in claim.has:
            effects += self._moves.release(claim.client, claim.stamp, peer)
        return effects

    def _grant(self, claim: _Open) -> list[Effect]:
        effects = self._close(claim)
        for peer in self._members.remembered():
            if not self._members.is_linked(peer):
                self._miss(peer, claim.client)
        if claim.token is None:
            return effects
        self.outcomes["granted"] += 1
        return [*effects, Granted(claim.token, claim.client, claim.stamp)]

    def _deny(self, claim: _Open, reason: ReasonCode, why: str) -> list[Effect]:
        effects = self._close(claim)
        if claim.token is None:
            return effects
        self.outcomes["denied"] += 1
        return [*effects, Denied(claim.token, reason, why)]

    def _miss(self, peer: int, client: str) -> None:
        missed = self._missed.setdefault(peer, {})
        missed[client] = None
        if len(missed) > CLAIMS_MAX:
            del missed[next(iter(missed))]

    # ---- messages ------------------------------------------------------------------------------------

    def received(self, peer: int, control: Control, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(control, ClaimSessions):
            for claim in control.claims:
                effects += self._judge(peer, claim, now)
        elif isinstance(control, AnswerClaims):
            for answer in control.answers:
                effects += self._answered(peer, answer, now)
        elif isinstance(control, Invite):
            effects += self._invited(control, now)
        return effects

    def _judge(self, peer: int, claim: Claim, now: float) -> list[Effect]:
        """Answer another node's claim, by the table above."""
        self._clock.seen(claim.hlc, now)
        stamp = (claim.hlc, claim.node or peer)
        own = self._open.get(claim.client)
        effects: list[Effect] = []
        if own is not None and own.stamp > stamp:
            return self._answer(peer, claim, Answer.YIELD, own.stamp)
        if own is not None and not own.is_moving:
            why = "the client has connected at another node at the same time"
            effects += self._deny(own, ReasonCode.SERVER_BUSY, why)
        if self._moves.is_busy(claim.client):
            self._postpone(peer, claim, now)
            return effects + self._answer(peer, claim, Answer.BUSY)
        home = self._homes.find(claim.client)
        if home is None:
            return effects + self._answer(peer, claim, Answer.NONE)
        if home.stamp > stamp:
            return effects + self._answer(peer, claim, Answer.YIELD, home.stamp)
        if home.user != claim.user and not claim.is_held:
            return effects + self._answer(peer, claim, Answer.REFUSED)
        if claim.clean_start or claim.is_held or not home.lasts:
            newer_at = peer if claim.is_held else 0
            return [*effects, EndSession(claim.client, newer_at), *self._answer(peer, claim, Answer.NONE)]
        effects += self._answer(peer, claim, Answer.HAVE, home.stamp)
        return effects + list(self._moves.leave(claim.client, stamp, peer, now))

    def _postpone(self, peer: int, claim: Claim, now: float) -> None:
        """Nobody repeats a held claim: it is kept until the session is where it is going."""
        if claim.is_held and len(self._postponed) < CLAIMS_MAX:
            self._postponed[peer, claim.client] = claim
            self._looks_at_s = min(self._looks_at_s, now + ASK_AGAIN_S)

    def _answer(self, peer: int, claim: Claim, answer: Answer, stamp: Stamp = NO_STAMP) -> list[Effect]:
        if claim.is_held and answer is not Answer.YIELD:
            return []  # nobody waits for it
        self._answers.setdefault(peer, []).append(ClaimAnswer(claim.client, claim.hlc, answer, stamp))
        return []

    def _answered(self, peer: int, answer: ClaimAnswer, now: float) -> list[Effect]:
        self._clock.seen(answer.stamp[0], now)
        claim = self._open.get(answer.client)
        if claim is None or claim.stamp[0] != answer.hlc or peer not in claim.waits_for:
            return self._too_late(peer, answer)
        if answer.answer == Answer.YIELD:
            return self._deny(claim, ReasonCode.SERVER_BUSY, "the client has connected at another node")
        if answer.answer == Answer.REFUSED:
            return self._deny(claim, ReasonCode.NOT_AUTHORIZED, "the session belongs to another user")
        if answer.answer == Answer.BUSY:
            claim.busy[peer] = now + ASK_AGAIN_S
            return []
        claim.waits_for.discard(peer)
        if answer.answer == Answer.HAVE:
            claim.has[peer] = answer.stamp
        return self._decide(claim, now)

    def _too_late(self, peer: int, answer: ClaimAnswer) -> list[Effect]:
        """Nobody waits for this any more. But what was frozen has to be told, and our session may be old."""
        stamp = (answer.hlc, self._me)
        if answer.answer == Answer.HAVE:
            return list(self._moves.release(answer.client, stamp, peer))
        home = self._homes.find(answer.client)
        is_older = home is not None and home.stamp < answer.stamp
        if answer.answer == Answer.YIELD and is_older and not self._moves.is_busy(answer.client):
            return [EndSession(answer.client, peer)]
        return []

    def _invited(self, invite: Invite, now: float) -> list[Effect]:
        is_here = self._homes.find(invite.client) is not None
        if is_here or invite.client in self._open or len(self._open) >= CLAIMS_MAX:
            return []
        asked = ClaimAsked(0, invite.client, invite.user, False)
        claim = _Open(asked, (invite.hlc + 1, self._me), now)
        claim.token = None
        return self._opened(claim, now)

    # ---- peers come and go ---------------------------------------------------------------------------

    def linked(self, peer: int, now: float) -> list[Effect]:
        for claim in self._open.values():
            if claim.begins_at_s == inf and not claim.is_moving:
                claim.waits_for.add(peer)
                claim.busy.pop(peer, None)
                self._ask(peer, claim)
        info = self._members.info(peer)
        missed = self._missed.pop(peer, {})
        if info is not None and (info.is_new_boot or info.was_absent):
            self._roll(peer, list(self._homes.clients()), now)
        elif missed:
            self._roll(peer, list(missed), now)
        return []

    def _roll(self, peer: int, clients: list[str], now: float) -> None:
        """Tell the peer which sessions are here; whoever has the smaller stamp gives in."""
        self._rolls[peer] = self._held(clients)
        self._rolls_at_s = min(self._rolls_at_s, now)

    def _held(self, clients: list[str]) -> Iterator[Claim]:
        for client in clients:
            home = self._homes.find(client)
            if home is not None and not self._moves.is_busy_here(client):
                hlc, node = home.stamp
                yield Claim(client, hlc, home.user, False, True, node or self._me)

    def unlinked(self, peer: int, now: float) -> list[Effect]:
        self._questions.pop(peer, None)
        self._answers.pop(peer, None)
        self._rolls.pop(peer, None)
        self._postponed = {key: held for key, held in self._postponed.items() if key[0] != peer}
        return self._without(peer, now)

    def died(self, peer: int, now: float) -> list[Effect]:
        return self._without(peer, now)

    def forgotten(self, peer: int, now: float) -> list[Effect]:
        self._missed.pop(peer, None)
        return self._without(peer, now)

    def _without(self, peer: int, now: float) -> list[Effect]:
        """Wait for the peer no longer, unless it may have the session and will be live or dead soon."""
        effects: list[Effect] = []
        for claim in list(self._open.values()):
            claim.busy.pop(peer, None)
            if claim.has.pop(peer, None) is not None:
                why = "the node that has the session was lost"
                effects += self._deny(claim, ReasonCode.SERVER_UNAVAILABLE, why)
            elif peer in claim.waits_for and (claim.clean_start or not self._is_awaited(peer, claim.client)):
                claim.waits_for.discard(peer)
                effects += self._decide(claim, now)
        return effects

    # ---- turns and time ------------------------------------------------------------------------------

    def turn_ended(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for peer, questions in self._questions.items():
            effects += [SendControl(peer, ClaimSessions(tuple(batch))) for batch in _batches(questions)]
        for peer, answers in self._answers.items():
            effects += [SendControl(peer, AnswerClaims(tuple(batch))) for batch in _batches(answers)]
        self._questions, self._answers = {}, {}
        return effects

    @property
    def next_at_s(self) -> float:  # type: ignore[override]
        return min(self._looks_at_s, self._rolls_at_s)

    def time_came(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self._looks_at_s <= now:
            effects += self._look_through(now)
        if self._rolls_at_s <= now:
            self._roll_on(now)
        return effects + self.turn_ended(now)

    def _look_through(self, now: float) -> list[Effect]:
        """Ask again, and give up, where it is time."""
        effects: list[Effect] = []
        for claim in list(self._open.values()):
            if claim.until_s <= now:
                effects += self._lose_patience(claim)
            elif claim.begins_at_s <= now:
                effects += self._begin(claim, now)
            else:
                effects += self._go_on(claim, now)
        for (peer, client), held in list(self._postponed.items()):
            if not self._moves.is_busy(client):
                del self._postponed[peer, client]
                effects += self._judge(peer, held, now)
        self._looks_at_s = now + ASK_AGAIN_S if self._open or self._postponed else inf
        return effects

    def _go_on(self, claim: _Open, now: float) -> list[Effect]:
        for peer in [peer for peer, at_s in claim.busy.items() if at_s <= now]:
            del claim.busy[peer]
            self._ask(peer, claim)
        given_up = [peer for peer in claim.waits_for if not self._is_waited_for(peer, claim.client)]
        if not given_up:
            return []
        claim.waits_for.difference_update(given_up)
        return self._decide(claim, now)

    def _is_waited_for(self, peer: int, client: str) -> bool:
        return self._members.is_linked(peer) or self._is_awaited(peer, client)

    def _lose_patience(self, claim: _Open) -> list[Effect]:
        if not claim.is_moving:
            return self._deny(claim, ReasonCode.SERVER_UNAVAILABLE, "other nodes did not answer in time")
        claim.until_s = inf  # the move goes on, and the client finds the session here when it comes again
        token, claim.token = claim.token, None
        if token is None:
            return []
        del self._clients[token]
        self.outcomes["denied"] += 1
        return [Denied(token, ReasonCode.SERVER_UNAVAILABLE, "the session is still on its way here")]

    def _roll_on(self, now: float) -> None:
        for peer, held in list(self._rolls.items()):
            batch, size = self._questions.setdefault(peer, []), 0
            while size < BATCH_BYTES:
                claim = next(held, None)
                if claim is None:
                    del self._rolls[peer]
                    break
                batch.append(claim)
                size += _size_of(claim)
        self._rolls_at_s = now + ROLL_EVERY_S if self._rolls else inf


def _size_of(what: Claim | ClaimAnswer) -> int:
    user = what.user if isinstance(what, Claim) else None
    return 48 + 3 * len(what.client) + 3 * len(user or "")  # at most; most names are short


def _batches(all_of_them: list[One]) -> Iterator[list[One]]:
    """In pieces that fit into a message each."""
    batch: list[One] = []
    size = 0
    for one in all_of_them:
        if batch and size + _size_of(one) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += _size_of(one)
    if batch:
        yield batch
