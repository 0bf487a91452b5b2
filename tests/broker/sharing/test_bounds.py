"""What members and publishers may make a group keep."""

import gc

from braidmq.broker.sharing.queue import Entry
from braidmq.config.groups import GroupsConfig
from braidmq.wire import (
    Properties,
    Puback,
    Publish,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from tests.broker.world import Client, TickingStopwatch, World

MEMORY_BYTES = 50_000
GROUPS = 20


class NothingToPage:
    """A pager in a broker whose clients are all there."""

    def relieve(self) -> None:
        pass


def crowded() -> tuple[World, Client, Client]:
    """A member of many groups with one filter, which takes one message at a time, and little memory."""
    here = World(inflight_max=1)
    here.broker.groups.configure(GroupsConfig(overflow="refuse"))
    here.broker.hub.queue_memory_bytes_max = MEMORY_BYTES
    member, publisher = here.connect("member"), here.connect("publisher")
    member.subscribe(*(f"$share/crew{number}/jobs" for number in range(GROUPS)), qos=1)
    here.broker.hub.pager = NothingToPage()  # type: ignore[assignment]  # the groups know of none
    return here, member, publisher


def test_a_session_may_be_in_so_many_groups() -> None:
    here = World(groups_per_client_max=2)
    member = here.connect("member")
    wanted = tuple(Subscription(f"$share/crew/{number}", 1) for number in range(3))
    member.send(Subscribe(1, (*wanted, Subscription("plain", 1))))
    assert member.expect(Suback).reasons == (1, 1, ReasonCode.QUOTA_EXCEEDED, 1)
    member.send(Subscribe(2, wanted[:1]))
    assert member.expect(Suback).reasons == (1,)  # it is there already
    member.send(Unsubscribe(3, (wanted[0].filter,)))
    member.read()
    member.send(Subscribe(4, wanted[2:]))
    assert member.expect(Suback).reasons == (1,)


def test_what_waits_in_groups_counts_towards_the_memory_of_the_node() -> None:
    here, member, publisher = crowded()
    hub = here.broker.hub
    reasons = []
    for _ in range(50):
        publisher.send(Publish("jobs", bytes(10), 1, packet_id=1))
        reasons.append(publisher.expect(Puback).reason)
    assert reasons[0] == ReasonCode.SUCCESS
    assert reasons[-1] == ReasonCode.QUOTA_EXCEEDED
    assert MEMORY_BYTES / 2 < hub.queue_memory_bytes < MEMORY_BYTES + GROUPS * 1000
    assert hub.counters.by_name()["dropped_queue_full"] > 0
    here.check()
    taken = 0
    while packets := [packet for packet in member.read() if isinstance(packet, Publish)]:
        taken += len(packets)
        member.send(*(Puback(packet.packet_id) for packet in packets if packet.packet_id is not None))
    assert taken + hub.counters.by_name()["dropped_queue_full"] == 50 * GROUPS
    assert hub.queue_memory_bytes == 0


def test_without_a_disk_a_group_is_full_when_its_memory_is() -> None:
    here = World(inflight_max=1)
    here.broker.groups.configure(GroupsConfig(memory_bytes_max=2_000, overflow="refuse"))
    member, publisher = here.connect("member"), here.connect("publisher")
    member.subscribe("$share/crew/jobs", qos=1)
    for _ in range(20):
        publisher.send(Publish("jobs", bytes(100), 1, packet_id=1))
    reasons = [packet.reason for packet in publisher.read() if isinstance(packet, Puback)]
    assert (reasons[0], reasons[-1]) == (ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED)
    [group] = here.broker.groups
    assert 0 < group.core.queue.size_bytes <= 2_000
    here.check()


def test_what_is_given_up_is_no_longer_charged() -> None:
    here, member, publisher = crowded()
    for _ in range(5):
        publisher.send(Publish("jobs", bytes(10), 1, packet_id=1))
    assert here.broker.hub.queue_memory_bytes > 0
    member.vanish()  # and with its session the groups are gone
    assert len(here.broker.groups) == 0
    assert here.broker.hub.queue_memory_bytes == 0


def test_the_sweep_of_many_groups_is_spread_over_turns() -> None:
    world = World(stopwatch=TickingStopwatch(0.001), work_ms_max=20)
    member = world.connect("member", properties=Properties(session_expiry_s=100))
    member.subscribe(*(f"$share/g{number}/job" for number in range(100)), qos=1)
    member.vanish()
    lasting = Publish("job", b"x", 1, packet_id=1)
    expiring = Publish("job", b"x", 1, packet_id=2, properties=Properties(message_expiry_s=1))
    world.connect("boss").send(lasting, expiring)
    swept = []
    while (before := waiting(world)) > 100:
        world.pass_time(world.broker.timers.next_at_s - world.now)
        swept.append(before - waiting(world))
    assert max(swept) <= 20 / 4 + 1
    assert waiting(world) == 100
    world.check()


def waiting(world: World) -> int:
    return sum(group.core.queue.count for group in world.broker.groups)


def test_what_waits_in_a_group_is_left_out_by_the_garbage_collector() -> None:
    assert not gc.is_tracked(Entry("message", "publisher", b"topic", 1, 100, 1.0, 1))
