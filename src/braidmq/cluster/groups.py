"""Which nodes have members of which shared group, and which of them has the group: its owner.

Every node tells its peers for which groups it has members, and whether one that it has is nearly full. So all
know all groups, and find the owner by themselves: of the nodes with members the one with the highest hash of
group and node, those that are dead last. Nodes may disagree for a moment. That is no matter of safety: a
message is in one place, whoever is taken for the owner, and who isn't it passes it on.

A group is known by its number, a hash of name and filter that only nodes of the cluster can make.
Announcements are numbered together with those of interest, and answered by SEEN. What nodes tell each other
of single members goes through the reliable streams, and is no business of this part.

Cost: a change is O(nodes with members); a node that comes or goes O(its groups); a topic that is looked up, a
search of a trie.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import Any, Final, Protocol

import msgspec

from braidmq.cluster import frames as wire
from braidmq.cluster.effects import Effect, RoutesChanged, SendControl, SendFrame
from braidmq.cluster.frames import Control, FrameError
from braidmq.cluster.hops import Hop
from braidmq.cluster.members import State
from braidmq.cluster.parts import Part
from braidmq.errors import ProtocolError
from braidmq.limits import KIB
from braidmq.topics import FilterTrie, validate_filter
from braidmq.wire.fields import write_varint

NOBODY: Final = -1  # no node: a group whose owner is yet to be chosen
GROUPS_MAX: Final = 65_536  # of one node
PIECE_BYTES_MAX: Final = 32 * KIB  # of names and filters in one announcement
DEAD: Final = (State.DEAD, State.LEFT, State.FORGOTTEN)
OWN_PREFIXES: Final = (b"$SYS/", b"$load/")  # each node's own business
PLAIN_FLAG: Final = 1
GROUPS_FLAG: Final = 2

_PAIR: Final = Struct("<QQ")
_NUMBER: Final = Struct("<Q")


# -- what happens here -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupAppeared:
    """The first session of this node has joined the group."""

    name: str
    filter: bytes


@dataclass(frozen=True, slots=True)
class GroupVanished:
    """The last session of this node has left it."""

    name: str
    filter: bytes


@dataclass(frozen=True, slots=True)
class FillChanged:
    """The group, which this node has, can hardly take more; or it can again."""

    name: str
    filter: bytes
    is_full: bool


@dataclass(frozen=True, slots=True)
class MembersHaveNews:
    """Something of members is to be told to other nodes at the end of the turn."""


@dataclass(frozen=True, slots=True)
class TellStatus:
    """A member says how it is, and that node should know."""

    peer: int
    client: str
    report: tuple[int, float, int, int]


# -- what nodes tell each other ----------------------------------------------------------------------------


class GroupSeen(msgspec.Struct, frozen=True, array_like=True):
    name: str
    filter: bytes
    is_full: bool


class GroupsChanged(Control, frozen=True):
    """What has come, or changed, and what has gone. Of a whole, in pieces, what none names has gone, too."""

    number: int
    is_whole: bool
    is_last: bool
    here: tuple[GroupSeen, ...]
    gone: tuple[int, ...]


class MemberStatus(Control, frozen=True):
    """What a client says of itself: queue, processing time, and its totals."""

    client: str
    report: tuple[int, float, int, int]


# -- what is wanted of the node ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnerChanged:
    """That node has the group now; None: this one."""

    number: int
    owner: int | None


@dataclass(frozen=True, slots=True)
class NodeLinked:
    """It should hear of all members that it may have to know."""

    peer: int


@dataclass(frozen=True, slots=True)
class NodeUnlinked:
    """Its members can't be reached."""

    peer: int


@dataclass(frozen=True, slots=True)
class NodeDied:
    """Others get what its members have of QoS 1."""

    peer: int


@dataclass(frozen=True, slots=True)
class NodeForgotten:
    """Its members don't come back."""

    peer: int


@dataclass(frozen=True, slots=True)
class TellNews:
    """The turn ends: what is to be told of members has to go with it."""


@dataclass(frozen=True, slots=True)
class StatusReported:
    """A member on that node says how it is."""

    peer: int
    client: str
    report: tuple[int, float, int, int]


# -- numbers and routes ------------------------------------------------------------------------------------


def number_of(key: bytes, name: str, filter: bytes) -> int:
    """By which all nodes know a group; with the cluster's key, so that no client can make two alike."""
    text = name.encode() + b"\0" + filter
    return int.from_bytes(
        blake2b(text, digest_size=8, key=key[:64], person=b"braidmq group").digest(), "little"
    )


def rank(group: int, node: int) -> int:
    return int.from_bytes(blake2b(_PAIR.pack(group, node), digest_size=8).digest(), "little")


def route_of(*, is_plain: bool, groups: Iterable[int] = (), hops: int = 0) -> bytes:
    """The route of an entry: flags, hops so far, and the groups that it is for."""
    numbers = list(groups)
    head = bytes((PLAIN_FLAG * is_plain | GROUPS_FLAG * bool(numbers), hops))
    if not numbers:
        return head
    return head + write_varint(len(numbers)) + b"".join(map(_NUMBER.pack, numbers))


def with_groups(plain: tuple[Hop, ...], groups: dict[int, list[int]]) -> tuple[Hop, ...]:
    """Where a message goes for plain subscribers and for groups: once to each peer."""
    if not groups:
        return plain
    wanting = {hop.peer for hop in plain}
    both = [Hop(peer, route_of(is_plain=peer in wanting, groups=numbers)) for peer, numbers in groups.items()]
    return (*(hop for hop in plain if hop.peer not in groups), *both)


class Ledger(Protocol):
    """Numbers announcements; see `announcing`."""

    def __iter__(self) -> Iterator[int]: ...
    def number(self, peer: int) -> int: ...
    def greeting(self, peer: int) -> int: ...


class Peers(Protocol):
    """Asks about peers; `members.Members` does."""

    def state(self, peer: int) -> State: ...


@dataclass(slots=True)
class _Group:
    number: int
    name: str
    filter: bytes
    holders: dict[int, bool] = field(
        default_factory=dict
    )  # node with members -> whether it is nearly full there
    owner: int = NOBODY

    @property
    def is_full(self) -> bool:
        return self.holders[self.owner]


class Groups(Part):
    """`me` is this node, `key` the cluster's."""

    events = (GroupAppeared, GroupVanished, FillChanged, TellStatus, MembersHaveNews)
    controls = (GroupsChanged, MemberStatus)

    def __init__(self, me: int, key: bytes, peers: Peers, ledger: Ledger) -> None:
        self._me = me
        self._key = key
        self._peers = peers
        self._ledger = ledger
        self._groups: dict[int, _Group] = {}
        self._by_node: dict[int, set[int]] = {me: set()}
        self._trie = FilterTrie()  # filter -> the numbers of its groups
        self._renewed: dict[int, set[int]] = {}  # peer -> what it has named of the whole that it is telling
        self._heard: set[int] = set()  # peers that have told all of theirs since this node was started
        self._changes: dict[int, None] = {}  # numbers of groups to be announced
        self._has_news = False

    # -- questions -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._groups)

    def number(self, name: str, filter: bytes) -> int:
        return number_of(self._key, name, filter)

    def owner(self, number: int) -> int | None:
        """The node that has the group; None if nobody is known to have members."""
        group = self._groups.get(number)
        return group.owner if group is not None else None

    def has_heard(self, peers: Iterable[int]) -> bool:
        """Whether all of these have said which groups they have members of."""
        return self._heard.issuperset(peers)

    def owner_with_me(self, number: int) -> int:
        """The node that would have it, if this one had a member."""
        group = self._groups.get(number)
        return self._best(number, [self._me, *(group.holders if group is not None else ())])

    @property
    def owned(self) -> int:
        """How many groups this node has."""
        return sum(self._groups[number].owner == self._me for number in self._by_node[self._me])

    def hops(self, topic: bytes) -> dict[int, list[int]]:
        """The peers that have groups of this topic, and the numbers of those; but for what is full."""
        found: dict[int, list[int]] = {}
        for group in self._matching(topic):
            if not group.is_full:
                found.setdefault(group.owner, []).append(group.number)
        return found

    def is_full(self, topic: bytes) -> bool:
        """Whether a group of this topic, that another node has, can hardly take more."""
        return any(group.is_full for group in self._matching(topic))

    def _matching(self, topic: bytes) -> Iterator[_Group]:
        """Groups of other nodes. What a node says of itself goes to its own groups only."""
        if topic.startswith(OWN_PREFIXES):
            return
        for numbers in self._trie.match(topic):
            for number in numbers:
                if self._groups[number].owner != self._me:
                    yield self._groups[number]

    def _best(self, number: int, nodes: Iterable[int]) -> int:
        return max(nodes, key=lambda node: (not self._is_dead(node), rank(number, node)))

    def _is_dead(self, node: int) -> bool:
        return node != self._me and self._peers.state(node) in DEAD

    # -- local events ----------------------------------------------------------------------------------------

    def handle(self, event: Any, now: float) -> Iterable[Effect]:
        match event:
            case GroupAppeared(name, filter):
                if len(name) + len(filter) > PIECE_BYTES_MAX or len(self._by_node[self._me]) >= GROUPS_MAX:
                    return []  # too much to be told: it is a group of this node alone
                self._changes[self.number(name, filter)] = None
                return self._seen(self._me, GroupSeen(name, filter, False))
            case GroupVanished(name, filter):
                self._changes[self.number(name, filter)] = None
                return self._lost(self._me, self.number(name, filter))
            case FillChanged(name, filter, is_full):
                number = self.number(name, filter)
                if number not in self._by_node[self._me]:
                    return []
                self._changes[number] = None
                self._groups[number].holders[self._me] = is_full
                return []
            case TellStatus(peer, client, report):
                return [SendControl(peer, MemberStatus(client, report))]
            case MembersHaveNews():
                self._has_news = True
        return []

    def turn_ended(self, now: float) -> Iterable[Effect]:
        has_news, self._has_news = self._has_news, False
        return [TellNews()] if has_news else []

    # -- announcements ---------------------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        return bool(self._changes)

    def announce(self, ledger: Ledger) -> Iterable[Effect]:
        """Tell all linked peers what has changed."""
        changes, self._changes = self._changes, {}
        mine = self._by_node[self._me]
        here = [self._told(number) for number in changes if number in mine]
        gone = [number for number in changes if number not in mine]
        for peer in ledger:
            for piece in _pieces(here):
                yield SendControl(peer, GroupsChanged(ledger.number(peer), False, True, piece, ()))
            for start in range(0, len(gone), 1024):
                some = tuple(gone[start : start + 1024])
                yield SendControl(peer, GroupsChanged(ledger.number(peer), False, True, (), some))

    def _told(self, number: int) -> GroupSeen:
        group = self._groups[number]
        return GroupSeen(group.name, group.filter, group.holders[self._me])

    def _whole(self, peer: int) -> Iterator[Effect]:
        pieces = list(_pieces([self._told(number) for number in self._by_node[self._me]])) or [()]
        for index, piece in enumerate(pieces):
            is_last = index == len(pieces) - 1
            yield SendControl(peer, GroupsChanged(self._ledger.greeting(peer), True, is_last, piece, ()))

    def received(self, peer: int, control: Any, now: float) -> Iterable[Effect]:
        if isinstance(control, MemberStatus):
            return [StatusReported(peer, control.client, control.report)]
        effects: list[Effect] = []
        for seen in control.here:
            _check(seen)
            effects += self._seen(peer, seen)
        for number in control.gone:
            effects += self._lost(peer, number)
        if control.is_whole:
            effects += self._renew(peer, control)
        return [*effects, SendFrame(peer, wire.seen(control.number))]

    def _renew(self, peer: int, control: GroupsChanged) -> list[Effect]:
        """A piece of all that the peer has: after the last one, what none has named is gone."""
        named = self._renewed.setdefault(peer, set())
        named.update(self.number(seen.name, seen.filter) for seen in control.here)
        if not control.is_last:
            return []
        effects: list[Effect] = []
        for number in self._by_node.get(peer, set()) - self._renewed.pop(peer):
            effects += self._lost(peer, number)
        self._heard.add(peer)
        return effects

    # -- the table -------------------------------------------------------------------------------------------

    def _seen(self, node: int, seen: GroupSeen) -> list[Effect]:
        """The node has members of the group."""
        number = self.number(seen.name, seen.filter)
        of_node = self._by_node.setdefault(node, set())
        if number not in of_node and len(of_node) >= GROUPS_MAX:
            raise FrameError(f"it has members of more than {GROUPS_MAX} shared groups")
        group = self._groups.get(number)
        if group is None:
            group = self._groups[number] = _Group(number, seen.name, seen.filter)
            self._trie.set(seen.filter, {**(self._trie.get(seen.filter) or {}), number: None})
        is_news = group.holders.get(node) != seen.is_full
        group.holders[node] = seen.is_full
        of_node.add(number)
        return self._chosen(group, is_news=is_news)

    def _lost(self, node: int, number: int) -> list[Effect]:
        """The node has no members of it any more."""
        group = self._groups.get(number)
        if group is None or group.holders.pop(node, None) is None:
            return []
        self._by_node[node].discard(number)
        if group.holders:
            return self._chosen(group, is_news=False)
        del self._groups[number]
        others = {other: None for other in self._trie.get(group.filter) or {} if other != number}
        if others:
            self._trie.set(group.filter, others)
        else:
            self._trie.pop(group.filter)
        return [RoutesChanged()]

    def _chosen(self, group: _Group, *, is_news: bool) -> list[Effect]:
        """Choose the owner anew."""
        former, group.owner = group.owner, self._best(group.number, group.holders)
        if former == group.owner:
            return [RoutesChanged()] if is_news else []
        owner = None if group.owner == self._me else group.owner
        return [OwnerChanged(group.number, owner), RoutesChanged()]

    def _chosen_anew(self, peer: int) -> list[Effect]:
        effects: list[Effect] = []
        for number in sorted(self._by_node.get(peer, ())):
            effects += self._chosen(self._groups[number], is_news=False)
        return effects

    # -- peers -----------------------------------------------------------------------------------------------

    def linked(self, peer: int, now: float) -> Iterable[Effect]:
        self._renewed.pop(peer, None)
        return [*self._chosen_anew(peer), *self._whole(peer), NodeLinked(peer)]

    def unlinked(self, peer: int, now: float) -> Iterable[Effect]:
        return [NodeUnlinked(peer)]

    def died(self, peer: int, now: float) -> Iterable[Effect]:
        return [*self._chosen_anew(peer), NodeDied(peer)]

    def forgotten(self, peer: int, now: float) -> Iterable[Effect]:
        effects: list[Effect] = []
        for number in list(self._by_node.get(peer, ())):
            effects += self._lost(peer, number)
        self._by_node.pop(peer, None)
        self._renewed.pop(peer, None)
        return [*effects, NodeForgotten(peer)]


def _check(seen: GroupSeen) -> None:
    try:
        validate_filter(seen.filter)
    except ProtocolError as error:
        raise FrameError(f"it has members of a group whose filter is none: {error.detail}") from None


def _pieces(groups: list[GroupSeen]) -> Iterator[tuple[GroupSeen, ...]]:
    piece: list[GroupSeen] = []
    size_bytes = 0
    for group in groups:
        group_bytes = len(group.name.encode()) + len(group.filter) + 16
        if piece and size_bytes + group_bytes > PIECE_BYTES_MAX:
            yield tuple(piece)
            piece, size_bytes = [], 0
        piece.append(group)
        size_bytes += group_bytes
    if piece:
        yield tuple(piece)
