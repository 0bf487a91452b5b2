"""Retained messages in a cluster: the larger stamp stays, deletions are remembered, digests are true."""

import random

from braidmq.broker.restoring import living, restore
from braidmq.broker.retained import RetainedMessages
from braidmq.broker.stamps import BUCKETS, ComparedRetained, Stamps
from braidmq.messages.message import Message
from braidmq.store.state import State
from tests.broker.world import SlowStore, World

KEY = b"a key of the cluster"
MINUTE = 60_000 << 16  # of hybrid time


def stamped(topic: bytes, payload: bytes, hlc: int, node: int = 1) -> Message:
    message = Message(topic, payload, 1, True)
    message.stamp = hlc, node
    return message


def shared(
    me: int = 1, world: World | None = None, **limits: int
) -> tuple[RetainedMessages, ComparedRetained]:
    retained = (world or World(**limits)).broker.retained
    return retained, retained.share(KEY, me, lambda hlc: None)


def contents(retained: RetainedMessages) -> dict[bytes, bytes]:
    return {topic: message.payload for topic, message in retained.all()}


def digests_anew(retained: RetainedMessages) -> list[int]:
    stamps = Stamps(KEY)
    for message in [*(message for _, message in retained.all()), *retained.tombstones]:
        stamps.replace(None, message)
    return stamps.digests


def test_any_order_of_arrival_ends_with_the_same() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        history = [
            (
                b"t/%d" % rng.randrange(8),
                b"" if rng.random() < 0.3 else b"%d" % number,
                number + 1,
                rng.randrange(3),
            )
            for number in range(60)
        ]
        newest = {topic: payload for topic, payload, _, _ in history}
        expected = {topic: payload for topic, payload in newest.items() if payload}
        digests = []
        for _ in range(3):
            retained, compared = shared()
            rng.shuffle(history)
            for topic, payload, hlc, node in [*history, *rng.sample(history, 20)]:
                retained.keep_from_peer(stamped(topic, payload, hlc, node))
            assert contents(retained) == expected
            assert compared.digests() == digests_anew(retained)
            digests.append(compared.digests())
        assert digests[0] == digests[1] == digests[2]


def test_of_equal_times_the_larger_node_stays() -> None:
    retained, _ = shared()
    for node in (2, 3, 1):
        retained.keep_from_peer(stamped(b"a", b"%d" % node, 5, node))
    assert contents(retained) == {b"a": b"3"}


def test_an_older_publication_of_its_own_is_not_kept_and_not_refused() -> None:
    retained, _ = shared()
    retained.keep_from_peer(stamped(b"a", b"ahead", 9, 2))
    assert retained.keep(stamped(b"a", b"behind", 8))
    assert contents(retained) == {b"a": b"ahead"}


def test_a_deletion_outlives_the_message_until_it_is_swept() -> None:
    retained, compared = shared()
    retained.keep(stamped(b"a", b"x", 1 * MINUTE))
    retained.keep(stamped(b"a", b"", 3 * MINUTE))
    retained.keep_from_peer(stamped(b"b", b"", 3 * MINUTE, 2))
    retained.keep_from_peer(stamped(b"a", b"late", 2 * MINUTE, 2))
    assert contents(retained) == {}
    assert len(retained.tombstones) == 2
    compared.sweep(3 * 60_000)
    assert len(retained.tombstones) == 2, "not yet"
    compared.sweep(3 * 60_000 + 1)
    assert len(retained.tombstones) == 0
    assert compared.digests() == [0] * BUCKETS
    retained.keep_from_peer(stamped(b"a", b"", 2 * MINUTE, 3))
    assert len(retained.tombstones) == 0, "or nodes would give it to each other for ever"


def test_tombstones_are_bounded_and_small() -> None:
    retained, compared = shared(tombstones_max=3)
    for number in range(5):
        message = Message(b"t/%d" % number, b"", 0, True, bytes(1000))
        message.stamp = number * MINUTE + 1, 1
        retained.keep(message)
    assert {tombstone.topic for tombstone in retained.tombstones} == {b"t/2", b"t/3", b"t/4"}
    assert {tombstone.properties for tombstone in retained.tombstones} == {b""}
    assert retained.tombstones_dropped == 2
    assert compared.digests() == digests_anew(retained)


def test_limits_hold_for_publishers_here_and_are_counted_for_others() -> None:
    retained, _ = shared(retained_messages_max=1)
    assert retained.keep(stamped(b"a", b"x", 1))
    assert not retained.keep(stamped(b"b", b"x", 2))
    retained.keep_from_peer(stamped(b"b", b"x", 2, 2))
    assert contents(retained) == {b"a": b"x", b"b": b"x"}
    assert retained.beyond_limits == 1


def test_what_was_retained_before_the_cluster_is_older_than_all() -> None:
    world = World()
    world.broker.retained.keep(Message(b"a", b"mine", 0, True))
    retained, compared = shared(7, world)
    assert retained.newest(b"a").stamp == (1, 7)  # type: ignore[union-attr]
    assert compared.digests() == digests_anew(retained)
    retained.keep_from_peer(stamped(b"a", b"theirs", 2, 2))
    assert contents(retained) == {b"a": b"theirs"}


def test_expired_and_dropped_messages_leave_the_digests() -> None:
    world = World()
    retained, compared = shared(1, world)
    message = Message(b"a", b"x", 0, True, b"", world.now + 5)
    message.stamp = MINUTE, 1
    retained.keep(message)
    retained.keep(stamped(b"b", b"x", MINUTE))
    retained.keep(stamped(b"c", b"", MINUTE))
    for bucket in range(BUCKETS):
        for topic, _, _ in list(compared.stamps(bucket)):
            if compared.message(topic).topic != b"a":  # type: ignore[union-attr]
                compared.drop(topic)
    world.pass_time(10)
    retained.expire()
    assert compared.digests() == [0] * BUCKETS
    compared.drop(17)
    assert compared.message(17) is None


def test_stamps_and_tombstones_survive_a_restart() -> None:
    store = SlowStore()
    world = World(store)
    retained, compared = shared(1, world)
    for number in range(6):
        retained.keep(stamped(b"t/%d" % number, b"x", MINUTE + number))
    retained.keep_from_peer(stamped(b"t/1", b"", 2 * MINUTE, 2))
    retained.keep_from_peer(stamped(b"t/2", b"", 2 * MINUTE, 2))
    retained.keep(stamped(b"t/2", b"again", 3 * MINUTE))
    world.broker.hub.end_turn()
    store.keep_all()
    from_journal, from_checkpoint = State(), State()
    from_journal.apply(store.kept)
    for part in living(world.broker):
        from_checkpoint.apply(part)
    for state in (from_journal, from_checkpoint):
        again = World()
        restore(again.broker, state, again.now)
        restored, compared_again = shared(1, again)
        assert contents(restored) == contents(retained)
        assert compared_again.digests() == compared.digests()
        restored.keep_from_peer(stamped(b"t/1", b"late", MINUTE + 9, 3))
        assert b"t/1" not in contents(restored)


def test_a_node_without_a_cluster_keeps_no_tombstones() -> None:
    retained = World().broker.retained
    retained.keep(Message(b"a", b"x", 0, True))
    retained.keep(Message(b"a", b"", 0, True))
    assert len(retained.tombstones) == 0
    assert retained.topics_to_keep() == []
