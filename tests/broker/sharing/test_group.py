"""SharedGroup: what waits, who gets it, and what becomes of it when members go."""

from random import Random

import pytest

from braidmq.broker.sharing.effects import (
    DROP_EXPIRED,
    DROP_GROUP_GONE,
    DROP_NOBODY_ONLINE,
    DROP_NOT_SENDABLE,
    DROP_QUEUE_FULL,
    DROP_REJECTED,
    DROP_SESSION_ENDED,
    DropMessage,
    Effect,
    KeepMessage,
    WithdrawMessage,
)
from braidmq.broker.sharing.group import SharedGroup
from braidmq.broker.sharing.member import Delivery, Member
from braidmq.broker.sharing.policies import POLICIES, make_policy
from braidmq.broker.sharing.settings import GroupSettings
from braidmq.wire.status import StatusReport


def group_of(
    policy: str = "least_inflight", names: str = "ab", *, receive_max: int = 2, **settings: object
) -> tuple[SharedGroup, list[Member]]:
    group = SharedGroup(make_policy(policy, Random(1)), GroupSettings(**settings))  # type: ignore[arg-type]
    members = [Member(name, 0.0, receive_max=receive_max) for name in names]
    for member in members:
        group.subscribed(member, 0.0)
    return group, members


def publish(
    group: SharedGroup, message: str, now: float = 1.0, qos: int = 1, publisher: str = "p", topic: str = "t",
    expires_at_s: float = float("inf"),
) -> list[Effect]:  # fmt: skip
    return group.published(message, now, qos, publisher, topic, 10, expires_at_s)


def sent(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(effect.member.name, effect.message) for effect in effects if isinstance(effect, Delivery)]


def dropped(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(effect.message, effect.reason) for effect in effects if isinstance(effect, DropMessage)]


def delivery_of(effects: list[Effect], message: str) -> Delivery:
    return next(e for e in effects if isinstance(e, Delivery) and e.message == message)


def delivery(group: SharedGroup, member: Member, token: int) -> Delivery:
    return next(delivery for delivery in group.deliveries(member) if delivery.token == token)


def tokens(group: SharedGroup, member: Member) -> list[int]:
    return [delivery.token for delivery in group.deliveries(member)]


# -- waiting ---------------------------------------------------------------------------------------------


def test_a_message_waits_in_the_group_while_nobody_has_room_and_goes_to_who_is_free_first() -> None:
    group, (first, second) = group_of()
    effects = [effect for index in range(4) for effect in publish(group, f"m{index}")]
    assert len(sent(effects)) == 4
    [kept] = publish(group, "late")
    assert isinstance(kept, KeepMessage)
    assert [entry.message for entry in group.queue] == ["late"]
    given = delivery_of(effects, next(message for name, message in sent(effects) if name == "b"))
    assert sent(group.acknowledged(given, 2.0)) == [("b", "late")]
    assert first.inflight == second.inflight == 2


def test_offline_members_get_nothing_while_another_is_online() -> None:
    group, (first, second) = group_of("round_robin", receive_max=100)
    group.disconnected(first, 1.0)
    assert {name for index in range(10) for name, _ in sent(publish(group, f"m{index}"))} == {second.name}


def test_when_all_are_offline_the_backlog_waits_and_goes_to_whoever_returns() -> None:
    group, (first, second) = group_of("round_robin", receive_max=100)
    for member in (first, second):
        group.disconnected(member, 1.0)
    for index in range(6):
        assert sent(publish(group, f"m{index}", qos=index % 3)) == []
    second.connected(2.0)
    assert sent(group.reconnected(second, 2.0)) == [("b", f"m{index}") for index in range(6)]


def test_qos_0_may_be_configured_not_to_wait_for_anybody_to_come_online() -> None:
    group, (first, second) = group_of(keep_qos0=False)
    for member in (first, second):
        group.disconnected(member, 1.0)
    assert dropped(publish(group, "m", qos=0)) == [("m", DROP_NOBODY_ONLINE)]
    assert dropped(publish(group, "m", qos=1)) == []


def test_a_qos_0_subscriber_gets_qos_0_which_needs_no_room() -> None:
    group = SharedGroup(make_policy("round_robin", Random(1)))
    member = Member("a", 0.0, receive_max=1)
    group.subscribed(member, 0.0, qos=0)
    for index in range(3):
        [effect] = publish(group, f"m{index}", qos=2)
        assert isinstance(effect, Delivery)
        assert (effect.qos, effect.token) == (0, 0)
    assert member.inflight == 0


@pytest.mark.parametrize(
    ("overflow", "expected"),
    [
        ("drop_new", [("m6", DROP_QUEUE_FULL)]),
        ("refuse", [("m6", DROP_QUEUE_FULL)]),
        ("drop_oldest", [("m4", DROP_QUEUE_FULL)]),
    ],
)
def test_a_full_queue_gives_way_as_configured(overflow: str, expected: list[tuple[str, str]]) -> None:
    group, _ = group_of(messages_max=2, overflow=overflow)
    effects = [effect for index in range(7) for effect in publish(group, f"m{index}")]
    assert dropped(effects) == expected
    kept = [effect.message for effect in effects if isinstance(effect, KeepMessage)]
    assert ("m6" in kept) == (overflow == "drop_oldest")
    assert len(group.queue) == 2


def test_bytes_are_bounded_too() -> None:
    group, _ = group_of(bytes_max=25)
    effects = [effect for index in range(8) for effect in publish(group, f"m{index}")]
    assert [message for message, _ in dropped(effects)] == ["m6", "m7"]
    assert group.queue.size_bytes == 20


def test_what_stood_behind_a_dropped_message_is_looked_at_though_others_wait_behind_the_lanes() -> None:
    group, members = group_of(messages_max=3, memory_bytes_max=20, overflow="drop_oldest")
    group.queue.is_pageable = True
    for member in members:
        group.disconnected(member, 1.0)
    publish(group, "first")
    publish(group, "short", expires_at_s=2.0)
    publish(group, "third")
    assert group.queue.behind_count == 1
    assert dropped(publish(group, "last", now=3.0)) == [("first", DROP_QUEUE_FULL), ("short", DROP_EXPIRED)]
    assert [entry.message for entry in group.queue] == ["third", "last"]
    group.check()


def test_overflow_can_push_to_who_is_expected_to_be_done_first() -> None:
    group, members = group_of("adaptive", receive_max=100, messages_max=3, overflow="push")
    for member in members:
        member.acks_when_processed = True
    effects = [effect for index in range(2) for effect in publish(group, f"warm{index}")]
    for effect in effects:
        assert isinstance(effect, Delivery)
        group.acknowledged(effect, 1.05)
    more = [effect for index in range(40) for effect in publish(group, f"m{index}", 1.1)]
    assert dropped(more) == []
    assert len(sent(more)) == 37


def test_messages_expire_while_they_wait() -> None:
    group, (first, second) = group_of()
    for index in range(4):
        publish(group, f"m{index}")
    publish(group, "short", expires_at_s=2.0)
    publish(group, "long", expires_at_s=9.0)
    publish(group, "short too", expires_at_s=3.0)
    effects = group.acknowledged(group.deliveries(first)[0], 2.5)
    assert (dropped(effects), sent(effects)) == ([("short", DROP_EXPIRED)], [("a", "long")])
    assert dropped(group.swept(3.5)) == [("short too", DROP_EXPIRED)]
    assert dropped(publish(group, "dead", 5.0, expires_at_s=4.0)) == [("dead", DROP_EXPIRED)]
    assert second.inflight == 2


def test_time_alone_can_free_a_message_and_the_group_says_when() -> None:
    group, (quick, slow) = group_of("adaptive", receive_max=100)
    for member, work_s in ((quick, 0.01), (slow, 0.5)):
        member.acks_when_processed = True
        done = Delivery(member)
        member.sent(0.0, done)
        member.acked(work_s, done)
    for index in range(3):
        publish(group, f"m{index}")
    now = 1.0
    assert len(group.queue) == 1
    while len(group.queue):
        assert now < group.wake_at_s < now + 1
        now = group.wake_at_s
        effects = group.woken(now)
    assert sent(effects) == [("b", "m2")]


# -- members that go -------------------------------------------------------------------------------------


def test_what_a_session_leaves_unacknowledged_goes_back_to_the_front_in_order() -> None:
    group, (first, second) = group_of()
    for index in range(8):
        publish(group, f"m{index}")  # m0 m2 to a, m1 m3 to b, the rest waits
    assert sent(group.ended(first, 2.0)) == []
    assert [entry.message for entry in group.queue] == ["m0", "m2", "m4", "m5", "m6", "m7"]
    group.disconnected(second, 3.0)
    late = Member("late", 4.0, receive_max=100)
    group.subscribed(late, 4.0)
    group.ended(second, 5.0)
    assert [message for _, message in sent(group.pumped(5.0))] == []
    assert late.inflight == 8


def test_sessions_that_end_one_after_the_other_leave_one_order() -> None:
    group, (first, second) = group_of()
    for index in range(6):
        publish(group, f"m{index}")
    group.subscribed(Member("c", 1.0, receive_max=0), 1.0)
    group.ended(first, 2.0)
    group.ended(second, 2.0)
    assert [entry.message for entry in group.queue] == [f"m{index}" for index in range(6)]


def test_a_disconnected_session_keeps_its_qos_1_messages_until_it_ends() -> None:
    group, (first, second) = group_of("round_robin", receive_max=10)
    publish(group, "m0")
    assert group.disconnected(first, 2.0) == []
    first.connected(3.0)
    assert group.reconnected(first, 3.0) == []  # the session sends it again
    assert (tokens(group, first), first.inflight, first.sent_total) == ([1], 1, 1)
    group.disconnected(first, 4.0)
    assert sent(group.ended(first, 5.0)) == [("b", "m0")]
    assert second.inflight == 1


def test_they_can_be_configured_to_move_at_the_disconnect() -> None:
    group, (first, _second) = group_of("round_robin", receive_max=10, requeue="disconnect")
    publish(group, "m0")
    publish(group, "m1")
    publish(group, "m2", qos=2)
    lost = delivery(group, first, 1)
    effects = group.disconnected(first, 2.0)
    assert [effect.delivery.token for effect in effects if isinstance(effect, WithdrawMessage)] == [1]
    assert sent(effects) == [("b", "m0")]
    assert tokens(group, first) == [2]  # QoS 2 stays
    assert group.acknowledged(lost, 3.0) == []  # a late PUBACK of what is no longer its


def test_a_qos_2_delivery_that_was_begun_never_moves() -> None:
    group, (first, _second) = group_of("round_robin", receive_max=10)
    publish(group, "begun", qos=2)
    publish(group, "other", qos=2)
    publish(group, "received", qos=2)
    assert group.received(delivery(group, first, 2), 1.5) == []
    group.disconnected(first, 2.0)
    assert tokens(group, first) == [1, 2]  # [MQTT-4.8.2-4]
    effects = group.ended(first, 3.0)
    assert sent(effects) == []  # [MQTT-4.8.2-5]
    assert dropped(effects) == [("begun", DROP_SESSION_ENDED)]


def test_a_negative_acknowledgement_discards() -> None:
    group, (first, second) = group_of("round_robin")
    publish(group, "m0")
    publish(group, "m1", qos=2)
    to_first, to_second = delivery(group, first, 1), delivery(group, second, 1)
    assert dropped(group.acknowledged(to_first, 2.0, 0x87)) == [("m0", DROP_REJECTED)]  # [MQTT-4.8.2-6]
    assert dropped(group.received(to_second, 2.0, 0x83)) == [("m1", DROP_REJECTED)]
    assert (first.inflight, second.inflight, second.releasing) == (0, 0, 0)


def test_unsubscribing_lets_what_was_begun_be_finished() -> None:
    group, (first, second) = group_of("round_robin", receive_max=10)
    publish(group, "m0")
    assert group.unsubscribed(first, 2.0) == []  # [MQTT-3.10.4-3]
    assert tokens(group, first) == [1]
    assert sent(publish(group, "m1") + publish(group, "m2")) == [("b", "m1"), ("b", "m2")]
    group.acknowledged(delivery(group, first, 1), 3.0)
    assert group.place(first) is None
    assert group.members == [second]


def test_the_last_one_to_go_takes_the_backlog_with_it() -> None:
    group, (first, second) = group_of("round_robin", receive_max=1)
    for index in range(4):
        publish(group, f"m{index}")
    group.unsubscribed(first, 2.0)
    assert dropped(group.unsubscribed(second, 2.0)) == [("m2", DROP_GROUP_GONE), ("m3", DROP_GROUP_GONE)]
    assert not group.is_gone
    assert dropped(group.ended(first, 3.0)) == [("m0", DROP_GROUP_GONE)]
    group.acknowledged(delivery(group, second, 1), 3.0)
    assert group.is_gone


def test_what_can_not_be_sent_is_dropped_and_makes_room() -> None:
    group, [member] = group_of("round_robin", names="a", receive_max=1)
    publish(group, "huge")
    publish(group, "small")
    effects = group.refused(delivery(group, member, 1), 2.0)
    assert (dropped(effects), sent(effects)) == ([("huge", DROP_NOT_SENDABLE)], [("a", "small")])


def test_deliveries_that_were_under_way_at_a_restart_are_taken_up() -> None:
    group = SharedGroup(make_policy("round_robin", Random(1)))
    member, other = Member("a", 0.0), Member("b", 0.0)
    group.subscribed(member, 0.0, online=False)
    group.subscribed(other, 0.0, online=False)
    group.restored(member, "m0", 41, 0.0, 1, "p", "t", 10)
    group.restored(member, "m1", 42, 0.0, 2, "p", "t", 10, is_received=True)
    assert (member.inflight, member.releasing, member.take_token()) == (1, 1, 43)
    group.check()
    group.completed(delivery(group, member, 42), 1.0)
    group.ended(member, 2.0)
    assert sent(group.reconnected(other, 3.0)) == [("b", "m0")]


# -- order of keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["hash_topic", "hash_client", "sticky"])
def test_a_key_that_moves_waits_until_its_old_member_has_acknowledged(policy: str) -> None:
    group, (first, second) = group_of(policy, receive_max=100)
    key = {"publisher": "k0", "topic": "k0"}
    [effect] = publish(group, "m0", **key)  # type: ignore[arg-type]
    assert isinstance(effect, Delivery)
    old, new = effect.member, second if effect.member is first else first
    group.unsubscribed(old, 1.5)  # the key goes to the other one, while m0 is still to be acknowledged
    assert [type(e) for e in publish(group, "m1", **key)] == [KeepMessage]  # type: ignore[arg-type]
    other = next(f"k{i}" for i in range(1, 99) if group.policy.owner(f"k{i}", f"k{i}") is new)
    assert sent(publish(group, "other", publisher=other, topic=other)) == [(new.name, "other")]
    assert sent(group.acknowledged(effect, 2.0)) == [(new.name, "m1")]


def test_a_member_without_room_holds_up_its_own_keys_only() -> None:
    group, (first, second) = group_of("hash_topic", receive_max=1)
    topics = {member: [f"t{i}" for i in range(40) if group.policy.owner(None, f"t{i}") is member]
              for member in (first, second)}  # fmt: skip
    busy, free = topics[first], topics[second]
    for topic in busy[:5]:
        publish(group, f"to a {topic}", topic=topic)
    assert len(group.queue) == 4
    assert sent(publish(group, "to b", topic=free[0])) == [("b", "to b")]
    assert sent(group.acknowledged(delivery(group, first, 1), 2.0)) == [("a", f"to a {busy[1]}")]


def test_a_lost_connection_gives_the_keys_to_another_member_in_order() -> None:
    group, members = group_of("hash_client", receive_max=2)
    owner = group.policy.owner("p", None)
    assert owner is not None
    [other] = [member for member in members if member is not owner]
    for index in range(4):
        publish(group, f"m{index}")
    effects = group.disconnected(owner, 2.0)
    assert [effect.delivery.token for effect in effects if isinstance(effect, WithdrawMessage)] == [1, 2]
    assert sent(effects) == [(other.name, "m0"), (other.name, "m1")]
    assert sent(group.acknowledged(delivery(group, other, 1), 3.0)) == [(other.name, "m2")]


# -- the rest --------------------------------------------------------------------------------------------


def test_a_report_can_free_what_waits() -> None:
    group, (first, _second) = group_of("adaptive", receive_max=100)
    assert group.reported(first, StatusReport(0, 0.02, 0, 0), 1.0) == []
    assert first.has_status


@pytest.mark.parametrize("old", POLICIES)
@pytest.mark.parametrize("new", POLICIES)
def test_a_policy_can_be_changed_at_any_time(old: str, new: str) -> None:
    group, members = group_of(old, "abc", receive_max=2)
    effects = []
    for index in range(12):
        effects += publish(group, f"m{index}", 1.0 + index / 100, publisher=f"p{index}", topic=f"t{index}")
    effects += group.policy_changed(make_policy(new, Random(2)), 2.0)
    group.check()
    now = 2.0
    while len(sent(effects)) < 12:
        now += 0.05
        assert now < 9, "messages are stuck"
        for member in members:
            for oldest in group.deliveries(member)[:1]:
                effects += group.acknowledged(oldest, now)
    assert sorted(message for _, message in sent(effects)) == sorted(f"m{index}" for index in range(12))


@pytest.mark.parametrize("name", POLICIES)
def test_the_fast_lane_does_what_the_group_does(name: str) -> None:
    slow, slow_members = group_of(name, "abc")
    fast, _ = group_of(name, "abc")
    for index in range(50):
        now, publisher, topic = 1.0 + index / 100, f"p{index % 5}", f"t{index % 7}"
        [effect] = slow.published(index, now, 0, publisher, topic, 10)
        assert isinstance(effect, Delivery)
        assert fast.has_fast_lane
        member = fast.policy.choose(now, publisher, topic)
        assert member is not None
        fast.policy.sent(member, now)
        assert member.name == effect.member.name
    assert [member.sent_total for member in slow_members] == [m.sent_total for m in fast.policy.members]


def test_a_broker_can_number_deliveries_itself() -> None:
    numbers = iter([500, 501])

    class Numbered(Member):
        def take_token(self) -> int:
            return next(numbers)

    group = SharedGroup(make_policy("round_robin", Random(1)))
    member = Numbered("a", 0.0)
    group.subscribed(member, 0.0)
    assert [delivery_of(publish(group, message), message).token for message in ("m0", "m1")] == [500, 501]
    assert tokens(group, member) == [500, 501]
