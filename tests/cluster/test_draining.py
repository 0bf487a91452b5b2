"""Draining and rebalancing: whom a node sends away, where to, and how fast."""

from dataclasses import dataclass, field
from typing import Any

from braidmq.cluster.claim_messages import Invite
from braidmq.cluster.draining import (
    LOOK_AGAIN_S,
    STEP_S,
    Draining,
    KeepClients,
    Rebalance,
    RebalanceAsked,
    SendAway,
    SendClientsAway,
)
from braidmq.cluster.effects import SendControl, Tell
from braidmq.cluster.homes import Home
from braidmq.cluster.members import State

NOW = 1000.0


@dataclass
class Peer:
    node: int
    connections: int
    state: State = State.LIVE

    @property
    def client_address(self) -> str:
        return f"node-{self.node}:1883"


@dataclass
class Part:
    peers: list[Peer]
    homes: dict[str, Home] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table: Any = self
        self.draining = Draining(table, table)
        self.now = NOW

    # What `Members` and `Homes` would answer.
    def __iter__(self) -> Any:
        return iter(self.peers)

    def linked(self) -> list[int]:
        return [peer.node for peer in self.peers]

    def find(self, client: str) -> Home | None:
        return self.homes.get(client)

    def clients(self) -> list[str]:
        return list(self.homes)

    def have(self, connected: int, absent: int = 0) -> None:
        for number in range(connected):
            self.homes[f"here {number}"] = Home((1, 1), None, True, True)
        for number in range(absent):
            self.homes[f"away {number}"] = Home((1, 1), "user", True, False)

    def carry_out(self, effects: list[Any]) -> list[Any]:
        for effect in effects:
            if isinstance(effect, SendAway):
                del self.homes[effect.client]
        return effects

    def go_on(self, seconds: float) -> list[Any]:
        until_s, effects = self.now + seconds, []
        while self.draining.next_at_s <= until_s:
            self.now = self.draining.next_at_s
            effects += self.carry_out(self.draining.time_came(self.now))
        self.now = until_s
        return effects


def test_clients_are_sent_away_so_many_a_second() -> None:
    part = Part([Peer(2, 0)])
    part.have(connected=100)
    effects = part.carry_out(part.draining.handle(SendClientsAway(100), NOW))
    effects += part.go_on(0.5 - STEP_S / 2)
    assert len(effects) == 50
    effects += part.go_on(0.5)
    assert len(effects) == 100
    assert effects[0] == SendAway("here 0", "node-2:1883", False)
    assert not part.homes


def test_they_are_spread_over_the_nodes_with_the_fewest() -> None:
    part = Part([Peer(2, 10), Peer(3, 0), Peer(4, 0, State.DRAINING)])
    part.have(connected=20)
    effects = part.carry_out(part.draining.handle(SendClientsAway(1000), NOW))
    assert [effect.reference for effect in effects].count("node-3:1883") == 15
    assert [effect.reference for effect in effects].count("node-2:1883") == 5


def test_sessions_of_absent_clients_are_offered_until_they_are_gone() -> None:
    part = Part([Peer(2, 0)])
    part.have(connected=0, absent=1)
    invited = [SendControl(2, Invite("away 0", "user", part.homes["away 0"].stamp[0]))]
    assert part.draining.handle(SendClientsAway(10), NOW) == invited
    assert part.go_on(LOOK_AGAIN_S + STEP_S) == invited
    part.homes.clear()
    assert part.go_on(10) == []


def test_who_comes_meanwhile_is_told_where_to_go() -> None:
    part = Part([Peer(2, 5), Peer(3, 4)])
    assert part.draining.reference() is None
    part.draining.handle(SendClientsAway(10), NOW)
    assert part.draining.reference() == "node-3:1883"
    part.have(connected=1)
    assert part.go_on(LOOK_AGAIN_S + STEP_S) == [SendAway("here 0", "node-3:1883", False)]
    part.draining.handle(KeepClients(), NOW)
    assert part.draining.reference() is None
    part.have(connected=1)
    assert part.go_on(10) == []


def test_the_operator_is_told_once_if_nobody_takes_them() -> None:
    part = Part([Peer(2, 0, State.SUSPECT)])
    part.have(connected=3)
    effects = part.draining.handle(SendClientsAway(10), NOW) + part.go_on(5)
    assert [type(effect) for effect in effects] == [Tell]
    assert part.draining.reference() == ""


def test_who_leaves_for_good_says_so() -> None:
    part = Part([Peer(2, 0)])
    part.have(connected=1)
    assert part.draining.handle(SendClientsAway(10, True), NOW) == [SendAway("here 0", "node-2:1883", True)]


def test_what_is_above_the_mean_goes_to_others() -> None:
    part = Part([Peer(2, 0), Peer(3, 0)])
    part.have(connected=30, absent=5)
    told = part.carry_out(part.draining.handle(Rebalance(100), NOW))
    assert told[:2] == [SendControl(peer, RebalanceAsked(100)) for peer in (2, 3)]
    effects = told[2:] + part.go_on(10)
    assert len(effects) == 20
    assert {type(effect) for effect in effects} == {SendAway}
    assert part.draining.reference() is None


def test_a_node_near_the_mean_sends_nobody_away() -> None:
    part = Part([Peer(2, 20)])
    part.have(connected=21)
    assert part.draining.received(2, RebalanceAsked(100), NOW) == []
