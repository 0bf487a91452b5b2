"""With `ack = "peers"` a publish is answered when the linked nodes that want the message have kept it."""

from braidmq.wire import V311, Connect, Disconnect, Packet, Properties, Puback, Publish, Pubrec, Pubrel
from tests.broker.linked import Link, Side
from tests.broker.world import Client, SlowStore

LASTING = Properties(session_expiry_s=3_600)


class Waiting:
    """Two nodes; the second one keeps its turns when the test says so."""

    def __init__(self, **limits: int) -> None:
        self.store = SlowStore()
        self.one, self.two = Side(1, 2, **limits), Side(2, 1, self.store)
        self.one.broker.hub.awaits_peers = True
        self.link = Link(self.one, self.two)

    def keep(self) -> None:
        """Let the second node keep what it has, and say so."""
        self.link.flow()
        self.store.keep_all()
        self.link.flow()
        self.one.world.run_deferred()

    def publisher(self, version: int = 5, client_id: str = "publisher") -> Client:
        client = self.one.world.open(version)
        properties = LASTING if version == 5 else Properties()
        client.send(Connect(client_id, clean_start=False, version=version, properties=properties))
        client.read()
        return client


def answers(client: Client) -> list[tuple[type[Packet], int, int]]:
    return [(type(p), p.packet_id, p.reason) for p in client.read() if isinstance(p, Puback | Pubrec)]


def test_an_answer_leaves_when_the_other_node_has_kept_the_message() -> None:
    waiting = Waiting()
    publisher = waiting.publisher()
    publisher.send(Publish("t", b"x", qos=1, packet_id=1), Publish("t", b"y", qos=2, packet_id=2))
    waiting.link.flow()
    assert answers(publisher) == []
    waiting.keep()
    assert answers(publisher) == [(Puback, 1, 0), (Pubrec, 2, 0)]


def test_nobody_waits_for_a_node_without_a_link() -> None:
    waiting = Waiting()
    publisher = waiting.publisher()
    publisher.send(Publish("t", b"x", qos=1, packet_id=1))
    waiting.link.cut()
    assert answers(publisher) == [(Puback, 1, 0)]
    publisher.send(Publish("t", b"x", qos=1, packet_id=2))
    assert answers(publisher) == [(Puback, 2, 0)]
    assert waiting.one.peer.queued_count == 2


def test_by_default_nobody_waits() -> None:
    waiting = Waiting()
    waiting.one.broker.hub.awaits_peers = False
    publisher = waiting.publisher()
    publisher.send(Publish("t", b"x", qos=1, packet_id=1))
    assert answers(publisher) == [(Puback, 1, 0)]


def test_what_somebody_there_has_no_room_for_is_refused() -> None:
    one, two = Side(1, 2), Side(2, 1, queue_messages_max=1)
    one.broker.hub.awaits_peers = True
    subscriber = two.world.connect("subscriber", properties=LASTING)
    subscriber.subscribe("t")
    two.broker.sessions["subscriber"].overflow = "refuse"
    subscriber.vanish()
    link = Link(one, two)
    publisher = one.world.connect("publisher", properties=LASTING)
    publisher.send(*(Publish("t", b"x", qos=1, packet_id=packet_id) for packet_id in (1, 2)))
    publisher.send(Publish("t", b"x", qos=2, packet_id=3))
    link.flow()
    assert answers(publisher) == [(Puback, 1, 0), (Puback, 2, 0x97), (Pubrec, 3, 0x97)]
    assert one.peer.refused == 2
    assert not one.broker.sessions["publisher"].inbound  # it may be tried again


def test_mqtt_3_cannot_be_told_and_is_disconnected() -> None:
    one, two = Side(1, 2), Side(2, 1, queue_messages_max=1)
    one.broker.hub.awaits_peers = True
    subscriber = two.world.connect("subscriber", properties=LASTING)
    subscriber.subscribe("t")
    two.broker.sessions["subscriber"].overflow = "refuse"
    subscriber.vanish()
    link = Link(one, two)
    publisher = one.world.connect("publisher", V311)
    publisher.send(*(Publish("t", b"x", qos=1, packet_id=packet_id) for packet_id in (1, 2)))
    link.flow()
    assert answers(publisher) == [(Puback, 1, 0)]
    assert publisher.is_closed


def test_a_repetition_on_a_new_connection_waits_as_the_first_did() -> None:
    waiting = Waiting()
    publisher = waiting.publisher()
    publisher.send(Publish("t", b"x", qos=2, packet_id=1))
    publisher.vanish()
    again = waiting.publisher()
    again.send(Publish("t", b"x", qos=2, packet_id=1, dup=True))
    assert answers(again) == []
    waiting.keep()
    assert answers(again) == [(Pubrec, 1, 0)]
    assert waiting.two.peer.received_entries == 1
    again.send(Publish("t", b"x", qos=2, packet_id=1, dup=True), Pubrel(1))
    assert answers(again) == [(Pubrec, 1, 0)]
    again.send(Disconnect())
    assert waiting.one.peer.queued_count == 0


def test_mqtt_3_is_read_on_when_answers_have_left() -> None:
    waiting = Waiting(receive_maximum=3)
    publisher = waiting.publisher(V311)
    publisher.send(*(Publish("t", b"x", qos=1, packet_id=packet_id) for packet_id in range(1, 8)))
    got: list[int] = []
    for _ in range(3):
        assert answers(publisher) == []
        waiting.keep()
        got += [packet_id for _, packet_id, _ in answers(publisher)]
    assert got == [1, 2, 3, 4, 5, 6, 7]


def test_mqtt_5_may_not_have_more_open_than_its_receive_maximum() -> None:
    waiting = Waiting(receive_maximum=3)
    publisher = waiting.publisher()
    publisher.send(*(Publish("t", b"x", qos=1, packet_id=packet_id) for packet_id in range(1, 5)))
    assert [packet.reason for packet in publisher.read() if isinstance(packet, Disconnect)] == [0x93]
    waiting.keep()
    assert waiting.one.peer.queued_count == 0
