"""Two brokers joined by their lanes: what is published on one reaches those who subscribe on the other."""

from braidmq.wire import Connect, Properties, Publish
from tests.broker.linked import Link, Side
from tests.broker.world import World


def linked() -> tuple[Side, Side, Link]:
    one, two = Side(1, 2), Side(2, 1)
    return one, two, Link(one, two)


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
    got = [(p.topic, p.payload, p.qos) for p in subscriber.read() if isinstance(p, Publish)]
    assert got == [("t/0", b"zero", 0), ("t/1", b"one", 1), ("t/2", b"two", 2)]
    assert one.peer.queued_count == 0
    assert (two.peer.received_qos0, two.peer.received_entries) == (1, 2)
    one.peer.check()


def test_what_comes_from_a_peer_goes_to_no_peer() -> None:
    one, two, link = linked()
    one.world.connect("publisher").send(Publish("t", b"x"), Publish("t", b"y", qos=1, packet_id=1))
    link.flow()
    assert two.peer.forwarded_qos0 == two.peer.forwarded_entries == 0


def test_without_a_link_qos_0_is_dropped_and_the_rest_waits() -> None:
    one, two = Side(1, 2), Side(2, 1)
    subscriber = two.world.connect("subscriber")
    subscriber.subscribe("t")
    publisher = one.world.connect("publisher")
    publisher.send(Publish("t", b"lost"), Publish("t", b"kept", qos=1, packet_id=1))
    assert (one.dropped("peer_away"), one.peer.queued_count) == (1, 1)
    Link(one, two).flow()
    assert subscriber.payloads() == [b"kept"]


def test_a_client_cannot_take_the_name_of_a_node() -> None:
    client = World().open()
    client.send(Connect("$peer/0000000000000001", properties=Properties()))
    assert client.read()[0].reason == 0x85  # type: ignore[union-attr]
