"""$SYS: what is told, when, to whom, and that nobody else can say it."""

import json
from collections.abc import Iterable
from math import exp

import pytest

from braidmq.broker import census
from braidmq.broker.system_topics import PERIOD_S, SystemTopics
from braidmq.wire import (
    V5,
    V311,
    Connack,
    Connect,
    Pingreq,
    Properties,
    Puback,
    Publish,
    Pubrec,
    Subscribe,
    Subscription,
    Will,
    encode,
)
from tests.broker.world import Client, World
from tests.support.broker import UnsupportedError, start_mosquitto
from tests.support.raw import RawClient


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
    SystemTopics(world.broker, world.now, lambda: (1000, 2000))
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


def test_packets_connections_and_ends_are_counted() -> None:
    world = make_world()
    brief = world.connect("brief", properties=Properties(session_expiry_s=1))
    brief.subscribe("$share/crew/a", "$share/crew/b", "c", qos=1)
    writer = world.connect("writer")
    writer.send(Publish("c", b"12345"), Pingreq())
    world.open()  # says nothing
    world.pass_time(PERIOD_S)
    found = told_all(world)
    assert found["shared_subscriptions/count"] == "2"
    assert found["messages/received"] == "5"  # two CONNECT, SUBSCRIBE, PUBLISH, PINGREQ
    assert found["messages/sent"] == "5"
    assert found["publish/bytes/received"] == found["publish/bytes/sent"] == str(len(encode_publish()))
    assert float(found["load/sockets/1min"]) == pytest.approx(3 * 6 * (1 - exp(-1 / 6)), abs=0.01)
    assert float(found["load/connections/1min"]) == pytest.approx(2 * 6 * (1 - exp(-1 / 6)), abs=0.01)
    assert (found["heap/current"], found["heap/maximum"]) == ("1000", "2000")
    brief.vanish()
    world.pass_time(PERIOD_S)
    world.pass_time(PERIOD_S)
    found = told_all(world)
    assert (found["clients/expired"], found["shared_subscriptions/count"]) == ("1", "0")


def encode_publish() -> bytes:
    return encode(Publish("c", b"12345"), V5)


def test_each_drop_reason_and_quota_has_its_topic() -> None:
    world = make_world(queue_messages_max=1, address_connects_per_s_max=2)
    away = world.connect("away", V311, clean_start=False)
    away.subscribe("a", qos=1)
    away.vanish()
    writer = world.connect("writer")
    writer.send(*(Publish("a", b"x", 1, packet_id=number) for number in (1, 2)), Publish("a", b"x"))
    world.open()
    world.pass_time(PERIOD_S)
    found = told_all(world)
    assert found["publish/messages/dropped"] == "2"
    assert found["publish/messages/dropped/queue_full"] == "1"
    assert found["publish/messages/dropped/away"] == "1"
    assert found["quotas/refused addresses"] == "1"


# Whatever Mosquitto 2.0 tells, and its rates over one minute. There is nothing that it tells and we don't.
MOSQUITTO_TOPICS = frozenset(
    {
        "bytes/received",
        "bytes/sent",
        *(f"clients/{what}" for what in ("active", "connected", "disconnected", "expired", "inactive")),
        "clients/maximum",
        "clients/total",
        "heap/current",
        "heap/maximum",
        *(f"load/{what}/received/1min" for what in ("bytes", "messages", "publish")),
        *(f"load/{what}/sent/1min" for what in ("bytes", "messages", "publish")),
        "load/connections/1min",
        "load/publish/dropped/1min",
        "load/sockets/1min",
        *(f"messages/{what}" for what in ("received", "sent", "stored")),
        *(f"publish/bytes/{what}" for what in ("received", "sent")),
        *(f"publish/messages/{what}" for what in ("dropped", "received", "sent")),
        "retained messages/count",
        "shared_subscriptions/count",
        "store/messages/bytes",
        "store/messages/count",
        "subscriptions/count",
        "uptime",
        "version",
    }
)


def per_minute(topics: Iterable[str]) -> frozenset[str]:
    """The topics without the rates over five and fifteen minutes."""
    return frozenset(topic for topic in topics if not topic.endswith(("/5min", "/15min")))


def test_every_topic_of_mosquitto_is_there() -> None:
    world = make_world()
    world.pass_time(PERIOD_S)
    found = told_all(world)
    assert per_minute(found) >= MOSQUITTO_TOPICS
    rates = {topic.removesuffix("/1min") for topic in found if topic.endswith("/1min")}
    assert {f"{name}/{minutes}min" for name in rates for minutes in (5, 15)} <= found.keys()


def test_that_is_what_mosquitto_tells() -> None:
    try:
        mosquitto = start_mosquitto(None, "sys_interval 1")
    except UnsupportedError as error:
        pytest.skip(str(error))
    try:
        client = RawClient(mosquitto.port)
        client.connect("reader")
        client.subscribe("$SYS/#", qos=0)
        found: set[str] = set()
        while not found >= MOSQUITTO_TOPICS:  # the test's timeout ends it
            topic = client.take().topic.removeprefix("$SYS/broker/")
            found |= per_minute([topic])
    finally:
        mosquitto.stop()
    assert found <= MOSQUITTO_TOPICS


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
    assert world.broker.hub.counters.by_name()["dropped_not_authorized"] == 5
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


def test_the_state_of_each_group_is_told_until_it_is_gone() -> None:
    world = make_world()
    member = world.connect("member", properties=Properties(session_expiry_s=100))
    member.subscribe("$share/crew/jobs/#", qos=1)
    world.connect("boss").send(Publish("jobs/1", b"x", 1, packet_id=1))
    world.pass_time(PERIOD_S)
    state = json.loads(told_all(world)["groups/crew/jobs%2F%23"])
    assert (state["policy"], state["member_count"], state["waiting_messages"]) == ("adaptive", 1, 0)
    [shown] = state["members"]
    assert (shown["client_id"], shown["in_flight_messages"], shown["share"]) == ("member", 1, 1.0)
    member.vanish()
    world.connect("boss").send(Publish("jobs/2", b"x", 1, packet_id=1))
    world.pass_time(PERIOD_S)
    found = told_all(world)
    assert (found["groups/count"], found["groups/messages/waiting"]) == ("1", "1")
    world.pass_time(200)
    world.pass_time(PERIOD_S)
    assert "groups/crew/jobs%2F%23" not in told_all(world)
