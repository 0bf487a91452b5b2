"""How groups are configured, what they do with what can't be delivered at once, and who may read what."""

from typing import Any, get_args

import msgspec
import pytest

from braidmq.access.rules import Rule
from braidmq.broker.sharing.policies import POLICIES
from braidmq.broker.sharing.registry import plan_of
from braidmq.broker.sharing.settings import GroupSettings
from braidmq.config.groups import GroupOverride, GroupsConfig, PolicyName
from braidmq.errors import ConfigError
from braidmq.wire import Properties, Puback, Publish, Subscribe, Subscription
from tests.access.test_enforcing import EVERYTHING, change, world
from tests.broker.world import Client, World

LASTING = Properties(session_expiry_s=1000)


def waiting(world: World) -> list[bytes]:
    [group] = world.broker.groups
    return [entry.message.payload for entry in group.core.queue]


def publish(client: Client, *payloads: bytes, topic: str = "t", qos: int = 1) -> list[int]:
    reasons = []
    for payload in payloads:
        client.send(Publish(topic, payload, qos, packet_id=1 if qos else 0))
        reasons += [getattr(packet, "reason", 0) for packet in client.read()]
    return reasons


def test_the_configuration_knows_every_policy_and_has_the_groups_own_defaults() -> None:
    assert get_args(PolicyName) == tuple(POLICIES)
    plan = plan_of(GroupsConfig(), "g", b"t")
    assert (plan.policy, plan.settings) == ("adaptive", GroupSettings())


def test_the_most_particular_override_counts() -> None:
    config = GroupsConfig(
        policy="random",
        messages_max=5,
        override={
            "crew": GroupOverride(policy="sticky", messages_max=7),
            "crew/jobs/#": GroupOverride(policy="weighted", options={"weights": {"a": 2.0}}),
            "audit": GroupOverride(keep_qos0=False),
        },
    )
    names = (("crew", b"jobs/#"), ("crew", b"x"), ("audit", b"x"))
    plans = {name: plan_of(config, *name) for name in names}
    assert {
        name: (plan.policy, plan.settings.messages_max, plan.settings.keep_qos0)
        for name, plan in plans.items()
    } == {
        ("crew", b"jobs/#"): ("weighted", 7, True),
        ("crew", b"x"): ("sticky", 7, True),
        ("audit", b"x"): ("random", 5, False),
    }


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"policy": "adaptive", "options": {"window": 0}}, "[groups]"),
        ({"override": {"g": {"policy": "sticky", "options": {"window": 2}}}}, '[groups.override."g"]'),
    ],
)
def test_doubtful_options_are_refused_and_nothing_changes(config: dict[str, Any], named: str) -> None:
    here = World()
    here.connect("m").subscribe("$share/g/t", qos=1)
    before = here.broker.groups.config
    with pytest.raises(ConfigError, match=r"options of policy") as error:
        here.broker.groups.configure(msgspec.convert(config, GroupsConfig))
    assert str(error.value).startswith(named)
    assert here.broker.groups.config is before


def test_a_full_group_refuses_and_the_publisher_is_told() -> None:
    here = World()
    here.broker.groups.configure(GroupsConfig(messages_max=2, overflow="refuse"))
    member = here.connect("m", properties=LASTING)
    member.subscribe("$share/g/t", qos=2)
    member.vanish()
    publisher = here.connect("p")
    assert publish(publisher, b"0", b"1", b"2") == [0, 0, 0x97]
    assert publish(publisher, b"3", qos=2) == [0x97]
    assert waiting(here) == [b"0", b"1"]
    assert here.broker.hub.counters.by_name()["dropped_queue_full"] == 2


def test_who_refuses_gives_up_nothing_that_was_promised() -> None:
    here = World()
    here.broker.groups.configure(GroupsConfig(messages_max=4, overflow="refuse"))
    member = here.connect("m", properties=LASTING)
    member.subscribe("$share/g/t", qos=1)
    member.vanish()
    publisher = here.connect("p")
    assert publish(publisher, b"0", b"1", b"2", b"3") == [0, 0, 0, 0]
    here.broker.groups.configure(GroupsConfig(messages_max=2, overflow="refuse"))
    assert publish(publisher, b"4") == [0x97]
    assert waiting(here) == [b"0", b"1", b"2", b"3"]
    here.broker.groups.configure(GroupsConfig(messages_max=2))
    assert waiting(here) == [b"0", b"1"]


def test_new_settings_hold_for_living_groups() -> None:
    here = World()
    member = here.connect("m", properties=LASTING)
    member.subscribe("$share/g/t", qos=1)
    member.vanish()
    publisher = here.connect("p")
    publish(publisher, b"0", b"1", b"2")
    here.broker.groups.configure(GroupsConfig(messages_max=2, overflow="drop_oldest", keep_qos0=False))
    assert waiting(here) == [b"1", b"2"]
    publish(publisher, b"no", qos=0)
    assert here.broker.hub.counters.by_name()["dropped_away"] == 1


def test_messages_expire_while_they_wait() -> None:
    here = World()
    member = here.connect("m", properties=LASTING)
    member.subscribe("$share/g/t", qos=1)
    member.vanish()
    here.connect("p").send(Publish("t", b"x", 1, packet_id=1, properties=Properties(message_expiry_s=3)))
    here.pass_time(10)
    assert waiting(here) == []
    assert here.broker.hub.counters.by_name()["dropped_expired"] == 1


def test_what_waits_for_the_last_member_goes_with_it() -> None:
    here = World()
    member = here.connect("m", properties=Properties(session_expiry_s=10))
    member.subscribe("$share/g/t", qos=1)
    member.vanish()
    publish(here.connect("p"), b"0", b"1")
    here.pass_time(20)
    assert len(here.broker.groups) == 0
    assert len(here.broker.router.trie) == 0
    assert here.broker.hub.counters.by_name()["dropped_group_gone"] == 2


def test_ordinary_subscriptions_come_into_account() -> None:
    here = World(inflight_max=2)
    busy, free = here.connect("busy"), here.connect("free")
    for member in (busy, free):
        member.subscribe("$share/g/t", qos=1)
    busy.subscribe("own", qos=1)
    publisher = here.connect("p")
    publish(publisher, b"own", b"own", b"own", topic="own")
    publish(publisher, b"0", b"1", b"2", b"3")
    assert free.payloads() == [b"0", b"1"]
    assert waiting(here) == [b"2", b"3"]
    packets = [packet for packet in busy.read() if isinstance(packet, Publish)]
    busy.send(*(Puback(packet.packet_id) for packet in packets))
    assert busy.payloads() == [b"own", b"2"]


def test_a_message_that_only_an_absent_member_may_read_holds_nobody_up() -> None:
    here = world(Rule("secret/#", deny=("read",), client="one"), EVERYTHING)
    one, two = here.connect("one"), here.connect("two", properties=LASTING)
    for client in (one, two):
        client.subscribe("$share/g/#", qos=1)
    two.vanish()
    writer = here.connect("writer")
    publish(writer, b"s", topic="secret/x")
    publish(writer, b"o", topic="open")
    assert one.payloads() == [b"o"]
    assert waiting(here) == [b"s"]
    here.check()
    _, packets = here.resume("two", properties=LASTING)
    assert [packet.payload for packet in packets if isinstance(packet, Publish)] == [b"s"]


def test_a_right_that_is_taken_back_moves_what_waits() -> None:
    here = world(EVERYTHING)
    one, two = here.connect("one", properties=LASTING), here.connect("two", properties=LASTING)
    one.subscribe("$share/g/#", qos=1)
    publish(here.connect("writer"), b"under way", topic="secret/x")
    assert one.payloads() == [b"under way"]
    one.vanish()
    two.send(Subscribe(1, (Subscription("$share/g/#", 1),)))
    publish(here.connect("writer"), b"new", topic="secret/x")
    assert two.payloads() == [b"new"]
    change(here, Rule("secret/#", deny=("read",), client="one"), EVERYTHING)
    assert two.payloads() == [b"under way"]
    here.check()


def test_what_nobody_may_read_any_more_is_dropped() -> None:
    here = world(EVERYTHING)
    member = here.connect("m", properties=LASTING)
    member.subscribe("$share/g/#", qos=1)
    member.vanish()
    publish(here.connect("writer"), b"s", topic="secret/x")
    publish(here.connect("writer"), b"o", topic="open")
    change(here, Rule("secret/#", deny=("read",)), EVERYTHING)
    assert waiting(here) == [b"o"]
    assert here.broker.hub.counters.by_name()["dropped_not_authorized"] == 1
    here.check()
