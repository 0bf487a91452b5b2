"""Claims by themselves: what a node answers to others, and whom it waits for."""

from dataclasses import dataclass, field
from typing import Any

import pytest

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
from braidmq.cluster.claims import ASK_AGAIN_S, PATIENCE_S, Claims
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.effects import SendControl
from braidmq.cluster.homes import Home
from braidmq.cluster.members import State
from braidmq.cluster.move_messages import EndSession, Fetch, Freeze, Release, Superseded
from braidmq.cluster.moving import Moves
from braidmq.wire import ReasonCode

ME, NOW, LATER = 1, 1000.0, 2**63


@dataclass
class Info:
    is_new_boot: bool = False
    was_absent: bool = False


@dataclass
class Someone:
    node: int


@dataclass
class Table:
    """Answers what `Members` would."""

    states: dict[int, State] = field(default_factory=dict)
    infos: dict[int, Info] = field(default_factory=dict)
    me: Someone = field(default_factory=lambda: Someone(ME))

    def remembered(self) -> list[int]:
        return list(self.states)

    def linked(self) -> list[int]:
        return [peer for peer in self.states if self.is_linked(peer)]

    def is_linked(self, peer: int) -> bool:
        return self.states[peer] is State.LIVE

    def state(self, peer: int) -> State:
        return self.states[peer]

    def info(self, peer: int) -> Info:
        return self.infos.setdefault(peer, Info())


class Homes(dict[str, Home]):
    def find(self, client: str) -> Home | None:
        return self.get(client)

    def clients(self) -> list[str]:
        return list(self)


class Part:
    """Claims, with what they ask, and what they say in a turn."""

    def __init__(self, *peers: int) -> None:
        self.table: Any = Table(dict.fromkeys(peers, State.LIVE))
        self.homes = Homes()
        self.moves = Moves(self.table, self.homes)
        self.clock = HybridClock(0.0)
        self.claims = Claims(self.table, self.clock, self.homes, self.moves)

    def ask(self, token: int = 1, clean_start: bool = False, user: str | None = None) -> list[Any]:
        effects = self.claims.handle(ClaimAsked(token, "c", user, clean_start), NOW)
        return effects + self.claims.turn_ended(NOW)

    def hear(
        self, peer: int, hlc: int, user: str | None = None, clean: bool = False, held: bool = False
    ) -> list[Any]:
        claim = ClaimSessions((Claim("c", hlc, user, clean, held),))
        return self.claims.received(peer, claim, NOW) + self.claims.turn_ended(NOW)

    def answer(self, peer: int, hlc: int, answer: Answer, stamp: tuple[int, int] = (0, 0)) -> list[Any]:
        said = AnswerClaims((ClaimAnswer("c", hlc, answer, stamp),))
        return self.claims.received(peer, said, NOW) + self.claims.turn_ended(NOW)


def asked(effects: list[Any]) -> dict[int, int]:
    """Who was asked, and the time of the claim."""
    sent = [effect for effect in effects if isinstance(effect, SendControl)]
    return {one.peer: one.control.claims[0].hlc for one in sent if isinstance(one.control, ClaimSessions)}


def answers(effects: list[Any]) -> list[int]:
    sent = [effect.control for effect in effects if isinstance(effect, SendControl)]
    return [one.answers[0].answer for one in sent if isinstance(one, AnswerClaims)]


def home(stamp: tuple[int, int] = (5, ME), user: str | None = None, lasts: bool = True) -> Home:
    return Home(stamp, user, lasts, False)


def test_who_has_the_session_here_asks_nobody() -> None:
    part = Part(2, 3)
    part.homes["c"] = home()
    [granted] = part.ask()
    assert isinstance(granted, Granted)
    assert granted.stamp > (5, ME)


def test_all_linked_nodes_are_asked_and_waited_for() -> None:
    part = Part(2, 3)
    sent = asked(part.ask())
    assert list(sent) == [2, 3]
    assert part.answer(2, sent[2], Answer.NONE) == []
    [granted] = part.answer(3, sent[3], Answer.NONE)
    assert granted == Granted(1, "c", (sent[2], ME))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(Answer.YIELD, ReasonCode.SERVER_BUSY), (Answer.REFUSED, ReasonCode.NOT_AUTHORIZED)],
)
def test_a_claim_may_be_lost(answer: Answer, reason: ReasonCode) -> None:
    part = Part(2, 3)
    sent = asked(part.ask())
    [denied] = part.answer(2, sent[2], answer, (sent[2] + 100, 2))
    assert (denied.token, denied.reason) == (1, reason)


def test_after_yielding_the_next_claim_is_larger() -> None:
    part = Part(2)
    ahead = part.clock.tick(NOW + 30)
    sent = asked(part.ask())
    part.answer(2, sent[2], Answer.YIELD, (ahead + 7, 2))
    assert asked(part.ask(2))[2] > ahead + 7


def test_who_is_busy_is_asked_again_for_a_while() -> None:
    part = Part(2)
    sent = asked(part.ask())
    assert part.answer(2, sent[2], Answer.BUSY) == []
    assert asked(part.claims.time_came(NOW + ASK_AGAIN_S)) == sent
    [denied] = part.claims.time_came(NOW + PATIENCE_S)
    assert denied.reason == ReasonCode.SERVER_UNAVAILABLE
    assert part.claims.open_count == 0


def test_a_node_that_dies_while_asked_is_not_waited_for() -> None:
    part = Part(2, 3)
    sent = asked(part.ask())
    part.answer(2, sent[2], Answer.NONE)
    part.table.states[3] = State.SUSPECT
    assert part.claims.unlinked(3, NOW) == []  # it may have the session
    part.table.states[3] = State.DEAD
    assert [type(effect) for effect in part.claims.died(3, NOW)] == [Granted]


def test_a_suspect_is_waited_for_unless_its_session_would_end_anyway() -> None:
    part = Part(2)
    part.table.states[2] = State.SUSPECT
    assert [type(effect) for effect in part.ask(1, clean_start=True)] == [Granted]
    assert part.ask(2) == []
    part.table.states[2] = State.UNREACHABLE
    assert [type(effect) for effect in part.claims.time_came(NOW + ASK_AGAIN_S)] == [Granted]


def test_a_suspect_that_is_back_is_asked() -> None:
    part = Part(2)
    part.table.states[2] = State.SUSPECT
    part.ask()
    part.table.states[2] = State.LIVE
    part.claims.linked(2, NOW)
    assert list(asked(part.claims.turn_ended(NOW))) == [2]


def test_what_was_claimed_without_a_node_is_told_to_it_when_it_is_back() -> None:
    part = Part(2)
    part.table.states[2] = State.DEAD
    [granted] = part.ask()
    part.homes["c"] = home(granted.stamp)
    part.table.states[2] = State.LIVE
    part.claims.linked(2, NOW)
    [sent] = part.claims.time_came(NOW)
    assert sent.control.claims == (Claim("c", granted.stamp[0], None, False, True, ME),)


def test_a_node_that_has_restarted_is_told_of_all_sessions() -> None:
    part = Part(2)
    part.homes |= {f"{number}": home() for number in range(3000)}
    part.table.infos[2] = Info(is_new_boot=True)
    part.claims.linked(2, NOW)
    told: list[str] = []
    at_s = NOW
    while part.claims.next_at_s < 1e9:
        at_s = max(at_s, part.claims.next_at_s)
        for effect in part.claims.time_came(at_s):
            told += [claim.client for claim in effect.control.claims]
    assert told == list(part.homes)
    assert at_s > NOW  # not all at once


def test_another_nodes_claim_is_answered_by_the_table() -> None:
    part = Part(2)
    assert answers(part.hear(2, LATER)) == [Answer.NONE]
    part.homes["c"] = home((9, ME), "somebody")
    assert answers(part.hear(2, 8, "somebody")) == [Answer.YIELD]
    assert answers(part.hear(2, 10, "other")) == [Answer.REFUSED]
    ended = part.hear(2, 10, "somebody", clean=True)
    assert (ended[0], answers(ended)) == (EndSession("c"), [Answer.NONE])
    part.homes["c"] = home((9, ME), "somebody", lasts=False)
    assert EndSession("c") in part.hear(2, 10, "somebody")
    part.homes["c"] = home((9, ME), "somebody")
    effects = part.hear(2, 10, "somebody")
    assert any(isinstance(effect, Freeze) for effect in effects)
    assert answers(effects) == [Answer.HAVE]
    assert answers(part.hear(2, 11, "somebody")) == [Answer.BUSY]


def test_of_two_claims_the_larger_one_stays() -> None:
    part = Part(2)
    own = asked(part.ask())[2]
    assert answers(part.hear(2, own - 1)) == [Answer.YIELD]
    effects = part.hear(2, own + 1)
    assert [effect.token for effect in effects if isinstance(effect, Denied)] == [1]
    assert answers(effects) == [Answer.NONE]
    assert part.claims.open_count == 0


def test_what_was_frozen_for_a_client_that_has_gone_is_released() -> None:
    part = Part(2, 3)
    sent = asked(part.ask())
    part.answer(2, sent[2], Answer.HAVE, (4, 2))
    [released] = part.claims.handle(ClaimWithdrawn(1), NOW)
    assert released == SendControl(2, Release("c", sent[2]))
    [late] = part.answer(3, sent[3], Answer.HAVE, (4, 3))
    assert late == SendControl(3, Release("c", sent[3]))


def test_of_two_sessions_the_newer_one_is_fetched() -> None:
    part = Part(2, 3)
    sent = asked(part.ask())
    part.answer(2, sent[2], Answer.HAVE, (4, 2))
    effects = part.answer(3, sent[3], Answer.HAVE, (7, 3))
    assert effects == [
        SendControl(2, Superseded("c", sent[2])),
        SendControl(3, Fetch("c", sent[3])),
    ]


def test_the_older_of_two_sessions_gives_in() -> None:
    part = Part(2)
    part.homes["c"] = home((5, ME))
    assert part.hear(2, 6, held=True) == [EndSession("c", 2)]
    assert answers(part.hear(2, 4, held=True)) == [Answer.YIELD]
    assert part.answer(2, 5, Answer.YIELD, (6, 2)) == [EndSession("c", 2)]


def test_a_second_connection_here_takes_the_place_of_the_first() -> None:
    part = Part(2)
    first = asked(part.ask(1))
    effects = part.ask(2)
    assert [effect.token for effect in effects if isinstance(effect, Denied)] == [1]
    second = asked(effects)
    assert part.answer(2, first[2], Answer.NONE) == []
    assert [type(effect) for effect in part.answer(2, second[2], Answer.NONE)] == [Granted]


def test_a_session_is_claimed_by_invitation_though_nobody_waits_for_it() -> None:
    part = Part(2)
    part.claims.received(2, Invite("c", None, 4), NOW)
    sent = asked(part.claims.turn_ended(NOW))
    assert sent[2] == 5  # so it loses to whoever has connected since
    assert part.answer(2, sent[2], Answer.HAVE, (4, 2)) == [SendControl(2, Fetch("c", sent[2]))]


def test_many_claims_are_asked_in_messages_of_bounded_size() -> None:
    part = Part(2)
    for token in range(3000):
        part.claims.handle(ClaimAsked(token, f"client {token}", None, True), NOW)
    sent = [effect.control.claims for effect in part.claims.turn_ended(NOW)]
    assert sum(map(len, sent)) == 3000
    assert 1 < len(sent) < 20
