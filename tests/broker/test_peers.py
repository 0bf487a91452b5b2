"""Two brokers joined by their lanes: what is published on one reaches those who subscribe on the other."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.broker.events import Delivered, Event
from braidmq.broker.peers import PeerTarget, client_id_of, node_of
from braidmq.broker.publishing import groups_of
from braidmq.broker.restoring import living, restore
from braidmq.messages.message import Message
from braidmq.store.records import PEER_POSITION, QUEUED, SETTLED
from braidmq.store.state import State
from braidmq.wire import (
    V5,
    V311,
    Connack,
    Connect,
    Packet,
    Properties,
    Puback,
    Publish,
    Subscribe,
    Subscription,
)
from tests.broker.linked import NOBODY, PLAIN, Link, Side, restarted
from tests.broker.world import Client, SlowStore, TickingStopwatch, World
from tests.durability.paged import PagingStore, settle

GROUPS = bytes((3, 0, 2)) + (7).to_bytes(8, "little") + (2**64 - 1).to_bytes(8, "little")


def linked(**limits: int) -> tuple[Side, Side, Link]:
    one, two = Side(1, 2, **limits), Side(2, 1, **limits)
    return one, two, Link(one, two)


def publishes(packets: list[Packet]) -> list[Publish]:
    return [packet for packet in packets if isinstance(packet, Publish)]


# ---- who gets what -----------------------------------------------------------------------------------


def test_every_quality_of_service_reaches_the_other_node() -> None:
    one, two, link = linked()
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t/#", qos=2)
    publisher = one.world.connect("publisher")
    publisher.send(
        Publish("t/0", b"zero"),
        Publish("t/1", b"one", qos=1, packet_id=1),
        Publish("t/2", b"two", qos=2, packet_id=2),
    )
    link.flow()
    got = [(p.topic, p.payload, p.qos) for p in publishes(subscriber.read())]
    assert got == [("t/0", b"zero", 0), ("t/1", b"one", 1), ("t/2", b"two", 2)]
    assert one.peer.queued_count == 0
    assert (two.peer.received_qos0, two.peer.received_entries) == (1, 2)
    one.peer.check()


def test_what_comes_from_a_peer_goes_to_no_peer() -> None:
    one, two, link = linked()
    one.world.connect("publisher").send(Publish("t", b"x"), Publish("t", b"y", qos=1, packet_id=1))
    link.flow()
    assert (two.peer.received_qos0, two.peer.received_entries) == (1, 1)
    assert two.peer.forwarded_qos0 == two.peer.forwarded_entries == 0


def test_without_a_link_qos_0_is_dropped_and_the_rest_waits() -> None:
    one, two = Side(1, 2), Side(2, 1)
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t")
    publisher = one.world.connect("publisher")
    publisher.send(Publish("t", b"lost"), Publish("t", b"kept", qos=1, packet_id=1))
    assert (one.dropped("peer_away"), one.peer.queued_count) == (1, 1)
    one.world.pass_time(5)
    assert one.peer.oldest_s == 5
    Link(one, two).flow()
    assert subscriber.payloads() == [b"kept"]
    assert one.peer.oldest_s == 0


def test_what_a_node_says_of_itself_stays_there() -> None:
    one, two, link = linked()
    one.broker.publishing.publish(Message(b"$SYS/broker/uptime", b"1", retain=True))
    one.broker.publishing.publish(Message(b"$load/somebody", b"1"))
    assert one.peer.forwarded_qos0 == one.peer.forwarded_entries == 0
    two.broker.peers.get(1)
    one.peer.enter(0, b"", Message(b"$SYS/broker/uptime", b"1", qos=1), PLAIN)
    link.flow()
    assert two.dropped("not_authorized") == 1
    assert one.peer.queued_count == 0  # it was taken, and given up there


def test_groups_get_what_names_them_and_nothing_else() -> None:
    one, two, link = linked()
    member, subscriber = two.world.connect("member"), two.world.connect("subscriber")
    member.subscribe("$share/g/t")
    subscriber.subscribe("t")
    one.route = GROUPS
    one.meet()
    publisher = one.world.connect("publisher")
    publisher.send(
        Publish("t", b"0"),
        Publish("t", b"with properties", properties=Properties(content_type="text")),
        Publish("t", b"1", qos=1, packet_id=1),
    )
    link.flow()
    assert subscriber.payloads() == [b"0", b"with properties", b"1"]
    assert member.payloads() == []
    assert two.for_groups == [
        (group, payload, qos, "publisher")
        for payload, qos in ((b"0", 0), (b"with properties", 0), (b"1", 1))
        for group in (7, 2**64 - 1)
    ]
    assert groups_of(GROUPS) == [7, 2**64 - 1]


def test_a_long_run_for_groups_is_sent_in_parts_that_are_accepted() -> None:
    one, two, link = linked(packet_bytes_max=1024)
    one.route = bytes((2, 0, 1)) + (7).to_bytes(8, "little")
    one.meet()
    sent = [b"%06d" % number for number in range(20_000)]
    one.world.connect("publisher", V311).send(*(Publish("t", payload) for payload in sent))
    link.flow()
    assert two.failures == []
    assert [payload for _, payload, _, _ in two.for_groups] == sent


def test_an_entry_of_the_clusters_own_comes_once_with_all_that_it_carries() -> None:
    one, two, link = linked()
    one.peer.enter(1, b"a cut", None, NOBODY)
    one.peer.enter(3, b"\x81" * 200, Message(b"t", b"x", qos=2, publisher="p"), GROUPS)
    link.flow()
    cut, returned = two.entered_here
    assert (cut[0], cut[1], cut[2], cut[3]) == (1, b"a cut", None, NOBODY)
    assert (returned[0], returned[1], returned[3]) == (3, b"\x81" * 200, GROUPS)
    assert returned[2] is not None
    assert (returned[2].topic, returned[2].qos, returned[2].publisher) == (b"t", 2, "p")
    assert one.peer.queued_count == 0


def test_what_is_retained_on_one_node_is_on_the_other_and_the_larger_stamp_stays() -> None:
    one, two, link = linked()
    publisher, other = one.world.connect("publisher"), two.world.connect("other")
    publisher.send(Publish("t", b"old", retain=True))  # QoS 0: it goes by the stream all the same
    link.flow()
    other.send(Publish("t", b"new", retain=True, qos=1, packet_id=1))
    two_newest = two.broker.retained.get(b"t")
    assert two_newest is not None
    assert two_newest.stamp == (1, 2)
    link.flow()
    for side in (one, two):
        kept = side.broker.retained.get(b"t")
        assert kept is not None
        assert (kept.payload, kept.stamp) == (b"new", (1, 2))
    other.send(Publish("t", b"", retain=True))
    link.flow()
    assert one.broker.retained.get(b"t") is None


def test_a_peer_without_interest_retains_and_delivers_nothing() -> None:
    one, two, link = linked()
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t")
    one.hops = lambda topic: ()  # type: ignore[method-assign]
    one.world.connect("publisher").send(Publish("t", b"x", retain=True))
    link.flow()
    assert subscriber.payloads() == []
    assert two.broker.retained.get(b"t") is not None


def test_expiry_travels_as_time_left() -> None:
    one, two = Side(1, 2), Side(2, 1)
    two.world.pass_time(10_000)  # their clocks have nothing in common
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t")
    publisher = one.world.connect("publisher")
    publisher.send(
        Publish("t", b"long", qos=1, packet_id=1, properties=Properties(message_expiry_s=100)),
        Publish("t", b"short", qos=1, packet_id=2, properties=Properties(message_expiry_s=5)),
        Publish("t", b"ages", qos=1, packet_id=3, properties=Properties(message_expiry_s=2**32 - 1)),
    )
    one.world.pass_time(6)
    Link(one, two).flow()
    got = {p.payload: p.properties.message_expiry_s for p in publishes(subscriber.read())}
    assert got == {b"long": 94, b"ages": 2**32 - 1 - 6}
    assert one.dropped("expired") == 1
    assert one.peer.queued_count == 0


subscribers = st.tuples(
    st.sampled_from((V311, V5)),
    st.lists(
        st.builds(
            Subscription, st.sampled_from(("a", "a/+", "#", "a/#")), st.integers(0, 2),
            retain_as_published=st.booleans(),
        ),
        min_size=1, max_size=3, unique_by=lambda wanted: wanted.filter,
    ),
)  # fmt: skip
messages = st.builds(
    lambda topic, size, qos, retain, expiry: Publish(
        topic, b"p" * size, qos, retain, packet_id=min(qos, 1), properties=Properties(message_expiry_s=expiry)
    ),
    st.sampled_from(("a", "a/b", "a/c", "x")),
    st.sampled_from((0, 1, 20, 130)),
    st.sampled_from((0, 0, 0, 1, 2)),
    st.sampled_from((False, False, True)),
    st.sampled_from((None, None, 10)),
)  # fmt: skip


@given(subscribers, st.sampled_from((V311, V5)), st.lists(messages, max_size=12), st.integers(1, 40))
def test_over_a_link_subscribers_get_what_they_would_get_here(
    wanted: tuple[int, list[Subscription]], version: int, sent: list[Publish], chunk: int
) -> None:
    got = []
    for is_far in (False, True):
        one, two, link = linked()
        home = two if is_far else one
        subscriber = home.world.connect("subscriber", wanted[0])
        filters = tuple(
            each if wanted[0] == V5 else Subscription(each.filter, each.qos) for each in wanted[1]
        )
        subscriber.send(Subscribe(1, filters))
        publisher = one.world.connect("publisher", version)
        for packet_id, each in enumerate(sent, 1):
            one.world.run_deferred()
            publisher.send(
                Publish(
                    each.topic, each.payload, each.qos, each.retain, packet_id=packet_id if each.qos else 0,
                    properties=each.properties if version == V5 else Properties(),
                )
            )  # fmt: skip
        one.broker.hub.end_turn()
        carry_in_chunks(link, chunk)
        got.append(subscriber.read_bytes())
        assert not two.failures
    assert got[0] == got[1]


def carry_in_chunks(link: Link, chunk: int) -> None:
    data = link.lanes[0].output.take()
    for begin in range(0, len(data), chunk):
        link.deliver(1, data[begin : begin + chunk])
    link.flow()


# ---- bounds ------------------------------------------------------------------------------------------


def test_what_is_not_acknowledged_is_bounded_and_the_rest_waits() -> None:
    one, two = Side(1, 2), Side(2, 1)
    subscriber = two.world.connect("subscriber", properties=Properties(receive_maximum=100))
    subscriber.subscribe("t")
    link = Link(one, two)
    payloads = [bytes([number]) * 1_000_000 for number in range(20)]
    for payload in payloads:
        one.broker.publishing.publish(Message(b"t", payload, qos=1))
    assert 8_000_000 < one.peer.sent_bytes < 9_500_000
    assert one.peer.queued_count == 20
    one.peer.check()
    got: list[bytes] = []
    while one.peer.queued_count:
        link.carry(0)
        got += read_and_acknowledge(subscriber)
        link.carry(1)
    assert got + read_and_acknowledge(subscriber) == payloads


def read_and_acknowledge(client: Client) -> list[bytes]:
    got = publishes(client.read())
    client.send(*(Puback(p.packet_id) for p in got if p.qos == 1))
    return [p.payload for p in got] + (read_and_acknowledge(client) if got else [])


def test_nodes_with_other_limits_understand_each_other() -> None:
    one, two = Side(1, 2, packet_bytes_max=4_000_000), Side(2, 1, packet_bytes_max=1_024)
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t")
    one.route = bytes((3, 0, 0x90, 0x4E)) + bytes(8 * 10_000)  # many groups
    one.meet()
    link = Link(one, two)
    publisher = one.world.connect("publisher")
    for qos in (0, 1):
        publisher.send(Publish("t", bytes(3_000_000), qos=qos, packet_id=qos))
        link.flow()
        assert [len(payload) for payload in subscriber.payloads()] == [3_000_000]
    assert two.failures == []
    assert len(two.for_groups) == 20_000


def test_the_number_of_unacknowledged_entries_is_bounded() -> None:
    one, two, _ = linked()
    for _ in range(70_000):
        one.peer.enter(1, b"", None, NOBODY)
    assert len(one.peer.unacknowledged()) < 65_536
    assert one.peer.queued_count == 70_000
    assert two.entered_here == []


def test_a_full_queue_refuses_while_the_peer_lives_and_drops_when_it_is_dead() -> None:
    one = Side(1, 2, peer_queue_bytes_max=3_100)
    local = one.world.connect("local")
    local.subscribe("t")
    publisher = one.world.connect("publisher")

    def publish(packet_id: int, qos: int) -> int:
        publisher.send(Publish("t", bytes(800), qos=qos, packet_id=packet_id))
        return publisher.read()[0].reason  # type: ignore[union-attr]

    assert [publish(packet_id, 1) for packet_id in (1, 2, 3, 4)] == [0, 0, 0, 0x97]
    assert publish(5, 2) == 0x97
    assert len(publishes(local.read())) == 4  # QoS 2 goes to all or to nobody
    one.peer.died()
    assert publish(6, 2) == 0
    assert one.dropped("peer_gone") == 1
    assert one.peer.queued_count == 3
    one.peer.check()


def test_a_dead_peer_that_remembers_nothing_loses_its_queue() -> None:
    one = Side(1, 2)
    one.peer.met(1 << 40, False)
    publisher = one.world.connect("publisher")
    publisher.send(*(Publish("t", b"x", qos=1, packet_id=packet_id) for packet_id in (1, 2, 3)))
    one.peer.died()
    assert (one.dropped("peer_gone"), one.peer.queued_count) == (3, 0)
    one.peer.check()


def test_a_forgotten_peer_leaves_nothing_behind() -> None:
    store = SlowStore()
    one = Side(1, 2, store)
    one.broker.publishing.publish(Message(b"t", b"x", qos=1))
    one.broker.hub.end_turn()
    one.broker.peers.forget(2)
    one.broker.hub.end_turn()
    store.keep_all()
    state = State()
    state.apply(store.kept)
    assert (state.sessions, state.peer_positions) == ({}, {})
    assert one.dropped("peer_gone") == 1
    assert one.broker.peers.get(2) is None


def test_who_was_forgotten_and_has_not_forgotten_misses_nothing_new() -> None:
    one, two, link = linked()
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t", qos=2)
    for payload in (b"one", b"two", b"three"):
        one.broker.publishing.publish(Message(b"t", payload, qos=1))
    link.flow()
    link.cut()
    one.broker.peers.forget(2)
    one.peer = one.meet()  # somebody has told of it
    one.broker.router.forget_routes()
    one.broker.publishing.publish(Message(b"t", b"later", qos=1))
    Link(one, two).flow()
    assert subscriber.payloads() == [b"one", b"two", b"three", b"later"]


def test_what_was_taken_from_a_forgotten_node_is_not_taken_again() -> None:
    one, two, link = linked()
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t", qos=2)
    one.broker.publishing.publish(Message(b"t", b"once", qos=2))
    link.carry(0)
    link.cut()  # before the acknowledgement is there
    two.broker.peers.forget(1)
    two.peer = two.meet()
    Link(one, two).flow()
    assert subscriber.payloads() == [b"once"]
    assert one.peer.queued_count == 0


def test_an_acknowledgement_of_what_was_never_sent_ends_the_link() -> None:
    one, _, link = linked()
    link.deliver(0, bytes((0xF3, 9)) + (2**50).to_bytes(8, "little") + b"\0")
    assert one.failures == ["an entry is acknowledged that was never sent"]
    assert not one.peer.is_linked


# ---- flow --------------------------------------------------------------------------------------------


def test_a_slow_subscriber_is_told_of_and_the_link_is_read_on() -> None:
    one, two, link = linked(output_bytes_max=4_096)
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t", qos=0)
    publisher = one.world.connect("publisher")
    for _ in range(3):
        publisher.send(*(Publish("t", bytes(1_000)) for _ in range(6)))
        link.carry(0)
    assert two.flow == ["hold"]
    one.peer.enter(1, b"read on", None, NOBODY)
    link.flow()
    assert len(two.entered_here) == 1
    subscriber.read()
    assert two.flow == ["hold", "go on"]


def test_patience_with_a_slow_subscriber_ends_on_a_link_too() -> None:
    one, two, link = linked(output_bytes_max=4_096)
    two.world.connect("subscriber").subscribe("t", qos=0)
    publisher = one.world.connect("publisher")
    publisher.send(*(Publish("t", bytes(1_000)) for _ in range(6)))
    link.carry(0)
    assert two.flow == ["hold"]
    two.world.pass_time(1.1)
    assert two.flow == ["hold", "go on"]


def test_publishers_pause_for_a_peer_that_asks_for_it_as_long_as_there_is_patience() -> None:
    one, two, link = linked()
    publisher = one.world.connect("publisher")
    link.lanes[0].pause()
    publisher.send(Publish("t", b"x"))
    assert publisher.is_paused
    link.lanes[0].proceed()
    assert not publisher.is_paused
    link.lanes[0].pause()
    publisher.send(Publish("t", b"x"))
    one.world.pass_time(1.1)
    assert not publisher.is_paused
    publisher.send(Publish("t", b"x"))
    assert not publisher.is_paused
    link.flow()
    assert two.peer.received_qos0 == 3  # nothing was dropped: it is the subscriber there that is slow


def test_a_link_that_is_not_written_congests_and_drops_beyond_twice_its_limit() -> None:
    one, two, link = linked(packet_bytes_max=1_100_000)
    publisher = one.world.connect("publisher")
    for _ in range(20):
        publisher.send(Publish("t", bytes(1_000_000)))
    assert publisher.is_paused
    assert one.dropped("slow_subscriber") == 4
    assert one.peer.forwarded_qos0 == 16
    link.flow()
    assert not publisher.is_paused
    assert two.peer.received_qos0 == 16


def test_publishers_go_on_when_the_link_is_lost() -> None:
    one, _, link = linked()
    publisher = one.world.connect("publisher")
    link.lanes[0].pause()
    publisher.send(Publish("t", b"x"))
    assert publisher.is_paused
    link.cut()
    assert not publisher.is_paused


def test_a_link_that_makes_much_work_lets_others_have_their_turn_and_loses_nothing() -> None:
    one, two = Side(1, 2), Side(2, 1, stopwatch=TickingStopwatch(1.0))
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t/#")
    two.world.run_deferred()
    link = Link(one, two)
    sent = [b"%d" % number for number in range(200)]
    for number, payload in enumerate(sent):
        one.broker.publishing.publish(Message(b"t/%d" % number, payload, qos=number % 2))
    link.lanes[1].receive(link.lanes[0].output.take(), two.world.now)
    assert not two.is_read
    assert two.peer.received_entries < 100
    assert two.broker.hub.resting == 1
    two.world.run_deferred()
    assert (two.is_read, two.broker.hub.resting) == (True, 0)
    assert subscriber.payloads() == sent
    link.flow()
    assert one.peer.queued_count == 0


def test_a_route_has_the_peers_whoever_may_read_here() -> None:
    one, two, link = linked()
    one.broker.router.restrict(lambda session, topic: False)
    local = one.world.connect("local")
    local.subscribe("t")
    far = two.world.connect("far")
    far.subscribe("t")
    one.world.connect("publisher").send(Publish("t", b"x"), Publish("t", b"y", qos=1, packet_id=1))
    link.flow()
    assert (local.payloads(), far.payloads()) == ([], [b"x", b"y"])


def test_topics_with_the_same_filters_and_peers_share_a_fan_out() -> None:
    one = Side(1, 2)
    publish = one.broker.publishing.publish
    one.world.connect("local").subscribe("t/#")
    for topic in (b"t/a", b"t/b"):
        publish(Message(topic, b"x"))
    routes = one.broker.router.routes
    assert routes[b"t/a"] is routes[b"t/b"]
    assert len(routes[b"t/a"].peers) == 1
    one.hops = lambda topic: ()  # type: ignore[method-assign]
    publish(Message(b"t/c", b"x"))
    assert routes[b"t/c"] is not routes[b"t/a"]
    assert routes[b"t/c"].peers == []
    one.broker.router.forget_routes()
    assert routes == {}
    publish(Message(b"t/a", b"x"))
    assert routes[b"t/a"].peers == []


def test_observers_are_told_what_goes_to_another_node() -> None:
    one, _, _ = linked()
    seen: list[Delivered] = []

    class Watcher:
        wants = frozenset({Delivered})

        def observe(self, event: Event) -> None:
            assert isinstance(event, Delivered)
            seen.append(event)

    one.broker.add_observer(Watcher())
    one.world.connect("publisher").send(Publish("t", b"x"), Publish("t", b"y", qos=1, packet_id=1))
    assert [(event.client_id, event.qos) for event in seen] == [(client_id_of(2), 0), (client_id_of(2), 1)]


# ---- relinks, restarts -------------------------------------------------------------------------------


def test_entries_leave_when_the_store_has_them_and_are_settled_in_one_record() -> None:
    ours, theirs = SlowStore(), SlowStore()
    one, two = Side(1, 2, ours), Side(2, 1, theirs)
    link = Link(one, two)
    for number in range(5):
        one.broker.publishing.publish(Message(b"t", b"%d" % number, qos=1))
    assert link.carry(0) == 0
    ours.keep_all()
    assert link.carry(0) > 0
    assert two.peer.taken - (1 << 40) == 5
    assert two.peer.kept == 0  # our store hasn't got it: nobody may be told
    assert link.carry(1) == 0
    theirs.keep_all()
    assert two.peer.kept == two.peer.taken
    assert link.carry(1) > 0
    assert len(ours.turns) == 1
    assert len(ours.turns[0][0]) < 16
    ours.keep_all()
    assert [record[0] for record in ours.kept[-5:]] == [SETTLED] * 5
    assert theirs.kept[-1] == (PEER_POSITION, 1, two.peer.kept)


def test_what_an_entry_brings_at_qos_0_waits_for_the_store_too() -> None:
    """It comes again if this node crashes before it has kept it, and QoS 0 is at most once."""
    store = SlowStore()
    one, two = Side(1, 2), Side(2, 1, store)
    link = Link(one, two)
    subscriber = two.world.connect("subscriber")
    subscriber.send(Subscribe(1, (Subscription("t", 0),)))
    store.keep_all()
    subscriber.read()
    one.broker.publishing.publish(Message(b"t", b"retained", qos=0, retain=True))
    link.carry(0)
    assert subscriber.payloads() == []
    store.keep_all()
    assert subscriber.payloads() == [b"retained"]


def test_the_stream_survives_a_cut_at_any_byte() -> None:
    whole = len(stream_of(*linked()))
    for cut_at in range(whole + 1):
        one, two, link = linked()
        subscriber = two.world.connect("subscriber")
        subscriber.subscribe("t", qos=2)
        data = stream_of(one, two, link)
        link.deliver(1, data[:cut_at])
        link.cut()
        one.broker.publishing.publish(Message(b"t", b"later", qos=1))
        Link(one, two).flow()
        got = [payload for payload in subscriber.payloads() if payload != b"zero"]
        assert got == [b"one", b"two", b"three", b"later"], cut_at
        assert one.peer.queued_count == 0
        assert not two.failures


def stream_of(one: Side, two: Side, link: Link) -> bytes:
    """What one node writes for some messages."""
    for payload, qos in ((b"one", 1), (b"zero", 0), (b"two", 2), (b"three", 1)):
        one.broker.publishing.publish(Message(b"t", payload, qos=qos))
    return link.lanes[0].output.take()


def test_numbers_grow_over_restarts_and_never_fall_behind_what_the_peer_has_seen() -> None:
    store = SlowStore()
    one = Side(1, 2, store)
    one.broker.publishing.publish(Message(b"t", b"x", qos=1))
    one.broker.hub.end_turn()
    store.keep_all()
    assert one.peer.last_sequence == (1 << 40) + 1
    again = restarted(one, store)
    assert again.peer.queued_count == 1
    again.broker.publishing.publish(Message(b"t", b"y", qos=1))
    assert again.peer.last_sequence == (2 << 40) + 1
    again.lane().open(again.peer, 5 << 40)  # it was copied back from an old disk
    again.broker.publishing.publish(Message(b"t", b"z", qos=1))
    assert again.peer.last_sequence == (5 << 40) + 1
    assert again.peer.queued_count == 1


def test_a_checkpoint_says_the_same_as_all_the_records() -> None:
    ours, theirs = SlowStore(), SlowStore()
    one, two = Side(1, 2, ours), Side(2, 1, theirs)
    link = Link(one, two)
    one.broker.publishing.publish(Message(b"t", b"acknowledged", qos=1))
    two.broker.publishing.publish(Message(b"t", b"from there", qos=1))
    for _ in range(4):
        ours.keep_all()
        theirs.keep_all()
        link.flow()
    one.broker.publishing.publish(Message(b"t", b"sent", qos=1, publisher="p", expires_at_s=5_000.0))
    link.cut()
    one.broker.publishing.publish(Message(b"t", b"waits", qos=2, retain=True))
    one.peer.enter(1, b"a cut", None, NOBODY)
    one.broker.hub.end_turn()
    ours.keep_all()
    by_records, by_checkpoint = State(), State()
    by_records.apply(ours.kept)
    by_checkpoint.apply([record for part in living(one.broker) for record in part])
    assert waiting_in(by_records) == waiting_in(by_checkpoint)
    assert by_records.peer_positions == by_checkpoint.peer_positions == {2: one.peer.taken}
    assert one.peer.taken
    again = Side(1, 2)
    restore(again.broker, by_checkpoint, again.world.now)
    assert again.peer.queued_count == 3
    assert (again.peer.taken, again.peer.kept) == (one.peer.taken, one.peer.taken)
    assert [client_id for client_id in again.broker.sessions if client_id.startswith("$peer/")] == []


def waiting_in(state: State) -> list[tuple[object, ...]]:
    saved = state.sessions[client_id_of(2)]
    return [
        (sequence, message.payload, message.qos, message.retain, message.stamp, saved.terms_of(sequence))
        for sequence, message in saved.deliveries.items()
        if message is not None
    ]  # fmt: skip


def test_a_name_in_the_store_stands_for_a_node() -> None:
    for node in (1, 2**64 - 1):
        assert node_of(client_id_of(node)) == node
    assert PeerTarget(Side(1, 2).peer, GROUPS).route == GROUPS


def test_a_client_cannot_take_the_name_of_a_node() -> None:
    client = World().open()
    client.send(Connect("$peer/0000000000000001"))
    answer = client.expect(Connack)
    assert answer.reason == 0x85


# ---- on disk -----------------------------------------------------------------------------------------


def test_a_queue_goes_to_disk_and_comes_back_in_order(tmp_path: Path) -> None:
    store = PagingStore(tmp_path, file_bytes=20_000)
    one, two = Side(1, 2, store), Side(2, 1)
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t")
    publish_many(one, range(2_000))
    assert one.broker.hub.queue_memory_bytes == 0
    assert one.peer.queued_count == 2_000
    link = Link(one, two)
    publish_many(one, range(2_000, 2_500))
    got: list[bytes] = []
    while one.peer.queued_count:
        settle(one.broker, store)
        link.flow()
        got += read_and_acknowledge(subscriber)
        one.peer.check()
    assert got == [b"%d" % number for number in range(2_500)]


def test_a_large_queue_goes_to_disk_in_small_parts(tmp_path: Path) -> None:
    """All at once would stop everybody for as long as that takes."""
    one = Side(1, 2, PagingStore(tmp_path, memory_bytes_max=1 << 30))
    for number in range(40):
        one.broker.publishing.publish(Message(b"t", bytes(1 << 20), qos=1))
        assert one.peer.queue is not None
        assert one.peer.queue.memory_bytes <= 17 << 20
        assert one.peer.queued_count == number + 1


def publish_many(side: Side, numbers: range) -> None:
    for number in numbers:
        side.broker.publishing.publish(Message(b"t", b"%d" % number, qos=1))
        if number % 100 == 99:
            side.broker.hub.end_turn()


@pytest.mark.parametrize("kept", [0, 1, 511, 512, 700, 1_999, 2_000])
def test_after_a_restart_what_the_peer_has_kept_is_not_sent_again(tmp_path: Path, kept: int) -> None:
    store = PagingStore(tmp_path, file_bytes=20_000)
    one, two = Side(1, 2, store), Side(2, 1)
    publish_many(one, range(2_000))
    state = store.state()
    again = Side(1, 2, store, 2)
    restore(again.broker, state, again.world.now)
    two.peer.restore_position((1 << 40) + kept)
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t")
    link = Link(again, two)
    link.flow()
    got: list[bytes] = []
    while again.peer.queued_count:
        settle(again.broker, store)
        link.flow()
        got += read_and_acknowledge(subscriber)
        again.peer.check()
    assert got == [b"%d" % number for number in range(kept, 2_000)]
    assert again.peer.forwarded_entries == 2_000 - kept
    assert [record for record in records_of(store) if record[0] == QUEUED] == []


def records_of(store: PagingStore) -> list[tuple[object, ...]]:
    saved = store.state().sessions[client_id_of(2)]
    assert saved.pages == []
    return [(QUEUED, sequence) for sequence in saved.deliveries]
