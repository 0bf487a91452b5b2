"""Nobody works longer than a turn: what is left of much work is done later, in order, after the others."""

from collections.abc import Callable

import pytest

from braidmq.wire import (
    V5,
    V311,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Publish,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    encode,
)
from tests.broker.world import Client, TickingStopwatch, World

TURN_MS = 5


def world_of_turns(tick_ms: float) -> World:
    return World(stopwatch=TickingStopwatch(tick_ms / 1000), work_ms_max=TURN_MS)


def turns(client: Client, *packets: Packet) -> list[list[Packet]]:
    """What the client is answered in each turn, when it sends all of these at once."""
    world = client.world
    client.connection.receive(b"".join(encode(packet, client.version) for packet in packets), world.now)
    answers = [client.read()]
    while world.deferred:
        assert client.is_paused
        world.deferred.pop(0)()
        answers.append(client.read())
    assert not client.is_paused
    return answers


@pytest.mark.parametrize("version", [V311, V5])
def test_many_packets_that_make_work_are_spread_over_turns(version: int) -> None:
    client = world_of_turns(1).connect("c", version)
    packets = [Subscribe(number, (Subscription(f"t/{number}"),)) for number in range(1, 101)]
    found = turns(client, *packets, Pingreq())
    assert all(len(answers) <= TURN_MS + 1 for answers in found)
    flat = [answer for answers in found for answer in answers]
    assert [answer.packet_id for answer in flat if isinstance(answer, Suback)] == list(range(1, 101))
    assert isinstance(flat[-1], Pingresp)


def test_many_who_make_work_share_the_time() -> None:
    world = world_of_turns(0.1)
    clients = [world.connect(f"c-{number}") for number in range(10)]
    packets = [Subscribe(number, (Subscription(f"t/{number}"),)) for number in range(1, 1001)]
    for client in clients:
        client.connection.receive(b"".join(encode(packet, V5) for packet in packets), world.now)
        client.read()
    for client in clients:
        world.deferred.pop(0)()
        assert 0 < len(client.read()) < 10
    world.run_deferred()
    assert world.broker.hub.resting == 0
    assert not any(client.is_paused for client in clients)


def test_new_topics_are_work() -> None:
    world = world_of_turns(1)
    client, reader = world.connect("c"), world.connect("r")
    reader.subscribe("#")
    found = turns(client, *(Publish(f"t/{number}", b"%d" % number) for number in range(100)))
    assert len(found) > 10
    assert reader.payloads() == [b"%d" % number for number in range(100)]


def test_known_topics_are_hardly_any() -> None:
    world = world_of_turns(1)
    client, reader = world.connect("c"), world.connect("r")
    reader.subscribe("t")
    client.send(Publish("t", b""))
    assert len(turns(client, *(Publish("t", b"x") for _ in range(100)))) == 1


@pytest.mark.parametrize(
    ("request_of", "answer_kind"),
    [
        (lambda filters: Subscribe(7, tuple(Subscription(name) for name in filters)), Suback),
        (lambda filters: Unsubscribe(7, tuple(filters)), Unsuback),
    ],
)
def test_a_long_request_is_worked_off_in_turns(
    request_of: Callable[[list[str]], Packet], answer_kind: type
) -> None:
    world = world_of_turns(1)
    client, other = world.connect("c"), world.connect("other")
    request = request_of([f"t/{number}" for number in range(100)])
    client.connection.receive(encode(request, V5) + encode(Pingreq(), V5), world.now)
    pings = 0
    while world.deferred:
        assert client.read() == []
        other.connection.receive(encode(Pingreq(), V5), world.now)
        other.expect(Pingresp)
        pings += 1
        world.deferred.pop(0)()
        if len(client.connection.output):
            break
    assert pings > 10
    world.run_deferred()
    answer, pong = client.read()
    assert isinstance(answer, answer_kind)
    assert len(answer.reasons) == 100  # type: ignore[attr-defined]
    assert isinstance(pong, Pingresp)
    assert not client.is_paused


def test_who_goes_in_the_middle_of_it_leaves_nothing_behind() -> None:
    world = world_of_turns(1)
    client = world.connect("c")
    request = Subscribe(1, tuple(Subscription(f"t/{number}") for number in range(100)))
    client.connection.receive(encode(request, V5), world.now)
    client.vanish()
    world.run_deferred()
    assert not world.broker.sessions
    assert len(world.broker.router.trie) == 0
    world.check()


def test_who_is_taken_over_in_the_middle_of_it_keeps_what_it_has() -> None:
    world = world_of_turns(1)
    lasting = Properties(session_expiry_s=100)
    client = world.connect("c", properties=lasting)
    request = Subscribe(1, tuple(Subscription(f"t/{number}") for number in range(100)))
    client.connection.receive(encode(request, V5), world.now)
    again = world.open()
    again.connection.receive(encode_connect("c", lasting), world.now)
    world.run_deferred()
    assert client.is_closed
    held = len(world.broker.sessions["c"].subscriptions)
    assert 0 < held < 100
    world.check()


def encode_connect(client_id: str, properties: Properties) -> bytes:
    return encode(Connect(client_id, clean_start=False, properties=properties), V5)


def test_too_many_of_anything_in_a_packet_is_refused() -> None:
    pairs = tuple(("a", "b") for _ in range(11))
    many = Properties(user_properties=pairs)
    for packet in (
        Subscribe(1, tuple(Subscription("$SYS/#") for _ in range(11))),
        Unsubscribe(1, ("t",) * 11),
        Subscribe(1, (Subscription("t"),), many),
        Unsubscribe(1, ("t",), many),
        Puback(1, 0, many),
        Disconnect(0, many),
    ):
        world = World(filters_max=10, properties_max=10)
        client = world.connect("c")
        client.send_bytes(encode(packet, V5))
        assert client.expect(Disconnect).reason == ReasonCode.QUOTA_EXCEEDED


def test_many_who_are_sent_retained_messages_make_no_more_work_than_one() -> None:
    world = world_of_turns(0.1)
    world.connect("w").send(*(Publish(f"r/{number}", b"x", retain=True) for number in range(200)))
    clients = [world.connect(f"c-{number}") for number in range(20)]
    request = encode(Subscribe(1, (Subscription("r/#"),)), V5)
    for client in clients:
        client.connection.receive(request, world.now)
    found = [read_retained(client) for client in clients]
    turns_taken = 0
    while world.deferred:
        assert len(world.deferred) == 1
        world.deferred.pop(0)()
        of_turn = [read_retained(client) for client in clients]
        assert sum(map(len, of_turn)) <= TURN_MS / 0.1 / 4 + 1
        found = [former + new for former, new in zip(found, of_turn, strict=True)]
        turns_taken += 1
    assert turns_taken > len(clients)
    assert all(sorted(topics) == sorted({f"r/{number}" for number in range(200)}) for topics in found)


def test_who_waits_longest_is_sent_retained_messages_next() -> None:
    world = world_of_turns(0.1)
    world.connect("w").send(*(Publish(f"r/{number}", b"x", retain=True) for number in range(200)))
    greedy, modest = world.connect("greedy"), world.connect("modest")
    request = encode(Subscribe(1, (Subscription("r/#"),)), V5)
    for client in (greedy, modest):
        client.connection.receive(request, world.now)
    for _ in range(100):
        greedy.connection.receive(request, world.now)  # all over again
        greedy.read()
        world.deferred.pop(0)()
    assert len(read_retained(modest)) == 200
    world.run_deferred()


def test_who_goes_before_its_turn_holds_nobody_up() -> None:
    world = world_of_turns(0.1)
    world.connect("w").send(*(Publish(f"r/{number}", b"x", retain=True) for number in range(200)))
    clients = [world.connect(f"c-{number}") for number in range(3)]
    for client in clients:
        client.connection.receive(encode(Subscribe(1, (Subscription("r/#"),)), V5), world.now)
    for client in clients[:2]:
        client.vanish()
    found = read_retained(clients[2])
    while world.deferred:
        world.deferred.pop(0)()
        found += read_retained(clients[2])
    assert len(found) == 200
    assert world.broker.hub.replaying == 0


def read_retained(client: Client) -> list[str]:
    return [packet.topic for packet in client.read() if isinstance(packet, Publish)]
