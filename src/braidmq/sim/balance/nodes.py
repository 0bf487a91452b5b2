"""The same run with the publishers and members of a group on several nodes, one of which has the group.

Members elsewhere are the `RemoteMember`s of a clustered broker. What is published elsewhere, what is given to
members there and what they answer takes a hop more; their node measures how long they took, so the hop is no
part of that.
"""

from collections.abc import Callable
from random import Random

from braidmq.broker.receiver import Target
from braidmq.broker.sharing.far_events import FromOwner, Give
from braidmq.broker.sharing.far_members import FarSeat, RemoteMember
from braidmq.broker.sharing.member import Delivery, Member
from braidmq.sim.balance.methods import Method
from braidmq.sim.balance.scenario import Scenario
from braidmq.sim.balance.world import World
from braidmq.wire.status import StatusReport

ROOM = 65535  # deliveries that a client takes at a time
GROUP = 1
MOST_QOS = 2


class NodesWorld(World):
    """Members and publications are spread evenly; the first node has the group."""

    def __init__(self, scenario: Scenario, method: Method, rng: Random, hop_s: float, nodes: int = 3) -> None:
        self._hop_s = hop_s
        self._nodes = nodes
        self._index_of: dict[str, int] = {}
        self._sent_s: dict[Delivery, float] = {}  # when a far member's node sent it
        super().__init__(scenario, method, rng)

    def give(self, node: int, event: FromOwner, message: object) -> None:
        """The owner's RemoteMember sends: as `Placement`."""
        assert isinstance(event, Give)
        index = self._index_of[event.client]
        place = self._group.place(self._members[index])
        assert place is not None
        delivery = place.deliveries[event.token]
        self._sent_s[delivery] = self._now + self._hop_s
        self._convey(index, delivery, self._hop_s)

    def _make_member(self, index: int, joined_s: float, rtt_s: float) -> Member:
        node = index % self._nodes
        if not node:
            return super()._make_member(index, joined_s, rtt_s)
        member = RemoteMember(f"subscriber-{index}", joined_s, node, 1, self)
        member.receive_max = ROOM
        member.acks_when_processed = self._method.qos > 0 and self._method.declares.has(index)
        member.has_event_status = self._method.reports_events
        member.rtt_s = member.rtt_min_s = rtt_s
        self._index_of[member.name] = index
        return member

    def _target(self, index: int) -> object:
        member = self._members[index]
        return Target(FarSeat(member, GROUP, self), MOST_QOS) if isinstance(member, RemoteMember) else None

    def _published(self, number: int) -> None:
        if number % self._nodes == 0:
            super()._published(number)
        else:
            self._at(self._now + self._hop_s, super()._published, number)

    def _return(self, index: int, happen: Callable[..., None], what: object) -> None:
        """What a far member's node hears goes on to the owner."""
        if index % self._nodes == 0:
            super()._return(index, happen, what)
        else:
            super()._return(index, self._heard, (happen, what))

    def _heard(self, index: int, told: tuple[Callable[..., None], StatusReport | Delivery]) -> None:
        happen, what = told
        after_s = self._now - self._sent_s.pop(what) if isinstance(what, Delivery) else 0.0
        self._at(self._now + self._hop_s, self._told, index, happen, what, after_s)

    def _told(self, index: int, happen: Callable[..., None], what: object, after_s: float) -> None:
        member = self._members[index]
        if isinstance(what, Delivery) and isinstance(member, RemoteMember):
            member.took(what, self._now, after_s)
        happen(index, what)
