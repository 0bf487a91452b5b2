"""A client that asks is told the number of each QoS 1 and 2 delivery; none is ever used for another."""

from random import Random

from braidmq.broker.access import BuiltInGate
from braidmq.broker.broker import Broker
from braidmq.broker.restoring import living, restore
from braidmq.limits import Limits
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.state import State
from braidmq.wire import Connack, Connect, Packet, Properties, Puback, Pubcomp, Publish, Pubrec, Pubrel
from tests.broker.world import Client, SlowStore, World

ASKED = Properties(session_expiry_s=1000, user_properties=(("braidmq-delivery-numbers", "1"),))
PLAIN = Properties(session_expiry_s=1000)


class KeepingStore(SlowStore):
    """Keeps all at once."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: list[bytes] = []

    def commit(self, turn: bytes, kept) -> None:  # type: ignore[no-untyped-def]
        self.bytes.append(turn)
        kept()


def come(
    world: World, client_id: str = "s", properties: Properties = ASKED
) -> tuple[Client, Connack, list[Packet]]:
    client = world.open()
    client.send(Connect(client_id, False, 0, properties=properties))
    connack, *rest = client.read()
    return client, connack, rest


def restarted(world: World, *, from_checkpoint: bool = False) -> World:
    """The broker after a crash at this moment."""
    turns = world.store.bytes
    if from_checkpoint:
        encoder = Encoder(0.0)
        turns = [encoder.encode(part) for part in living(world.broker)]
    decoder, state = Decoder(0.0), State()
    for turn in turns:
        state.apply(decoder.decode(turn))
    again = World(KeepingStore())
    again.store.bytes += turns
    again.broker = Broker(Limits(), again.store, BuiltInGate(), lambda: "made", rng=Random(7))
    restore(again.broker, state, again.now)
    return again


def numbers(packets: list[Packet]) -> list[int]:
    """The first property of that name counts: a publisher may have given it, too."""
    return [
        int(dict(reversed(packet.properties.user_properties))["braidmq-delivery"])
        for packet in packets if isinstance(packet, Publish)
    ]


def say(world: World, *payloads: bytes, qos: int = 1, properties: Properties | None = None) -> None:
    properties = properties or Properties()
    publisher = world.connect("p")
    for number, payload in enumerate(payloads):
        publisher.send(Publish("t", payload, qos, packet_id=number + 1 if qos else 0, properties=properties))


def test_only_who_asks_is_told() -> None:
    world = World(KeepingStore())
    asks, connack, _ = come(world)
    assert dict(connack.properties.user_properties)["braidmq-delivery-numbers"] == "1"
    silent, connack, _ = come(world, "other", PLAIN)
    assert connack.properties.user_properties == ()
    for client in (asks, silent):
        client.subscribe("t", qos=1)
    say(world, b"x")
    assert numbers(asks.read()) == [1]
    [told] = silent.read()
    assert told.properties.user_properties == ()


def test_a_publisher_can_not_forge_it_and_qos_0_has_none() -> None:
    world = World()
    client, _, _ = come(world)
    client.subscribe("t", qos=2)
    forged = Properties(user_properties=(("braidmq-delivery", "77"),))
    say(world, b"x", qos=2, properties=forged)
    assert numbers(client.read()) == [1]
    say(world, b"x", qos=0)
    [plain] = client.read()
    assert plain.properties.user_properties == ()


def test_a_repetition_has_its_number_and_a_group_counts_with_the_rest() -> None:
    world = World(KeepingStore())
    client, _, _ = come(world)
    client.subscribe("t", "$share/g/t", qos=2)
    say(world, b"a", b"b", qos=2)
    first = client.read()
    assert sorted(numbers(first)) == [1, 2, 3, 4]
    client.vanish()
    for again in (world, restarted(world), restarted(world, from_checkpoint=True)):
        _, _, repeated = come(again)
        by_id = {packet.packet_id: number for packet, number in zip(first, numbers(first), strict=True)}
        assert {packet.packet_id: number for packet, number
                in zip(repeated, numbers(repeated), strict=True)} == by_id


def test_no_number_and_no_packet_id_is_used_again_when_all_is_settled_and_the_broker_has_crashed() -> None:
    world = World(KeepingStore())
    client, connack, _ = come(world)
    client.subscribe("t", qos=2)
    say(world, b"ok", b"ok", b"ok")
    client.send(*(Puback(packet.packet_id) for packet in client.read()))
    say(world, b"ok", qos=2)
    [sent] = client.read()
    assert (sent.packet_id, numbers([sent])) == (4, [4])
    client.send(Pubrec(4))
    client.expect(Pubrel)
    client.send(Pubcomp(4))
    assert world.broker.sessions["s"].inflight.count == 0
    for again in (restarted(world), restarted(world, from_checkpoint=True),
                  restarted(restarted(world, from_checkpoint=True), from_checkpoint=True)):
        client, resumed, _ = come(again)
        assert (resumed.session_present, resumed.properties) == (True, connack.properties)
        say(again, b"ok")
        [sent] = client.read()
        assert (sent.packet_id, numbers([sent])) == (5, [5])


def test_a_session_begun_anew_has_another_identity() -> None:
    world = World(KeepingStore())
    _, first, _ = come(world)
    client = world.open()
    client.send(Connect("s", True, 0, properties=ASKED))
    second = client.expect(Connack)
    assert second.properties.user_properties[1] != first.properties.user_properties[1]


def test_a_connack_with_numbers_that_does_not_fit_is_refused_before_there_is_a_session() -> None:
    world = World()
    client = world.open()
    asked = Properties(maximum_packet_size_bytes=40, user_properties=ASKED.user_properties)
    client.send(Connect("s", False, 0, properties=asked))
    assert not world.broker.sessions
