"""Sends clients to other nodes: all of them before maintenance or when a node leaves, some to even out the
load.

Clients that are here get a DISCONNECT that names another node, so many a second; their sessions follow when
they have connected there. Sessions whose client is away are offered to other nodes, which claim them.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from braidmq.cluster.claim_messages import Invite
from braidmq.cluster.effects import Effect, SendControl, Tell
from braidmq.cluster.frames import Control
from braidmq.cluster.homes import Homes
from braidmq.cluster.members import Member, Members, State
from braidmq.cluster.parts import Part

STEP_S: Final = 0.1
LOOK_AGAIN_S: Final = 1.0  # for those who have come, or whose move has come to nothing
TOLERATED: Final = 1.1  # of the mean number of clients


@dataclass(frozen=True, slots=True)
class SendClientsAway:
    """The node is drained; `is_for_good`: it leaves the cluster."""

    per_s: int
    is_for_good: bool = False


@dataclass(frozen=True, slots=True)
class KeepClients:
    """It is drained no longer."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Let all nodes that have too many clients send some to others."""

    per_s: int


@dataclass(frozen=True, slots=True)
class SendAway:
    """Tell a client that is here to use another server. `reference` is its address; "": not known."""

    client: str
    reference: str
    is_for_good: bool


class RebalanceAsked(Control, frozen=True):
    """An operator wants clients to be spread evenly."""

    per_s: int


class Draining(Part):
    events = (SendClientsAway, KeepClients, Rebalance)
    controls = (RebalanceAsked,)

    def __init__(self, members: Members, homes: Homes) -> None:
        self.is_draining = False
        self.next_at_s = inf
        self._members = members
        self._homes = homes
        self._is_for_good = False
        self._per_s = 0
        self._excess = 0  # clients that are to go though the node isn't drained
        self._left: deque[str] = deque()  # whom to look at
        self._given: Counter[int] = Counter()  # clients sent to each peer, on top of those it has told of
        self._is_stuck = False

    def reference(self) -> str | None:
        """Where a client that comes now should go instead; None: it is welcome."""
        if not self.is_draining:
            return None
        other = self._least_busy()
        return other.client_address if other is not None else ""

    # ---- what it is told -----------------------------------------------------------------------------

    def handle(self, event: SendClientsAway | KeepClients | Rebalance, now: float) -> list[Effect]:
        if isinstance(event, KeepClients):
            self.is_draining, self._excess, self.next_at_s = False, 0, inf
            self._left.clear()
            return []
        if isinstance(event, Rebalance):
            asked = RebalanceAsked(event.per_s)
            told: list[Effect] = [SendControl(peer, asked) for peer in self._members.linked()]
            return told + self._rebalance(event.per_s, now)
        self.is_draining, self._is_for_good, self._is_stuck = True, event.is_for_good, False
        return self._begin(event.per_s, now)

    def received(self, peer: int, control: RebalanceAsked, now: float) -> list[Effect]:
        return self._rebalance(control.per_s, now)

    def _rebalance(self, per_s: int, now: float) -> list[Effect]:
        if self.is_draining:
            return []
        own = sum(1 for _ in self._connected())
        others = [member.connections for member in self._members if member.state is State.LIVE]
        mean = (own + sum(others)) / (1 + len(others))
        if own <= TOLERATED * mean:
            return []
        self._excess = own - ceil(mean)
        return self._begin(per_s, now)

    def _connected(self) -> Iterator[str]:
        for client in self._homes.clients():
            home = self._homes.find(client)
            if home is not None and home.is_connected:
                yield client

    def _begin(self, per_s: int, now: float) -> list[Effect]:
        self._per_s = max(1, per_s)
        self._left = deque(self._homes.clients())
        self._given.clear()
        return self.time_came(now) if self.next_at_s == inf else []

    # ---- by and by -----------------------------------------------------------------------------------

    def time_came(self, now: float) -> list[Effect]:
        if now < self.next_at_s < inf:
            return []
        if not (self.is_draining or self._excess):
            self.next_at_s = inf
            return []
        effects: list[Effect] = []
        budget = max(1, int(self._per_s * STEP_S))
        self._left = self._left or deque(self._homes.clients())
        while self._left and budget and (self.is_draining or self._excess):
            sent = self._send_away(self._left.popleft())
            effects += sent
            budget -= bool(sent)
        self._look_again(now)
        return effects

    def _look_again(self, now: float) -> None:
        if self._left and (self.is_draining or self._excess):
            self.next_at_s = now + STEP_S
        elif self.is_draining:
            self.next_at_s = now + LOOK_AGAIN_S
            self._given.clear()
        else:
            self._excess, self.next_at_s = 0, inf
            self._left.clear()

    def _send_away(self, client: str) -> list[Effect]:
        home = self._homes.find(client)
        if home is None or not (home.is_connected or (self.is_draining and home.lasts)):
            return []
        other = self._least_busy()
        if other is None:
            return self._nobody_takes_them()
        self._given[other.node] += 1
        if not home.is_connected:
            return [SendControl(other.node, Invite(client, home.user, home.stamp[0]))]
        self._excess = max(0, self._excess - 1)
        return [SendAway(client, other.client_address, self._is_for_good and self.is_draining)]

    def _nobody_takes_them(self) -> list[Effect]:
        if self._is_stuck:
            return []
        self._is_stuck = True
        return [Tell("warning", "no other node takes clients: link one that isn't drained itself")]

    def _least_busy(self) -> Member | None:
        able = [member for member in self._members if member.state is State.LIVE]
        return min(able, key=lambda member: member.connections + self._given[member.node], default=None)
