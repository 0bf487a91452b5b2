"""Interest between nodes: nobody misses what it subscribed to, whatever happens to the links."""

import pytest

from braidmq.cluster import frames
from braidmq.cluster.announcing import (
    Announcing,
    AwaitSeen,
    FilterAppeared,
    FilterVanished,
    InterestAt,
    SendInterest,
)
from braidmq.cluster.effects import RoutesChanged, SendControl, SendFrame
from braidmq.cluster.frames import INTEREST, SEEN, FrameError
from braidmq.cluster.ledger import WAITING_MAX, Ledger, Patience, Seen
from braidmq.cluster.relaying import TreeRouting
from braidmq.cluster.routing import BloomRouting, Mode
from braidmq.topics.bloom import LocalInterest
from tests.cluster.announcing_world import SEED, World

NOW = 50.0


def alone(wait_ms: int = 200) -> Announcing:
    return Announcing(BloomRouting(SEED), None, boot=1, wait_ms=wait_ms)


@pytest.mark.parametrize("mode", ["bloom", "full"])
@pytest.mark.parametrize("seed", range(12))
def test_interest_is_known_everywhere_after_any_history(mode: Mode, seed: int) -> None:
    world = World(4, seed, mode)
    world.heal()
    for _ in range(600):
        world.step()
    world.heal()
    world.check_index()
    promised = [seen for node in world.nodes.values() for seen in node.seen if not seen.is_late]
    assert promised
    for node in world.nodes.values():
        tokens = [seen.token for seen in node.seen]
        assert tokens == sorted(tokens), "answers keep their order"


def test_a_subscription_is_announced_at_the_end_of_the_turn_and_the_next_not_at_once() -> None:
    world = World(2, 1)
    world.heal()
    world.subscribe(0, b"a")
    assert not world.pipes[0, 1]
    world.turn_ended(0)
    assert [frame[0] for frame in world.pipes[0, 1]] == [INTEREST]
    world.subscribe(0, b"b")
    world.turn_ended(0)
    assert len(world.pipes[0, 1]) == 1
    assert world.now < world.nodes[0].part.next_at_s <= world.now + 0.005
    world.pass_time(0.005)
    assert len(world.pipes[0, 1]) == 2
    world.settle()
    assert [seen.is_late for seen in world.nodes[0].seen] == [False, False]
    assert 0 in world.nodes[1].peers_for(b"b")


def test_waiting_ends_when_every_linked_peer_has_seen() -> None:
    world = World(3, 1)
    world.heal()
    world.subscribe(0, b"a")
    world.turn_ended(0)
    world.deliver(0, 1)
    world.deliver(1, 0)
    assert not world.nodes[0].seen
    world.deliver(0, 2)
    world.deliver(2, 0)
    assert world.nodes[0].seen == [Seen(1, is_late=False)]
    world.subscribe(0, b"a")  # everybody knows it already
    assert world.nodes[0].seen[1:] == [Seen(2, is_late=False)]


def test_waiting_ends_with_the_link_and_with_patience() -> None:
    world = World(3, 1)
    world.heal()
    world.subscribe(0, b"a")
    world.turn_ended(0)
    world.deliver(0, 1)
    world.deliver(1, 0)
    world.cut(0, 2)
    assert world.nodes[0].seen == [Seen(1, is_late=False)]
    world.subscribe(0, b"b")
    world.pass_time(0.2)
    assert world.nodes[0].seen[1:] == [Seen(2, is_late=True)]
    assert world.nodes[0].part.late_total == 1


def test_waiting_includes_a_peer_that_has_just_linked() -> None:
    """Until its greeting is seen it may not know what was subscribed while it was away."""
    world = World(3, 1)
    world.heal()
    world.cut_both(0, 2)
    world.subscribe(0, b"a")
    world.turn_ended(0)
    world.link(0, 2)
    world.deliver(0, 1)
    world.deliver(1, 0)
    assert not world.nodes[0].seen
    world.settle()
    assert world.nodes[0].seen == [Seen(1, is_late=False)]


def test_nobody_waits_alone_or_if_local_answers_are_wanted() -> None:
    assert list(alone().handle(AwaitSeen(7), NOW)) == [Seen(7, is_late=False)]
    world = World(2, 1, wait_ms=0)
    world.heal()
    world.subscribe(0, b"a")
    assert world.nodes[0].seen == [Seen(1, is_late=False)]


def test_who_waits_is_bounded() -> None:
    ledger = Ledger()
    ledger.linked(1)
    patience = Patience(ledger, 1.0)
    for token in range(WAITING_MAX):
        assert patience.wait(token, 1, NOW) == []
    assert patience.wait(-1, 1, NOW) == [Seen(-1, is_late=True)]
    assert patience.late_total == 1


def test_a_relink_without_changes_needs_no_snapshot() -> None:
    world = World(2, 1)
    world.heal()
    world.subscribe(0, b"a")
    world.settle()
    asked = world.nodes[1].part.counts.asked
    world.cut_both(0, 1)
    world.heal()
    assert world.nodes[1].part.counts.asked == asked
    world.cut_both(0, 1)
    world.subscribe(0, b"b")
    world.link(0, 1)
    world.settle()
    assert world.nodes[1].part.counts.asked == asked, "it was announced after the link, in order"
    world.subscribe(0, b"c")
    world.turn_ended(0)
    world.cut_both(0, 1)  # and with it the announcement
    world.heal()
    assert world.nodes[1].part.counts.asked == asked + 1
    world.check_index()


def test_a_restarted_peer_wants_everything_until_its_snapshot_is_here() -> None:
    world = World(2, 1)
    world.heal()
    assert world.nodes[1].peers_for(b"x") == set()
    world.restart(0)
    assert world.nodes[1].peers_for(b"x") == set(), "while it is away, what it wanted holds"
    world.link(0, 1)
    world.deliver(0, 1)
    assert world.nodes[1].peers_for(b"x") == {0}
    world.settle()
    assert world.nodes[1].peers_for(b"x") == set()


def test_a_large_announcement_comes_in_pieces_and_has_a_bound() -> None:
    world = World(2, 1)
    for number in range(30_000):
        world.nodes[0].part.handle(FilterAppeared(b"site/%d/room/%d" % (number % 97, number)), NOW)
        world.nodes[0].wanted.add(b"site/%d/room/%d" % (number % 97, number))
    world.link(0, 1)
    world.turn_ended(0)
    pieces = [frame for frame in world.pipes[0, 1] if frame[0] == INTEREST]
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= 65_536 + 10
    world.settle()
    world.check_index()
    assert world.nodes[1].peers_for(b"site/0/room/0") == {0}
    assert world.nodes[1].peers_for(b"site/0/room/1") == set()


def test_an_endless_announcement_ends_the_link() -> None:
    part = alone()
    part.linked(1, NOW)
    piece = frames.Interest(1, 0, False, bytes(65_536))
    body = frames.interest(piece)[-65_542:]
    for _ in range(65 * 16):
        part.framed(1, INTEREST, body, NOW)
    with pytest.raises(FrameError, match="more than"):
        part.framed(1, INTEREST, body, NOW)


def test_a_damaged_announcement_is_asked_for_again_at_a_bounded_pace() -> None:
    part = alone()
    part.linked(1, NOW)
    damaged = frames.interest(frames.Interest(1, 0, True, b"nonsense that has no checksum"))[2:]
    effects = list(part.framed(1, INTEREST, damaged, NOW))
    assert RoutesChanged() in effects
    assert SendControl(1, SendInterest(0)) in effects
    assert SendFrame(1, frames.seen(1)) in effects, "in force is: everything goes there"
    assert SendControl(1, SendInterest(0)) not in list(part.framed(1, INTEREST, damaged, NOW))
    assert part.next_at_s <= NOW + 1
    assert SendControl(1, SendInterest(0)) in list(part.time_came(NOW + 1))
    assert part.counts.damaged == 2


def test_seen_of_what_was_never_announced_ends_the_link() -> None:
    part = alone()
    part.linked(1, NOW)
    with pytest.raises(FrameError, match="announcement 9"):
        part.framed(1, SEEN, frames.seen(9)[2:], NOW)


def test_the_broker_s_own_topics_are_not_announced_and_go_nowhere() -> None:
    part = alone()
    part.linked(1, NOW)
    part.turn_ended(NOW)
    before = part.routing.position
    part.handle(FilterAppeared(b"$SYS/#"), NOW)
    assert not part.routing.dirty
    part.handle(FilterVanished(b"$SYS/#"), NOW)
    assert part.routing.position == before
    assert part.hops(b"$SYS/broker/uptime") == ()
    assert part.hops(b"x")


def test_needless_routes_are_forgotten_within_a_second() -> None:
    world = World(2, 1)
    world.heal()
    world.subscribe(0, b"a")
    world.subscribe(0, b"b")
    world.settle()
    assert world.nodes[1].peers_for(b"a") == {0}
    world.unsubscribe(0, b"a")
    world.turn_ended(0)
    world.deliver(0, 1)
    assert world.nodes[1].peers_for(b"a") == {0}, "not worth a search of all routes at once"
    world.pass_time(1.0)
    assert world.nodes[1].peers_for(b"a") == set()


def test_forgotten_peers_get_nothing_and_dead_ones_keep_what_they_wanted() -> None:
    world = World(2, 1)
    world.heal()
    world.subscribe(0, b"a")
    world.settle()
    there = world.nodes[1]
    world.cut_both(0, 1)
    world.carry_out(there, there.part.died(0, world.now))
    assert there.peers_for(b"a") == {0}
    assert there.peers_for(b"b") == set()
    world.carry_out(there, there.part.forgotten(0, world.now))
    assert there.peers_for(b"a") == set()


def test_lasting_sessions_are_announced_under_any_id() -> None:
    world = World(2, 1)
    world.heal()
    world.announce_session(0, "a/+/#", True)
    world.settle()
    assert world.nodes[1].part.may_have("a/+/#") == [0]
    assert world.nodes[1].part.may_have("a/b/c") == []
    world.announce_session(0, "a/+/#", False)
    world.settle()
    assert world.nodes[1].part.may_have("a/+/#") == []
    assert alone().may_have("a") == []


def test_what_else_is_announced_goes_with_the_same_rounds() -> None:
    class Group:
        dirty = False

        def announce(self, ledger: Ledger) -> list[tuple[int, int]]:
            self.dirty = False
            return [(peer, ledger.number(peer)) for peer in ledger]

    part, group = alone(), Group()
    part.announcers.append(group)
    part.linked(1, NOW)
    part.turn_ended(NOW)
    part.framed(1, SEEN, frames.seen(2)[2:], NOW)
    group.dirty = True
    assert part.handle(AwaitSeen(5), NOW + 1) == []
    assert part.turn_ended(NOW + 1) == [(1, 3)]
    assert part.framed(1, SEEN, frames.seen(3)[2:], NOW + 1) == [Seen(5, is_late=False)]


def test_a_mode_without_interest_announces_nothing_and_refuses_to_tell() -> None:
    part = Announcing(TreeRouting(1), None, boot=1, wait_ms=200)
    effects = list(part.linked(2, NOW))
    part.handle(FilterAppeared(b"a"), NOW)
    assert list(part.turn_ended(NOW)) == []
    assert [effect.control for effect in effects if isinstance(effect, SendControl)] == [
        InterestAt(1, 1, {0: (0, 0)})
    ]
    with pytest.raises(FrameError, match="routing"):
        part.received(2, SendInterest(0), NOW)
    assert [hop.peer for hop in part.routing.hops(b"x")] == [2]
    assert part.hops(b"x") == ()


def test_announcements_of_unknown_streams_are_seen_and_ignored() -> None:
    part = alone()
    part.linked(1, NOW)
    message = LocalInterest(seed=SEED).snapshot()
    body = frames.interest(frames.Interest(4, 9, True, message))
    assert list(part.framed(1, INTEREST, body[-len(message) - 6 :], NOW)) == [SendFrame(1, frames.seen(4))]
