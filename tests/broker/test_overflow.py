"""What happens when a session or a shared group is full: to the message, the others, and who published it."""

from braidmq.access.rules import Rules, parse_rules
from braidmq.broker.access import BuiltInGate
from braidmq.broker.events import Dropped
from braidmq.broker.rights import replace_gate
from braidmq.config.groups import GroupOverride, GroupsConfig
from braidmq.wire import V5, V311, Properties, Puback, Pubcomp, Publish, Pubrec, ReasonCode
from tests.broker.test_tracing import Onlooker
from tests.broker.world import Client, World

FOR_EVER = Properties(session_expiry_s=0xFFFFFFFF)
ROOM = 3


def abandoned(world: World, client_id: str = "dashboard") -> None:
    """A session that wants everything, and whose client never comes back."""
    client = world.connect(client_id, properties=FOR_EVER)
    client.subscribe("#")
    client.vanish()


def publish(publisher: Client, *numbers: int, qos: int = 1) -> list[object]:
    publisher.send(*(Publish("t", str(number).encode(), qos, packet_id=number) for number in numbers))
    return list(publisher.read())


def waiting(world: World, client_id: str = "dashboard") -> list[bytes]:
    world.check()
    return [delivery.message.payload for delivery in world.broker.sessions[client_id].queue or ()]


def test_a_full_session_stops_nobody_else() -> None:
    for version in (V5, V311):
        for qos, kind in ((1, Puback), (2, Pubrec)):
            world = World(queue_messages_max=ROOM)
            abandoned(world)
            live = world.connect("live")
            live.subscribe("t")
            publisher = world.connect("sensor", version)
            answers = publish(publisher, 1, 2, 3, 4, 5, qos=qos)
            assert answers == [kind(number) for number in range(1, 6)]
            assert live.payloads() == [b"1", b"2", b"3", b"4", b"5"]
            assert waiting(world) == [b"1", b"2", b"3"]
            assert world.broker.hub.counters.by_name()["dropped_queue_full"] == 2


def test_what_a_full_session_misses_is_told() -> None:
    world = World(queue_messages_max=1)
    abandoned(world)
    onlooker = Onlooker(world, client_id="dashboard")
    publish(world.connect("p"), 1, 2)
    dropped = [event for event in onlooker.events if isinstance(event, Dropped)]
    assert [(event.client_id, event.why) for event in dropped] == [("dashboard", "queue_full")]


def test_the_oldest_makes_room_if_that_is_wanted() -> None:
    world = World(queue_messages_max=ROOM, overflow="drop_oldest")
    abandoned(world)
    assert len(publish(world.connect("p"), *range(1, 8))) == 7
    assert waiting(world) == [b"5", b"6", b"7"]
    assert world.broker.hub.counters.by_name()["dropped_queue_full"] == 4


def test_bytes_make_room_too() -> None:
    world = World(queue_bytes_max=2_000, overflow="drop_oldest")
    abandoned(world)
    publisher = world.connect("p")
    publish(publisher, *range(1, 5))
    publisher.send(Publish("t", bytes(1_500), 1, packet_id=9))
    assert [len(payload) for payload in waiting(world)] == [1, 1_500]


def test_rules_say_it_by_user_or_client() -> None:
    text = """
[[rule]]
client = "archive"
overflow = "refuse"
[[rule]]
overflow = "drop_oldest"
[[rule]]
allow = ["read", "write", "subscribe"]
topic = "#"
"""
    world = World(gate=BuiltInGate(rules=parse_rules(text, "f")), queue_messages_max=ROOM)
    abandoned(world)
    publisher = world.connect("p")
    assert [answer.reason for answer in publish(publisher, *range(1, 8))] == [0] * 7  # type: ignore[attr-defined]
    assert waiting(world) == [b"5", b"6", b"7"]
    abandoned(world, "archive")
    reasons = [answer.reason for answer in publish(publisher, *range(1, 6))]  # type: ignore[attr-defined]
    assert reasons == [0, 0, 0, ReasonCode.QUOTA_EXCEEDED, ReasonCode.QUOTA_EXCEEDED]
    assert waiting(world, "archive") == [b"1", b"2", b"3"]
    replace_gate(world.broker, BuiltInGate())  # a reload without rules: everybody is as the node says
    assert {session.overflow for session in world.broker.sessions.values()} == {"drop_newest"}


def test_no_rule_says_nothing() -> None:
    assert Rules([]).overflow(None, "c") is None


# ---- refuse ------------------------------------------------------------------------------------------


def test_full_queue_is_refused_and_never_acknowledged() -> None:
    world = World(queue_messages_max=2, inflight_max=1, overflow="refuse")
    subscriber = world.connect("s", properties=FOR_EVER)
    subscriber.subscribe("t", qos=1)
    publisher = world.connect("p")
    for qos, kind in ((1, Puback), (1, Puback), (1, Puback)):
        publisher.send(Publish("t", b"kept", qos, packet_id=1))
        assert publisher.expect(kind).reason == ReasonCode.SUCCESS
    publisher.send(Publish("t", b"lost", 1, packet_id=2))
    assert publisher.expect(Puback).reason == ReasonCode.QUOTA_EXCEEDED
    publisher.send(Publish("t", b"lost", 2, packet_id=3))
    assert publisher.expect(Pubrec).reason == ReasonCode.QUOTA_EXCEEDED
    assert world.broker.hub.counters.by_name()["dropped_queue_full"] == 2
    received = []
    for _ in range(3):
        packet = subscriber.expect(Publish)
        received.append(packet.payload)
        subscriber.send(Puback(packet.packet_id))
    assert received == [b"kept"] * 3


def test_mqtt3_publisher_is_cut_off_rather_than_lied_to() -> None:
    world = World(queue_messages_max=1, inflight_max=1, overflow="refuse")
    world.connect("s", properties=FOR_EVER).subscribe("t", qos=1)
    publisher = world.connect("p", V311)
    for packet_id in (1, 2):
        publisher.send(Publish("t", b"", 1, packet_id=packet_id))
        assert publisher.expect(Puback).packet_id == packet_id
    publisher.send(Publish("t", b"", 1, packet_id=3))
    assert publisher.read() == []
    assert publisher.is_closed


def test_qos2_is_given_to_all_or_to_none() -> None:
    world = World(queue_messages_max=1, inflight_max=1, overflow="refuse")
    full = world.connect("full", properties=FOR_EVER)
    full.subscribe("t", qos=2)
    roomy = world.connect("roomy", properties=FOR_EVER)
    roomy.subscribe("t", qos=2)
    publisher = world.connect("p")
    for packet_id in (1, 2):
        publisher.send(Publish("t", b"", 2, packet_id=packet_id))
        assert publisher.expect(Pubrec).reason == ReasonCode.SUCCESS
        for packet in roomy.read():
            if isinstance(packet, Publish):
                roomy.send(Pubrec(packet.packet_id), Pubcomp(packet.packet_id))
        roomy.read()
    assert world.broker.sessions["roomy"].inflight.count <= 1
    before = world.broker.sessions["roomy"].inflight.count
    publisher.send(Publish("t", b"", 2, packet_id=3))
    assert publisher.expect(Pubrec).reason == ReasonCode.QUOTA_EXCEEDED
    assert world.broker.sessions["roomy"].inflight.count == before


# ---- shared groups -----------------------------------------------------------------------------------


def abandoned_group(world: World, filter: str = "#") -> None:
    """A shared group whose only member never comes back."""
    client = world.connect("worker", properties=FOR_EVER)
    client.subscribe(f"$share/crew/{filter}")
    client.vanish()


def left_in_group(world: World) -> list[bytes]:
    world.check()
    [group] = [group for group in world.broker.groups if group.name == "crew"]
    return [entry.message.payload for entry in group.core.queue]


def test_a_full_group_stops_nobody_else() -> None:
    for version in (V5, V311):
        for qos, kind in ((1, Puback), (2, Pubrec)):
            world = World()
            world.broker.groups.configure(GroupsConfig(messages_max=ROOM))
            abandoned_group(world)
            live, other = world.connect("live"), world.connect("other")
            live.subscribe("t")
            other.subscribe("$share/others/t")
            publisher = world.connect("sensor", version)
            answers = publish(publisher, 1, 2, 3, 4, 5, qos=qos)
            assert answers == [kind(number) for number in range(1, 6)]
            assert live.payloads() == other.payloads() == [b"1", b"2", b"3", b"4", b"5"]
            assert left_in_group(world) == [b"1", b"2", b"3"]
            assert world.broker.hub.counters.by_name()["dropped_queue_full"] == 2


def test_what_a_full_group_misses_is_told() -> None:
    world = World()
    world.broker.groups.configure(GroupsConfig(messages_max=1))
    abandoned_group(world)
    onlooker = Onlooker(world, filter="t")
    publish(world.connect("p"), 1, 2)
    dropped = [event for event in onlooker.events if isinstance(event, Dropped)]
    assert [(event.client_id, event.group, event.why) for event in dropped] == [(None, "crew", "queue_full")]


def test_one_group_may_refuse_and_the_others_not() -> None:
    world = World()
    refusing = {"crew": GroupOverride(overflow="refuse")}
    world.broker.groups.configure(GroupsConfig(messages_max=ROOM, override=refusing))
    abandoned_group(world, "t")
    other = world.connect("archive", properties=FOR_EVER)
    other.subscribe("$share/archive/t")
    other.vanish()
    publisher = world.connect("p")
    answers = publish(publisher, *range(1, 6), qos=2)
    reasons = [answer.reason for answer in answers]  # type: ignore[attr-defined]
    assert reasons == [0, 0, 0, ReasonCode.QUOTA_EXCEEDED, ReasonCode.QUOTA_EXCEEDED]
    member, packets = world.resume("worker", properties=FOR_EVER)  # and the group has room again
    assert [packet.payload for packet in packets if isinstance(packet, Publish)] == [b"1", b"2", b"3"]
    assert [answer.reason for answer in publish(publisher, 6, qos=2)] == [0]  # type: ignore[attr-defined]
    assert member.payloads() == [b"6"]
