"""Nothing is promised before it is kept: with a store that takes its time, answers wait for it."""

from braidmq.store.records import INBOUND, QUEUED, RETAINED, SENT, SESSION, SETTLED, SUBSCRIBED, WILL
from braidmq.wire import (
    V311,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Publish,
    Pubrec,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Will,
)
from tests.broker.world import Client, SlowStore, World

LASTING = Properties(session_expiry_s=1000)


def kinds(store: SlowStore) -> list[int]:
    return [record[0] for record in store.kept]


def connected(world: World, store: SlowStore, client_id: str) -> Client:
    client = world.open()
    client.send(Connect(client_id, properties=LASTING))
    assert client.read() == []
    store.keep_all()
    client.expect(Connack)
    return client


def test_session_and_subscription_are_kept_before_they_are_confirmed() -> None:
    store = SlowStore()
    world = World(store)
    client = connected(world, store, "c")
    assert SESSION in kinds(store)
    client.send(Subscribe(1, (Subscription("t", 1),)))
    assert client.read() == []
    assert SUBSCRIBED not in kinds(store)
    store.keep_all()
    assert SUBSCRIBED in kinds(store)
    client.expect(Suback)


def test_publish_is_acknowledged_and_delivered_when_kept() -> None:
    store = SlowStore()
    world = World(store)
    subscriber = connected(world, store, "s")
    subscriber.send(Subscribe(1, (Subscription("t", 2),)))
    store.keep_all()
    subscriber.read()
    publisher = connected(world, store, "p")
    publisher.send(Publish("t", b"1", 1, packet_id=1), Publish("t", b"2", 2, packet_id=2))
    assert (publisher.read(), subscriber.read()) == ([], [])
    store.keep_all()
    assert publisher.read() == [Puback(1), Pubrec(2)]
    assert subscriber.payloads() == [b"1", b"2"]
    assert [kind for kind in kinds(store) if kind in (QUEUED, SENT, INBOUND)] == [
        QUEUED, QUEUED, INBOUND, SENT, SENT,  # what was sent is told together, at the end of the turn
    ]
    subscriber.send(Puback(1))
    store.keep_all()
    assert kinds(store)[-1] == SETTLED


def test_qos0_overtakes_what_is_held() -> None:
    store = SlowStore()
    world = World(store)
    subscriber = connected(world, store, "s")
    subscriber.send(Subscribe(1, (Subscription("t", 1),)))
    store.keep_all()
    subscriber.read()
    publisher = connected(world, store, "p")
    publisher.send(Publish("t", b"held", 1, packet_id=1), Publish("t", b"free"))
    assert subscriber.payloads() == [b"free"]
    store.keep_all()
    assert subscriber.payloads() == [b"held"]


def test_held_answers_count_against_the_receive_maximum() -> None:
    store = SlowStore()
    world = World(store, receive_maximum=2)
    publisher = connected(world, store, "p")
    for packet_id in (1, 2, 3):
        publisher.send(Publish("t", b"", 1, packet_id=packet_id))
    (last,) = publisher.read()
    assert last.reason == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED
    assert publisher.is_closed


def test_retained_messages_are_recorded() -> None:
    store = SlowStore()
    world = World(store)
    publisher = connected(world, store, "p")
    publisher.send(Publish("t", b"1", retain=True), Publish("t", b"", retain=True))
    store.keep_all()
    kept = [record for record in store.kept if record[0] == RETAINED]
    assert [record[2] is None for record in kept] == [False, True]


def test_turns_gather_while_the_store_is_busy() -> None:
    store = SlowStore()
    world = World(store)
    subscriber = connected(world, store, "s")
    subscriber.send(Subscribe(1, (Subscription("t", 1),)))
    store.keep_all()
    subscriber.read()
    publisher = connected(world, store, "p")
    for packet_id in (1, 2, 3):
        publisher.send(Publish("t", b"%d" % packet_id, 1, packet_id=packet_id))
    assert len(store.turns) == 1
    store.keep_one()
    assert publisher.read() == [Puback(1)]
    assert subscriber.payloads() == [b"1"]
    assert len(store.turns) == 1
    store.keep_one()
    assert publisher.read() == [Puback(2), Puback(3)]
    assert subscriber.payloads() == [b"2", b"3"]
    assert store.turns == []


def test_a_broker_that_stops_leaves_nothing_behind() -> None:
    """A goodbye has no answer that would wait for the store; still, the will must not come after it."""
    store = SlowStore()
    world = World(store)
    client = world.open()
    client.send(Connect("c", will=Will("t", b"gone"), properties=LASTING))
    client.send(Disconnect())
    assert len(store.turns) == 1  # the store is busy with the CONNECT
    world.broker.hub.promises.hand_over()
    store.keep_one()
    store.keep_one()
    assert [record[2] is None for record in store.kept if record[0] == WILL] == [False, True]


def test_what_was_sent_and_settled_in_order_is_told_in_few_bytes() -> None:
    store = SlowStore()
    world = World(store)
    subscriber = connected(world, store, "s")
    subscriber.send(Subscribe(1, (Subscription("t", 1),)))
    store.keep_all()
    publisher = connected(world, store, "p")
    publisher.send(*[Publish("t", b"", 1, packet_id=packet_id) for packet_id in range(1, 101)])
    store.keep_all()
    before = len(store.kept)
    subscriber.send(*[Puback(packet_id) for packet_id in range(1, 101)])
    assert len(store.turns[0][0]) < 10
    store.keep_all()
    assert [record[2] for record in store.kept[before:] if record[0] == SETTLED] == list(range(1, 101))
    sent = [record[2:] for record in store.kept if record[0] == SENT]
    assert sent == [(number, number) for number in range(1, 101)]


def test_what_can_not_be_kept_is_refused_and_counted() -> None:
    store = SlowStore()
    world = World(store)
    publisher = connected(world, store, "p")
    store.journal.is_failing = True
    publisher.send(Publish("t", b"1", 1, packet_id=1), Publish("t", b"2", 2, packet_id=2), Publish("t", b"3"))
    assert publisher.read() == [Puback(1, ReasonCode.QUOTA_EXCEEDED), Pubrec(2, ReasonCode.QUOTA_EXCEEDED)]
    assert world.broker.hub.counters.by_name()["dropped_store_failing"] == 2


def test_nothing_overtakes_the_connack() -> None:
    """[MQTT-3.2.0-1]: QoS 0, retained messages, PINGRESP and DISCONNECT wait for it, too."""
    store = SlowStore()
    world = World(store)
    client = connected(world, store, "c")
    client.send(Subscribe(1, (Subscription("t/#"),)))
    store.keep_all()
    client.vanish()
    store.keep_all()
    publisher = connected(world, store, "p")
    publisher.send(Publish("t/retained", b"retained", retain=True))
    store.keep_all()
    client = world.open()
    client.send(
        Connect("c", clean_start=False, properties=LASTING), Subscribe(2, (Subscription("t/+"),)), Pingreq()
    )
    publisher.send(Publish("t/now", b"now"), Publish("t/large", b"x" * 20_000))
    assert client.read() == []
    store.keep_all()
    first, *rest = client.read()
    assert isinstance(first, Connack)
    assert {type(packet) for packet in rest} == {Suback, Pingresp, Publish}
    publisher.send(Publish("t/later", b"later"))
    assert client.payloads() == [b"later"]


def test_a_farewell_does_not_overtake_the_connack() -> None:
    store = SlowStore()
    world = World(store)
    client = world.open()
    client.send(Connect("c", properties=LASTING))
    client.send_bytes(b"\xf0\x00" * 2)
    assert client.is_closed
    assert client.read() == []  # [MQTT-3.14.0-1]


def test_mqtt_3_is_read_no_further_while_too_many_answers_wait() -> None:
    """It knows no Receive Maximum: whatever it sends is taken in the end, and never too much at a time."""
    for qos, answer in ((1, Puback), (2, Pubrec)):
        store = SlowStore()
        world = World(store, receive_maximum=10)
        publisher = world.open(V311)
        publisher.send(Connect("p", version=V311))
        store.keep_all()
        publisher.expect(Connack)
        publisher.send(*(Publish("t", b"", qos, packet_id=number) for number in range(1, 36)))
        answered = []
        while store.turns:
            assert publisher.is_paused == (len(answered) < 30), len(answered)
            store.keep_one()
            world.run_deferred()
            world.broker.hub.end_turn()
            answered += publisher.read()
        assert answered == [answer(number) for number in range(1, 36)]
        assert not publisher.is_closed
        assert not publisher.is_paused


def test_mqtt_5_is_held_to_the_receive_maximum_it_was_told() -> None:
    store = SlowStore()
    world = World(store, receive_maximum=10)
    publisher = connected(world, store, "p")
    publisher.send(*(Publish("t", b"", 1, packet_id=number) for number in range(1, 12)))
    assert publisher.is_closed


def test_who_is_not_read_is_not_missed() -> None:
    """While the store is slow nobody listens, so that nothing is heard is no sign of a dead client."""
    store = SlowStore()
    world = World(store, receive_maximum=2)
    publisher = world.connect("p", V311, keep_alive_s=2)
    store.keep_all()
    publisher.send(*(Publish("t", b"", 1, packet_id=number) for number in (1, 2, 3)))
    assert publisher.is_paused
    for _ in range(3):
        world.pass_time(3)
    assert not publisher.is_closed
    while store.turns:
        store.keep_one()
        world.run_deferred()
        world.broker.hub.end_turn()
    assert not publisher.is_paused
    world.pass_time(3)
    assert publisher.is_closed  # now it was listened to


def test_a_connection_that_is_over_holds_nothing() -> None:
    """It is part of a cycle, and may be there for long: a megabyte a connection must not be."""
    store = SlowStore()
    world = World(store)
    writer = connected(world, store, "writer")
    writer.send(Publish("r", bytes(100_000), retain=True))
    for meanwhile in (world.run_deferred, store.keep_all):
        greedy, half_said = world.open(), connected(world, store, "half-said")
        greedy.send(Connect("greedy"), Subscribe(1, (Subscription("r"),)))
        half_said.send_bytes(b"\x30\xff\xff\x0f" + bytes(50_000))
        assert greedy.connection.holds_bytes + half_said.connection.holds_bytes > 150_000
        greedy.vanish()
        half_said.vanish()
        meanwhile()
        store.keep_all()
        world.run_deferred()
        assert greedy.connection.holds_bytes == half_said.connection.holds_bytes == 0
