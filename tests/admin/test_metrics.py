"""The metrics: every number is there, and is the broker's."""

from prometheus_client.parser import text_string_to_metric_families

from braidmq.broker.counters import DROP_NAMES
from braidmq.wire import V311, Publish
from tests.admin.operator import operator
from tests.broker.world import World


async def numbers(world: World) -> dict[str, float]:
    answer = await operator(world).get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    samples = [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]
    return {":".join([s.name, *s.labels.values()]): s.value for s in samples}


async def test_the_numbers_are_those_of_the_broker() -> None:
    world = World(queue_messages_max=2)
    away = world.connect("away", V311, clean_start=False)
    away.subscribe("a", "b", qos=1)
    away.vanish()
    writer = world.connect("writer")
    writer.send(*(Publish("a", b"12345", 1, packet_id=number) for number in range(1, 5)))
    writer.send(Publish("kept", b"x", retain=True))
    found = await numbers(world)
    assert found["braidmq_publishes_received_total"] == 5
    assert found["braidmq_messages_dropped_total:queue_full"] == 2
    assert found["braidmq_queued_messages"] == 2
    assert found["braidmq_queued_bytes"] == world.broker.sessions["away"].queue_bytes > 10
    assert (found["braidmq_sessions"], found["braidmq_clients_connected"]) == (2, 1)
    assert found["braidmq_connections"] == 1
    assert found["braidmq_subscriptions"] == 2
    assert found["braidmq_retained_messages"] == 1
    assert found["braidmq_bytes_received_total"] == world.broker.hub.counters.by_name()["bytes_received"] > 0


async def test_every_reason_for_a_drop_is_counted_from_the_start() -> None:
    found = await numbers(World())
    assert {f"braidmq_messages_dropped_total:{name}" for name in DROP_NAMES} <= set(found)


async def test_how_late_the_loop_is_can_be_seen() -> None:
    assert "braidmq_loop_lag_seconds_count" in await numbers(World())


async def test_groups_and_their_members_are_measured() -> None:
    world = World()
    world.connect("m1").subscribe("$share/crew/jobs", qos=1)
    world.connect("boss").send(*(Publish("jobs", b"x", 1, packet_id=number) for number in (1, 2)))
    found = await numbers(world)
    assert found["braidmq_groups"] == 1
    assert found["braidmq_group_waiting_messages:jobs:crew"] == 0
    assert found["braidmq_group_members:jobs:crew"] == 1
    assert found["braidmq_group_member_given_messages:m1:jobs:crew"] == 2
    assert found["braidmq_group_member_in_flight_messages:m1:jobs:crew"] == 2
    assert found["braidmq_status_reports_total:taken"] == 0
