"""Shared groups of a node in a cluster: does what `cluster.groups` decides, and is the broker's `Placement`.

A node plugs it in like this:

    part = Groups(me, key, members, announcing.ledger)       # added to the Cluster behind `announcing`
    announcing.announcers.append(part)
    groups = SharedGroups(broker, part, tell, enter, remembered, boot)
    # carry out effects by `groups.hands`; give entries of the kind GROUP_ENTRY to `groups.entered`; then
    groups.start()
    # hops of a topic: `with_groups(announcing.hops(topic), part.hops(topic))`

What nodes tell each other of members and deliveries are entries of the streams: it arrives in order, once,
and is kept with the turn in which it happened.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from braidmq.broker.broker import Broker
from braidmq.broker.sharing.far_events import (
    FAR_EVENTS_MAX,
    GONE,
    FarEvent,
    FromMember,
    FromOwner,
    Give,
    Returned,
    RollBegan,
    RollEnded,
    Withdraw,
    decode_events,
    encode_events,
)
from braidmq.broker.sharing.far_members import FarMembers
from braidmq.broker.sharing.receiver import GroupReceiver
from braidmq.cluster.effects import Enter
from braidmq.cluster.groups import (
    FillChanged,
    GroupAppeared,
    Groups,
    GroupVanished,
    MembersHaveNews,
    NodeDied,
    NodeForgotten,
    NodeLinked,
    NodeUnlinked,
    OwnerChanged,
    StatusReported,
    TellNews,
    TellStatus,
    route_of,
)
from braidmq.errors import ProtocolError
from braidmq.messages.message import Message
from braidmq.wire import ReasonCode
from braidmq.wire.status import StatusReport

PUBLISHED: Final = 0  # kinds of entries
GROUP_ENTRY: Final = 2
NO_ROUTE: Final = b"\x00\x00"
HOPS_MAX: Final = 3
REST_S: Final = 0.1  # of a message that has come that far without finding its group
UNKNOWN_S: Final = 2.0  # how long a message waits for a group that nobody knows
HELD_MAX: Final = 10_000
ORPHANS_S: Final = 30.0  # and for one of which some node that may know has not been heard since the start


@dataclass(slots=True)
class _Held:
    """A message whose group is not known here, or is passed from node to node."""

    number: int
    message: Message
    until_s: float  # then it is given up


class SharedGroups:
    def __init__(
        self,
        broker: Broker,
        part: Groups,
        tell: Callable[[object], None],
        enter: Callable[[Enter], None],
        remembered: Callable[[], Iterable[int]],
        *,
        me: int,
        boot: int,
    ) -> None:
        """`tell` gives an event to the core, `remembered` are all peers that are not forgotten."""
        self.boot = boot
        self._me = me
        self._broker = broker
        self._registry = broker.groups
        self._part = part
        self._tell = tell
        self._enter = enter
        self._remembered = remembered
        self._news: dict[int, list[FarEvent]] = {}  # node -> what it is to be told at the end of the turn
        self._held: deque[_Held] = deque()
        self._is_waiting_for_owners = False
        self._orphaned_since_s: dict[GroupReceiver, float] = {}
        self.hands: dict[type, Callable[[Any], None]] = {
            OwnerChanged: self._owner_changed,
            NodeLinked: lambda effect: self._call_roll(effect.peer),
            NodeUnlinked: lambda effect: self._far.unlinked(effect.peer),
            NodeDied: lambda effect: self._far.died(effect.peer),
            NodeForgotten: self._forgotten,
            StatusReported: self._status_reported,
            TellNews: lambda effect: self.tell_news(),
        }

    @property
    def held(self) -> int:
        """Messages for groups that nobody knows; they are in memory only, for as long as that may last."""
        return len(self._held)

    def start(self) -> None:
        """The effects are carried out by now: tell what groups there are."""
        self._registry.attach(self)
        if self._registry.orphaned():
            self.wait_for_owner()

    @property
    def _far(self) -> FarMembers:
        assert self._registry.far is not None
        return self._registry.far

    # ---- what the broker's groups ask ----------------------------------------------------------------

    def number(self, name: str, filter: bytes) -> int:
        return self._part.number(name, filter)

    def owner(self, number: int) -> int | None:
        owner = self._part.owner_with_me(number)
        return None if owner == self._me else owner

    def owner_of(self, number: int) -> int | None:
        return self._part.owner(number)

    def may_be_elsewhere(self, number: int) -> bool:
        return self._part.owner(number) is not None or not self._part.has_heard(self._remembered())

    def wait_for_owner(self) -> None:
        if not self._is_waiting_for_owners:
            self._is_waiting_for_owners = True
            self._broker.timers.set(self._broker.hub.now + REST_S, self._send_orphans)

    def appeared(self, number: int, name: str, filter: bytes) -> None:
        self._tell(GroupAppeared(name, filter))

    def vanished(self, number: int, name: str, filter: bytes) -> None:
        self._tell(GroupVanished(name, filter))

    def fill_changed(self, number: int, name: str, filter: bytes, is_full: bool) -> None:
        self._tell(FillChanged(name, filter, is_full))

    def tell(self, node: int | None, event: FromMember, message: Message | None = None) -> None:
        """Of a delivery whose giver isn't known any more, all are told."""
        for peer in self._remembered() if node is None else (node,):
            self._note(peer, event, message)

    def give(self, node: int, event: FromOwner, message: Message | None) -> None:
        self._note(node, event, message)

    def report(self, node: int, client: str, report: StatusReport) -> None:
        fields = (report.queue, report.processing_s, report.received, report.processed)
        self._tell(TellStatus(node, client, fields))

    # ---- to other nodes ------------------------------------------------------------------------------

    def _note(self, node: int, event: FarEvent, message: Message | None) -> None:
        """To be told with the turn. What has a message has an entry of its own, behind what was noted."""
        if message is not None:
            self._send(node)
            self._enter(Enter(node, GROUP_ENTRY, encode_events([event]), message, NO_ROUTE))
            return
        if not self._news:
            self._tell(MembersHaveNews())
        self._news.setdefault(node, []).append(event)

    def _send(self, node: int) -> None:
        events = self._news.pop(node, [])
        for start in range(0, len(events), FAR_EVENTS_MAX):
            head = encode_events(events[start : start + FAR_EVENTS_MAX])
            self._enter(Enter(node, GROUP_ENTRY, head, None, NO_ROUTE))

    def tell_news(self) -> None:
        """The turn ends."""
        for node in list(self._news):
            self._send(node)

    def _call_roll(self, peer: int) -> None:
        """Tell the node of all members that it may have to know, whatever it knew before."""
        self._note(peer, RollBegan(0, ""), None)
        self._registry.call_roll(peer)
        self._note(peer, RollEnded(0, ""), None)

    # ---- from other nodes ----------------------------------------------------------------------------

    def entered(self, peer: int, head: bytes, message: Message | None) -> None:
        """An entry of the kind GROUP_ENTRY."""
        try:
            events = decode_events(head)
        except msgspec.DecodeError as error:
            raise ProtocolError(ReasonCode.MALFORMED_PACKET, f"what is told of members: {error}") from None
        told: list[FromMember] = []
        for event in events:
            if isinstance(event, Give):
                self._given(peer, event, message)
            elif isinstance(event, Withdraw):
                proxy = self._registry.proxy_of(event.group)
                if proxy is not None:
                    proxy.withdrawn(peer, event)
            else:
                told.append(event)
        if told:
            self._far.take(peer, told, message)

    def _given(self, giver: int, event: Give, message: Message | None) -> None:
        if message is None:
            raise ProtocolError(ReasonCode.PROTOCOL_ERROR, "a member is given a message, and there is none")
        proxy = self._registry.proxy_of(event.group)
        if proxy is not None:
            proxy.given(giver, event, message)
        elif event.qos:
            returned = Returned(event.group, event.client, event.token, GONE)
            self.tell(giver, returned, message if event.qos == 2 else None)

    def _status_reported(self, effect: StatusReported) -> None:
        self._far.reported(effect.peer, effect.client, StatusReport(*effect.report))

    # ---- the owner -----------------------------------------------------------------------------------

    def _owner_changed(self, effect: OwnerChanged) -> None:
        self._registry.place(effect.number, effect.owner)
        self._retry()

    def _forgotten(self, effect: NodeForgotten) -> None:
        self._news.pop(effect.peer, None)
        self._far.forgotten(effect.peer)

    def _send_orphans(self) -> None:
        """What waits in groups that nobody here is in is for who has them, as soon as that is known."""
        now = self._broker.hub.now
        self._is_waiting_for_owners = False
        orphaned = self._registry.orphaned()
        self._orphaned_since_s = {group: self._orphaned_since_s.get(group, now) for group in orphaned}
        for group in orphaned:
            is_known = self._part.owner(self.number(group.name, group.filter)) is not None
            has_heard = self._part.has_heard(self._remembered())
            if is_known:
                group.hand_over()
            elif now - self._orphaned_since_s[group] >= (UNKNOWN_S if has_heard else ORPHANS_S):
                self._registry.give_up(group)
        if self._registry.orphaned():
            self.wait_for_owner()

    def rescue(self, messages: Iterable[tuple[int, Message]]) -> None:
        """A node is dead that was sent these for groups, and does not come back with them."""
        for number, message in messages:
            self.pass_on(number, message, 0)

    # ---- messages for groups that are elsewhere ------------------------------------------------------

    def pass_on(self, number: int, message: Message, hops: int) -> None:
        """Give the message to the node that has the group. It rests if nobody knows, or all are mistaken."""
        owner = self._part.owner(number)
        if owner is None or owner == self._me or hops > HOPS_MAX:
            self._hold(number, message)
        else:
            route = route_of(is_plain=False, groups=(number,), hops=hops)
            self._enter(Enter(owner, PUBLISHED, b"", message, route))

    def _hold(self, number: int, message: Message) -> None:
        if len(self._held) >= HELD_MAX:
            self._broker.hub.count_drop("group_gone", self._held.popleft().message)
        now = self._broker.hub.now
        if not self._held:
            self._broker.timers.set(now + REST_S, self._look_again)
        self._held.append(_Held(number, message, now + UNKNOWN_S))

    def _look_again(self) -> None:
        self._retry()
        if self._held:
            self._broker.timers.set(self._broker.hub.now + REST_S, self._look_again)

    def _retry(self) -> None:
        """Send on what has rested, if somebody has its group by now."""
        held, self._held = self._held, deque()
        for one in held:
            owner = self._part.owner(one.number)
            if owner == self._me and self._registry.is_here(one.number):
                self._registry.deliver_to(one.number, one.message)
            elif owner is not None and owner != self._me:
                route = route_of(is_plain=False, groups=(one.number,))
                self._enter(Enter(owner, PUBLISHED, b"", one.message, route))
            elif self._broker.hub.now >= one.until_s:
                self._broker.hub.count_drop("group_gone", one.message)
            else:
                self._held.append(one)
