"""Which node has a shared group: the table of groups, by itself."""

from collections.abc import Iterable, Iterator

import pytest

from braidmq.cluster.effects import Effect, RoutesChanged, SendControl, SendFrame
from braidmq.cluster.frames import FrameError, seen
from braidmq.cluster.groups import (
    FillChanged,
    GroupAppeared,
    Groups,
    GroupsChanged,
    GroupSeen,
    GroupVanished,
    NodeDied,
    OwnerChanged,
    rank,
    route_of,
    with_groups,
)
from braidmq.cluster.hops import Hop
from braidmq.cluster.members import State

KEY = b"k" * 32
ME = 1


class Known:
    """Peers as the test says, and the numbers of announcements to them."""

    def __init__(self) -> None:
        self.states = dict.fromkeys((2, 3), State.LIVE)
        self.last = dict.fromkeys((2, 3), 0)

    def state(self, peer: int) -> State:
        return self.states.get(peer, State.FORGOTTEN)

    def __iter__(self) -> Iterator[int]:
        return iter(self.last)

    def number(self, peer: int) -> int:
        self.last[peer] += 1
        return self.last[peer]

    greeting = number


@pytest.fixture
def known() -> Known:
    return Known()


@pytest.fixture
def part(known: Known) -> Groups:
    return Groups(ME, KEY, known, known)


def tell(part: Groups, peer: int, *names: str, is_full: bool = False, is_whole: bool = False) -> list[Effect]:
    here = tuple(GroupSeen(name, b"t/#", is_full) for name in names)
    return list(part.received(peer, GroupsChanged(7, is_whole, True, here, ()), 0.0))


def owners(effects: Iterable[Effect]) -> list[int | None]:
    return [effect.owner for effect in effects if isinstance(effect, OwnerChanged)]


def test_the_owner_is_the_node_with_members_that_has_the_highest_hash(part: Groups) -> None:
    names = [f"crew-{index}" for index in range(60)]
    for name in names:
        part.handle(GroupAppeared(name, b"t/#"), 0.0)
    for peer in (2, 3):
        tell(part, peer, *names)
    chosen = [part.owner(part.number(name, b"t/#")) for name in names]
    best = [max((1, 2, 3), key=lambda node: rank(part.number(name, b"t/#"), node)) for name in names]
    assert chosen == best
    assert set(chosen) == {1, 2, 3}, "they are spread over the nodes"
    assert part.owned == chosen.count(ME)


def test_nobody_has_a_group_without_members(part: Groups) -> None:
    number = part.number("crew", b"t/#")
    assert part.owner(number) is None
    assert part.owner_with_me(number) == ME
    assert owners(part.handle(GroupAppeared("crew", b"t/#"), 0.0)) == [None]
    assert part.owner(number) == ME
    part.handle(GroupVanished("crew", b"t/#"), 0.0)
    assert (part.owner(number), len(part)) == (None, 0)


def test_a_dead_owner_is_the_last_choice_until_it_is_back(part: Groups, known: Known) -> None:
    number = part.number("crew", b"t/#")
    tell(part, 2, "crew")
    tell(part, 3, "crew")
    first, second = sorted((2, 3), key=lambda node: -rank(number, node))
    assert part.owner(number) == first
    known.states[first] = State.SUSPECT
    assert not owners(part.unlinked(first, 0.0))
    assert part.owner(number) == first, "who is only suspected is waited for"
    known.states[first] = State.DEAD
    effects = list(part.died(first, 0.0))
    assert owners(effects) == [second]
    assert NodeDied(first) in effects
    known.states[second] = State.DEAD
    part.died(second, 0.0)
    assert part.owner(number) == first, "all are dead: what comes waits for the best of them"
    known.states[second] = State.LIVE
    assert owners(part.linked(second, 0.0)) == [second]


def test_messages_go_to_the_owners_of_matching_groups(part: Groups) -> None:
    tell(part, 2, "crew", "team")
    numbers = sorted(part.number(name, b"t/#") for name in ("crew", "team"))
    assert {peer: sorted(found) for peer, found in part.hops(b"t/1").items()} == {2: numbers}
    assert part.hops(b"other") == part.hops(b"$SYS/t") == {}
    plain = (Hop(2), Hop(3))
    hops = with_groups(plain, {2: numbers})
    assert set(hops) == {Hop(3), Hop(2, route_of(is_plain=True, groups=numbers))}


def test_what_is_full_elsewhere_gets_nothing_and_is_told(part: Groups) -> None:
    tell(part, 2, "crew")
    assert not part.is_full(b"t/1")
    assert RoutesChanged() in tell(part, 2, "crew", is_full=True)
    assert part.is_full(b"t/1")
    assert part.hops(b"t/1") == {}
    assert RoutesChanged() in tell(part, 2, "crew")
    assert not part.is_full(b"t/1")


def test_changes_are_announced_once_with_numbers_and_seen(part: Groups, known: Known) -> None:
    part.handle(GroupAppeared("crew", b"t/#"), 0.0)
    part.handle(FillChanged("crew", b"t/#", is_full=True), 0.0)
    assert part.dirty
    sent = [effect for effect in part.announce(known) if isinstance(effect, SendControl)]
    assert [effect.peer for effect in sent] == [2, 3]
    assert sent[0].control == GroupsChanged(1, False, True, (GroupSeen("crew", b"t/#", True),), ())
    assert not part.dirty
    part.handle(GroupVanished("crew", b"t/#"), 0.0)
    [gone, _] = [effect.control for effect in part.announce(known) if isinstance(effect, SendControl)]
    assert gone == GroupsChanged(2, False, True, (), (part.number("crew", b"t/#"),))
    assert SendFrame(2, seen(7)) in tell(part, 2, "crew")


def test_after_a_whole_what_it_did_not_name_is_gone(part: Groups) -> None:
    tell(part, 2, "crew", "team")
    assert not part.has_heard([2])
    here = (GroupSeen("crew", b"t/#", False),)
    part.received(2, GroupsChanged(1, True, False, here, ()), 0.0)
    assert len(part) == 2, "there is more to come"
    tell(part, 2, "third", is_whole=True)
    assert {part.owner(part.number(name, b"t/#")) for name in ("crew", "third")} == {2}
    assert part.owner(part.number("team", b"t/#")) is None
    assert part.has_heard([2])


def test_a_whole_of_many_groups_is_told_in_pieces(part: Groups, known: Known) -> None:
    other = Groups(2, KEY, known, known)
    for index in range(3000):
        part.handle(GroupAppeared(f"crew-{index}", b"t/#"), 0.0)
    pieces = [effect.control for effect in part.linked(2, 0.0) if isinstance(effect, SendControl)]
    assert len(pieces) > 1
    for piece in pieces:
        other.received(ME, piece, 0.0)
    assert len(other) == 3000
    assert other.has_heard([ME])


def test_what_is_no_filter_ends_the_link(part: Groups) -> None:
    with pytest.raises(FrameError):
        part.received(2, GroupsChanged(1, False, True, (GroupSeen("crew", b"t/#/x", False),), ()), 0.0)


def test_what_a_forgotten_node_had_is_gone(part: Groups) -> None:
    tell(part, 2, "crew")
    part.forgotten(2, 0.0)
    assert len(part) == 0
    assert part.hops(b"t/1") == {}
