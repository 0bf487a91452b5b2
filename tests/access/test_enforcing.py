"""Rules at work in a broker, wherever a message passes and whenever they change."""

from braidmq.access.rules import Rule, Rules
from braidmq.broker.access import BuiltInGate
from braidmq.broker.rights import replace_gate
from braidmq.store.records import UNSUBSCRIBED
from braidmq.wire import (
    Disconnect,
    Properties,
    Puback,
    Publish,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Will,
)
from tests.broker.world import SlowStore, World

ALL = ("read", "write", "subscribe")
EVERYTHING = Rule("#", allow=ALL)
DENIED = ReasonCode.NOT_AUTHORIZED
KEPT = Properties(session_expiry_s=1000)


def gate(*rules: Rule) -> BuiltInGate:
    return BuiltInGate(rules=Rules(rules))


def world(*rules: Rule) -> World:
    return World(gate=gate(*rules))


def change(a_world: World, *rules: Rule) -> None:
    replace_gate(a_world.broker, gate(*rules))
    a_world.broker.hub.end_turn()


def drops(a_world: World) -> int:
    return int(a_world.broker.hub.counters.by_name()["dropped_not_authorized"])


def test_a_publish_that_is_not_allowed_goes_to_nobody() -> None:
    here = world(Rule("open/#", allow=ALL), Rule("#", allow=("read", "subscribe")))
    reader, writer = here.connect("reader"), here.connect("writer")
    reader.subscribe("#")
    for topic in ("open/a", "closed", "open/a", "closed"):
        writer.send(Publish(topic, b"0"))
    writer.send(Publish("closed", b"1", qos=1, packet_id=1), Publish("open/b", b"1", qos=1, packet_id=2))
    assert [packet.reason for packet in writer.read()] == [DENIED, 0]
    assert [packet.topic for packet in reader.read() if isinstance(packet, Publish)] == [
        "open/a",
        "open/a",
        "open/b",
    ]


def test_each_filter_is_judged_by_itself() -> None:
    client = world(Rule("a/#", allow=ALL)).connect("c")
    wanted = ("a/b", "b", "$share/g/a/+", "$share/g/b", "#")
    client.send(Subscribe(1, tuple(Subscription(filter, 1) for filter in wanted)))
    assert client.expect(Suback).reasons == (1, DENIED, 1, DENIED, DENIED)


def test_what_may_not_be_read_is_left_out_of_a_wide_subscription() -> None:
    here = world(Rule("secret/#", deny=("read",), client="reader"), EVERYTHING)
    reader, other, writer = here.connect("reader"), here.connect("other"), here.connect("writer")
    for client in (reader, other):
        client.subscribe("#")
    for qos in (0, 1, 2):
        for index, topic in enumerate(("secret/x", "open", "secret/y")):
            writer.send(Publish(topic, b"x", qos=qos, packet_id=qos and 3 * qos + index))
    assert {packet.topic for packet in reader.read()} == {"open"}
    assert len(other.payloads()) == 9


def test_a_shared_group_gives_a_message_to_a_member_who_may_read_it() -> None:
    here = world(Rule("secret/#", deny=("read",), client="one"), EVERYTHING)
    one, two, writer = here.connect("one"), here.connect("two"), here.connect("writer")
    for client in (one, two):
        client.subscribe("$share/g/#")
    for qos in (0, 1):
        for index in range(4):
            writer.send(Publish("secret/x", b"s", qos=qos, packet_id=qos and index + 1))
            writer.send(Publish("open", b"o", qos=qos, packet_id=qos and index + 11))
    first, second = one.payloads(), two.payloads()
    assert set(first) == {b"o"}
    assert sorted(first + second) == [b"o"] * 8 + [b"s"] * 8


def test_work_of_a_member_that_leaves_goes_to_one_who_may_read_it() -> None:
    here = world(Rule("secret/#", deny=("read",), client="one"), EVERYTHING)
    one, two, three = here.connect("one"), here.connect("two"), here.connect("three")
    for client in (one, two, three):
        client.subscribe("$share/g/#")
    here.connect("writer").send(Publish("secret/x", b"s", qos=1, packet_id=1))
    taken = {client: client.payloads() for client in (two, three)}
    [holder] = [client for client, payloads in taken.items() if payloads]
    holder.send(Disconnect())
    [heir] = [client for client in (two, three) if client is not holder]
    assert heir.payloads() == [b"s"]
    assert one.payloads() == []


def test_retained_messages_that_may_not_be_read_are_not_replayed() -> None:
    here = world(Rule("secret/#", deny=("read",), client="reader"), EVERYTHING)
    here.connect("writer").send(Publish("secret/x", b"s", retain=True), Publish("open", b"o", retain=True))
    reader = here.connect("reader")
    reader.send(Subscribe(1, (Subscription("#"),)))
    assert [packet.payload for packet in reader.read() if isinstance(packet, Publish)] == [b"o"]


def test_a_will_is_judged_when_it_is_sent() -> None:
    here = world(EVERYTHING)
    watcher = here.connect("watcher")
    watcher.subscribe("#")
    leavers = [here.connect(f"leaver-{i}", will=Will("last/words", b"bye")) for i in range(2)]
    leavers[0].vanish()
    assert watcher.payloads() == [b"bye"]
    change(here, Rule("last/#", deny=("write",)), EVERYTHING)
    leavers[1].vanish()
    assert watcher.payloads() == []
    assert drops(here) == 1


def test_a_right_that_is_taken_back_ends_a_subscription_at_once() -> None:
    here = world(EVERYTHING)
    reader, writer = here.connect("reader"), here.connect("writer")
    reader.subscribe("a", "b", "$share/g/a")
    writer.send(Publish("a", b"1"), Publish("b", b"1"))
    assert len(reader.payloads()) == 3
    change(here, Rule("a", deny=("subscribe",), client="reader"), EVERYTHING)
    writer.send(Publish("a", b"2"), Publish("b", b"2"))
    assert reader.payloads() == [b"2"]
    assert set(here.broker.sessions["reader"].subscriptions) == {"b"}
    here.check()


def test_a_right_to_read_that_is_taken_back_and_given_again() -> None:
    here = world(EVERYTHING)
    reader, writer = here.connect("reader"), here.connect("writer")
    reader.subscribe("#")
    for rules, expected in (
        ([EVERYTHING], [b"x"]),
        ([Rule("a", deny=("read",)), EVERYTHING], []),
        ([EVERYTHING], [b"x"]),
    ):
        change(here, *rules)
        writer.send(Publish("a", b"x"))
        assert reader.payloads() == expected


def test_a_right_to_write_that_is_taken_back_counts_for_the_next_message() -> None:
    here = world(EVERYTHING)
    writer = here.connect("writer")
    writer.send(Publish("a", b"x", qos=1, packet_id=1))
    assert writer.expect(Puback).reason == ReasonCode.NO_MATCHING_SUBSCRIBERS
    change(here, Rule("b", allow=ALL))
    writer.send(Publish("a", b"x", qos=1, packet_id=1))
    assert writer.expect(Puback).reason == DENIED


def test_a_broker_without_rules_gets_them_and_loses_them() -> None:
    here = World()
    reader, writer = here.connect("reader"), here.connect("writer")
    reader.subscribe("#")
    change(here, Rule("b", allow=("write",)), Rule("#", allow=("read", "subscribe")))
    writer.send(Publish("a", b"no"), Publish("b", b"yes"))
    replace_gate(here.broker, BuiltInGate())
    writer.send(Publish("a", b"again"))
    assert reader.payloads() == [b"yes", b"again"]


def test_what_waits_for_a_client_that_is_away_is_checked_again() -> None:
    store = SlowStore()
    here = World(store, gate(EVERYTHING))
    reader = here.connect("reader", properties=KEPT)
    store.keep_all()
    reader.read()
    reader.send(Subscribe(1, (Subscription("#", 1),)))
    store.keep_all()
    writer = here.connect("writer")
    store.keep_all()
    writer.send(Publish("secret", b"in flight", qos=1, packet_id=1))
    store.keep_all()
    assert reader.payloads() == [b"in flight"]
    reader.vanish()
    for index, topic in enumerate(("secret", "open", "secret")):
        writer.send(Publish(topic, topic.encode(), qos=1, packet_id=index + 2))
    store.keep_all()
    change(here, Rule("secret", deny=("read",), client="reader"), EVERYTHING)
    assert drops(here) == 3
    here.check()
    again = here.connect("reader", clean_start=False, properties=KEPT)
    store.keep_all()
    assert again.payloads() == [b"open"]


def test_a_lost_subscription_is_noted_for_the_store() -> None:
    store = SlowStore()
    here = World(store, gate(EVERYTHING))
    reader = here.connect("reader", properties=KEPT)
    reader.send(Subscribe(1, (Subscription("a/#", 1),)))
    store.keep_all()
    change(here, Rule("b", allow=ALL))
    store.keep_all()
    assert (UNSUBSCRIBED, "reader", "a/#") in store.kept
