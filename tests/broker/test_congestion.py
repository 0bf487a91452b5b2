"""Back-pressure: memory is bounded, publishers feel a slow subscriber, a stuck one is dropped and counted."""

from braidmq.wire import Properties, Puback, Publish, ReasonCode, Subscribe, Subscription
from tests.broker.world import Client, World

KIB = 1024


def flooded(world: World, subscriber_id: str = "s") -> tuple[Client, Client]:
    subscriber = world.connect(subscriber_id)
    subscriber.subscribe("t", qos=0)
    publisher = world.connect("p")
    publisher.send(*(Publish("t", bytes(KIB)) for _ in range(5)))
    return subscriber, publisher


def test_publisher_pauses_until_the_subscriber_has_read() -> None:
    world = World(output_bytes_max=4 * KIB, slow_subscriber_patience_ms=500)
    subscriber, publisher = flooded(world)
    assert publisher.is_paused
    assert len(subscriber.payloads()) == 5
    assert not publisher.is_paused
    assert world.broker.hub.counters.by_name()["dropped_slow_subscriber"] == 0


def test_patience_ends_and_what_is_dropped_is_counted() -> None:
    world = World(output_bytes_max=4 * KIB, slow_subscriber_patience_ms=500)
    subscriber, publisher = flooded(world)
    world.pass_time(0.4)
    assert publisher.is_paused
    world.pass_time(0.2)
    assert not publisher.is_paused
    publisher.send(*(Publish("t", bytes(KIB)) for _ in range(7)))
    assert not publisher.is_paused
    assert world.broker.hub.counters.by_name()["dropped_slow_subscriber"] == 7
    assert len(subscriber.payloads()) == 5
    publisher.send(Publish("t", b"after"))
    assert subscriber.payloads() == [b"after"]


def test_output_has_a_hard_bound_even_within_patience() -> None:
    world = World(output_bytes_max=4 * KIB)
    subscriber, _ = flooded(world)
    for number in range(20):  # each is paused only after what it has sent
        other = world.connect(f"p{number}")
        other.send(*(Publish("t", bytes(KIB)) for _ in range(3)))
    assert len(subscriber.connection.output) <= 2 * 4 * KIB + 3 * (KIB + 10)
    assert world.broker.hub.counters.by_name()["dropped_slow_subscriber"] > 0


def test_a_subscriber_that_goes_lets_its_publishers_go_on() -> None:
    world = World(output_bytes_max=4 * KIB)
    subscriber, publisher = flooded(world)
    assert publisher.is_paused
    subscriber.vanish()
    assert not publisher.is_paused


def test_qos1_waits_in_the_session_not_in_the_output() -> None:
    world = World(output_bytes_max=4 * KIB, queue_messages_max=100, inflight_max=100)
    subscriber = world.connect("s")
    subscriber.subscribe("t", qos=1)
    publisher = world.connect("p")
    for number in range(20):
        publisher.send(Publish("t", bytes(KIB), 1, packet_id=number + 1))
    assert len(subscriber.connection.output) < 6 * KIB
    received = 0
    while packets := [packet for packet in subscriber.read() if isinstance(packet, Publish)]:
        received += len(packets)
        subscriber.send(*(Puback(packet.packet_id) for packet in packets))
    assert received == 20
    assert all(packet.reason == ReasonCode.SUCCESS for packet in publisher.read())


def test_retained_replay_goes_at_the_readers_pace() -> None:
    world = World(output_bytes_max=4 * KIB)
    publisher = world.connect("p")
    publisher.send(*(Publish(f"r/{number}", bytes(KIB), retain=True) for number in range(50)))
    subscriber = world.connect("s")
    subscriber.send(Subscribe(2, (Subscription("r/#", 0),)))
    assert len(subscriber.connection.output) < 6 * KIB
    publisher.send(*(Publish(f"r/{number}", b"new", retain=True) for number in range(50)))
    seen: dict[str, list[bytes]] = {}
    for _ in range(60):
        for packet in subscriber.read():
            if isinstance(packet, Publish):
                seen.setdefault(packet.topic, []).append(packet.payload)
    assert len(seen) == 50
    assert all(payloads[-1] == b"new" for payloads in seen.values())  # never the old one after the new one
    assert sum(len(payloads) == 1 for payloads in seen.values()) > 40


def test_messages_that_expire_while_waiting_are_dropped_and_counted() -> None:
    world = World(inflight_max=1)
    subscriber = world.connect("s", properties=Properties(session_expiry_s=1000))
    subscriber.subscribe("t", qos=1)
    publisher = world.connect("p")
    short = Properties(message_expiry_s=5)
    publisher.send(Publish("t", b"1", 1, packet_id=1), Publish("t", b"2", 1, packet_id=2, properties=short))
    publisher.send(Publish("t", b"3", 1, packet_id=3, properties=Properties(message_expiry_s=60)))
    first = subscriber.expect(Publish)
    world.pass_time(20)
    subscriber.send(Puback(first.packet_id))
    third = subscriber.expect(Publish)
    assert (third.payload, third.properties.message_expiry_s) == (b"3", 40)
    assert world.broker.hub.counters.by_name()["dropped_expired"] == 1


def test_a_client_that_reads_no_answers_is_not_read_either() -> None:
    world = World(output_bytes_max=4 * KIB)
    client = world.connect("c")
    client.send_bytes(b"\xc0\x00" * 4 * KIB)
    assert client.is_paused
    assert len(client.read()) == 4 * KIB
    assert not client.is_paused


def test_patience_is_not_forgiven_at_each_gulp() -> None:
    """Somebody who empties its output now and then holds its publishers up no longer than who never reads."""
    world = World(output_bytes_max=4 * KIB, slow_subscriber_patience_ms=1000)
    subscriber, publisher = flooded(world)
    paused_s = 0.0
    for step in range(1, 401):
        world.pass_time(0.05)
        paused_s += 0.05 if publisher.is_paused else 0.0
        if step % 16 == 0:  # after 0.8 s, before patience is at its end
            subscriber.read()
        if not publisher.is_paused:
            publisher.send(*(Publish("t", bytes(KIB)) for _ in range(8)))
    assert paused_s < 1.0 + 0.1 * 20
    assert world.broker.hub.counters.by_name()["dropped_slow_subscriber"] > 100
    subscriber.read()
    world.pass_time(20)  # it has kept up for long: it may stall again
    publisher.send(*(Publish("t", bytes(KIB)) for _ in range(5)))
    assert publisher.is_paused


def test_many_slow_readers_together_have_a_bound() -> None:
    """Each is far below its own limits; beyond the node's, each keeps 64 KiB and loses the rest, counted."""
    readers, payload = 40, bytes(8 * KIB)
    world = World(waiting_bytes_max=4 * KIB * KIB, inflight_max=1, output_bytes_max=KIB * KIB)
    for number in range(readers):
        world.connect(f"r{number}").subscribe(f"t/{number}", qos=1)
    publisher = world.connect("p")
    for turn in range(60):  # 19 MiB in all
        for number in range(readers):
            publisher.send(Publish(f"t/{number}", payload, 1, packet_id=turn + 1))
    assert {packet.reason for packet in publisher.read() if isinstance(packet, Puback)} == {0}
    hub = world.broker.hub
    assert hub.queue_memory_bytes < 4 * KIB * KIB + readers * 64 * KIB
    assert hub.counters.by_name()["dropped_queue_full"] > 0
    late = world.connect("late")
    late.subscribe("late", qos=1)
    publisher.send(*(Publish("late", b"x", 1, packet_id=number) for number in range(1, 4)))
    assert world.broker.sessions["late"].queued == 2  # one is on its way


def test_outputs_count_towards_the_bound_of_the_node() -> None:
    world = World(waiting_bytes_max=KIB * KIB, slow_subscriber_patience_ms=0)
    readers = [world.connect(f"r{number}") for number in range(20)]
    for reader in readers:
        reader.subscribe("t", qos=0)
    publisher = world.connect("p")
    for _ in range(100):
        publisher.send(Publish("t", bytes(8 * KIB)))
    assert sum(len(reader.connection.output) for reader in readers) < KIB * KIB + 20 * 2 * 64 * KIB
    assert world.broker.hub.counters.by_name()["dropped_slow_subscriber"] > 0
