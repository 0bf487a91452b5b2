"""$SYS: what is told, when, to whom, and that nobody else can say it."""

from math import exp

import pytest

from braidmq.broker import census
from braidmq.broker.system_topics import PERIOD_S, SystemTopics
from braidmq.wire import (
    V5,
    V311,
    Connack,
    Connect,
    Puback,
    Publish,
    Pubrec,
    Subscribe,
    Subscription,
    Will,
)
from tests.broker.world import Client, World


def told(client: Client) -> dict[str, str]:
    """What the client was sent, by the topic below $SYS/broker."""
    return {
        packet.topic.removeprefix("$SYS/broker/"): packet.payload.decode()
        for packet in client.read()
        if isinstance(packet, Publish)
    }


def told_all(world: World) -> dict[str, str]:
    """What somebody is sent who subscribes now; it has gone again afterwards."""
    reader = world.connect("passing reader")
    reader.send(Subscribe(1, (Subscription("$SYS/#"),)))
    found = told(reader)
    reader.vanish()
    return found


def make_world(**limits: int) -> World:
    world = World(**limits)
    SystemTopics(world.broker, world.now)
    return world


def test_the_numbers_are_the_brokers() -> None:
    world = make_world(queue_messages_max=1)
    away = world.connect("away", V311, clean_start=False)
    away.subscribe("a", qos=1)
    away.vanish()
    writer = world.connect("writer")
    writer.send(*(Publish("a", b"x", 1, packet_id=number) for number in (1, 2)))
    world.pass_time(PERIOD_S)
    found = told_all(world)
    assert found["version"].startswith("braidmq version ")
    assert found["uptime"] == "10 seconds"
    clients = {name: found[f"clients/{name}"] for name in ("connected", "disconnected", "total", "maximum")}
    assert clients == {"connected": "1", "disconnected": "1", "total": "2", "maximum": "1"}
    assert found["subscriptions/count"] == "1"
    assert found["publish/messages/received"] == "2"
    assert found["publish/messages/dropped"] == "1"
    assert int(found["bytes/received"]) > 0
    assert int(found["messages/stored"]) == int(found["retained messages/count"]) + 1
    # Two in ten seconds are twelve a minute; ten seconds are a sixth of the one minute of the average.
    assert float(found["load/publish/received/1min"]) == pytest.approx(12 * (1 - exp(-1 / 6)), abs=0.01)


def test_only_what_has_changed_is_told_again() -> None:
    world = make_world()
    reader = world.connect("reader")
    reader.subscribe("$SYS/broker/+", "$SYS/broker/clients/#", qos=0)
    world.pass_time(PERIOD_S)
    assert told(reader) == {
        "uptime": "10 seconds",
        "clients/connected": "1",
        "clients/active": "1",
        "clients/total": "1",
        "clients/maximum": "1",
    }
    world.pass_time(PERIOD_S)
    assert told(reader) == {"uptime": "20 seconds"}


def test_a_wildcard_alone_does_not_see_them() -> None:
    world = make_world()
    reader = world.connect("reader")
    reader.subscribe("#", "+/broker/uptime")
    world.pass_time(PERIOD_S)
    assert told(reader) == {}


def test_they_take_no_room_from_the_clients_and_are_not_stored() -> None:
    world = make_world(retained_messages_max=1)
    world.connect("writer").send(Publish("a", b"x", retain=True))
    world.pass_time(PERIOD_S)
    assert [topic for topic, _ in world.broker.retained.all()] == [b"a"]
    assert "uptime" in told_all(world)


def test_a_large_broker_is_counted_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "SLICE_SESSIONS", 2)
    world = make_world()
    for number in range(7):
        world.connect(f"c{number}")
    world.pass_time(PERIOD_S)
    assert told_all(world)["clients/connected"] == "0"  # it has begun, and others have their turn
    for _ in range(4):
        world.pass_time(0.01)
    assert told_all(world)["clients/connected"] == "7"


@pytest.mark.parametrize("topic", ["$SYS/broker/uptime", "$SYS/else"])
def test_a_client_can_not_publish_there(topic: str) -> None:
    world = make_world()
    reader = world.connect("reader")
    reader.subscribe("$SYS/#", qos=0)
    reader.read()
    liar = world.connect("liar")
    liar.send(Publish(topic, b"lie", 1, packet_id=1, retain=True))
    assert liar.expect(Puback).reason == 0x87
    liar.send(Publish(topic, b"lie", 2, packet_id=2))
    assert liar.expect(Pubrec).reason == 0x87
    liar.send(*(Publish(topic, b"lie"),) * 3)
    assert reader.read() == []
    assert world.broker.hub.counters()["dropped_not_authorized"] == 5
    assert not liar.is_closed


def test_another_topic_with_a_dollar_is_anybodys() -> None:
    world = make_world()
    reader = world.connect("reader")
    reader.subscribe("$SYSTEM/a", "$other/#", qos=0)
    world.connect("writer").send(*(Publish(topic, b"x") for topic in ("$SYSTEM/a", "$other/b") * 2))
    assert reader.payloads() == [b"x"] * 4


def test_a_will_can_not_be_left_there() -> None:
    client = make_world().open(V5)
    client.send(Connect("liar", will=Will("$SYS/broker/uptime", b"lie")))
    assert client.expect(Connack).reason == 0x87
