"""Routes: whatever was cached before, a topic reaches whom a plain reading of the subscriptions says."""

from hypothesis import given, settings
from hypothesis import strategies as st

from braidmq.topics import matches
from braidmq.wire import Properties, Puback, Publish, Pubrec, Subscribe, Subscription, Unsubscribe
from tests.broker.world import World

TOPICS = ("a", "a/b", "a/b/c", "b", "a//c", "$s", "$s/a")
FILTERS = ("a", "a/b", "#", "+", "a/#", "+/b", "a/+/c", "$s/#", "$s", "b", "+/+/c")

steps = st.lists(
    st.tuples(st.sampled_from(("on", "off", "ask")), st.integers(0, 2), st.sampled_from(FILTERS)), max_size=25
)


@settings(deadline=None)
@given(steps)
def test_cache_never_shows(actions: list[tuple[str, int, str]]) -> None:
    world = World()
    clients = [world.connect(f"c{number}") for number in range(3)]
    wanted: list[set[str]] = [set(), set(), set()]
    for action, who, filter in actions:
        if action == "on":
            clients[who].send(Subscribe(1, (Subscription(filter),)))
            wanted[who].add(filter)
        elif action == "off":
            clients[who].send(Unsubscribe(1, (filter,)))
            wanted[who].discard(filter)
        for topic in TOPICS:
            expected = {f"c{number}" for number in range(3) if any(matches(f, topic) for f in wanted[number])}
            assert {session.client_id for session in world.broker.router.matches(topic.encode())} == expected
    for number in range(3):
        clients[number].send(Unsubscribe(1, FILTERS))
    assert len(world.broker.router.trie) == 0


def test_overlapping_subscriptions_give_one_copy_with_all_identifiers() -> None:
    world = World()
    client = world.connect("c")
    for identifier, (filter, qos) in enumerate((("a/#", 0), ("a/+", 2), ("a/b", 1)), 1):
        properties = Properties(subscription_identifiers=(identifier,))
        client.send(Subscribe(1, (Subscription(filter, qos),), properties))
    client.read()
    world.connect("p").send(Publish("a/b", b"", 2, packet_id=1))
    packet = client.expect(Publish)
    assert packet.qos == 2
    assert sorted(packet.properties.subscription_identifiers) == [1, 2, 3]


def test_no_local_spares_only_its_own_subscription() -> None:
    world = World()
    client = world.connect("c")
    client.send(
        Subscribe(
            1, (Subscription("a", 2, no_local=True),), Properties(subscription_identifiers=(1,))
        )
    )
    client.read()
    client.send(Publish("a", b"own"))
    assert client.payloads() == []
    client.send(Subscribe(2, (Subscription("+", 0),), Properties(subscription_identifiers=(2,))))
    client.read()
    client.send(Publish("a", b"own", 1, packet_id=1))
    publishes = [packet for packet in client.read() if isinstance(packet, Publish)]
    assert [(p.qos, p.properties.subscription_identifiers) for p in publishes] == [(0, (2,))]


def test_group_members_take_turns() -> None:
    world = World()
    members = [world.connect(f"m{number}") for number in range(3)]
    for member in members:
        member.subscribe("$share/g/t")
    publisher = world.connect("p")
    publisher.send(*(Publish("t", str(number).encode(), 1, packet_id=1) for number in range(9)))
    assert sorted(len(member.payloads()) for member in members) == [3, 3, 3]


def test_group_prefers_members_that_are_there_and_have_room() -> None:
    world = World(inflight_max=1)
    lasting = Properties(session_expiry_s=1000)
    away = world.connect("away", properties=lasting)
    busy = world.connect("busy", properties=lasting)
    free = world.connect("free", properties=lasting)
    for member in (away, busy, free):
        member.subscribe("$share/g/t", qos=1)
    busy.subscribe("busy", qos=1)
    world.connect("p0").send(Publish("busy", b"", 1, packet_id=1))
    away.vanish()
    publisher = world.connect("p")
    for number in range(3):
        publisher.send(Publish("t", str(number).encode(), 1, packet_id=1))
        packet = free.expect(Publish)
        free.send(Puback(packet.packet_id))
    assert world.broker.sessions["away"].queued == 0


def test_what_a_group_member_leaves_behind_goes_to_the_others() -> None:
    world = World(inflight_max=2)
    leaver = world.connect("leaver")
    leaver.subscribe("$share/g/t", qos=1)
    publisher = world.connect("p")
    publisher.send(*(Publish("t", str(number).encode(), 1, packet_id=1) for number in range(4)))
    heir = world.connect("heir")
    heir.send(Subscribe(1, (Subscription("$share/g/t", 1),)))
    assert leaver.payloads() == [b"0", b"1"]
    leaver.vanish()
    received = []
    while packets := [packet for packet in heir.read() if isinstance(packet, Publish)]:
        received += [packet.payload for packet in packets]
        heir.send(*(Puback(packet.packet_id) for packet in packets))
    assert received == [b"2", b"3", b"0", b"1"]  # what waited in the group, then what the other left


def test_qos2_begun_with_a_member_is_given_to_nobody_else() -> None:
    world = World()
    leaver = world.connect("leaver")
    leaver.subscribe("$share/g/t", qos=2)
    world.connect("p").send(Publish("t", b"once", 2, packet_id=1))
    heir = world.connect("heir")
    heir.subscribe("$share/g/t", qos=2)
    leaver.vanish()
    assert heir.payloads() == []
    assert world.broker.hub.counters.by_name()["dropped_session_ended"] == 1


def test_routes_of_unique_topics_leave_nothing_behind() -> None:
    world = World()
    requester = world.connect("requester")
    responder = world.connect("responder")
    for number in range(200):
        requester.subscribe(f"reply/{number}")
        responder.send(Publish(f"reply/{number}", b"done"))
        requester.send(Unsubscribe(2, (f"reply/{number}",)))
        requester.read()
    assert len(world.broker.router.fanouts) <= 1


def test_no_local_counts_when_room_is_asked_for() -> None:
    """A full session that a QoS 2 message isn't for doesn't stop it, and one that it is for in part does."""
    for also_plainly, reason in ((False, 0), (True, 0x97)):
        world = World(queue_messages_max=1, inflight_max=1, overflow="refuse")
        client = world.connect("c")
        client.subscribe(Subscription("t", 2, no_local=True))
        if also_plainly:
            client.subscribe(Subscription("+", 1))
        other = world.connect("p")
        other.send(*(Publish("t", b"", 1, packet_id=number) for number in (1, 2)))
        client.read()
        witness = world.connect("witness")
        witness.subscribe("t")
        client.send(Publish("t", b"own", 2, packet_id=9))
        assert len(witness.payloads()) == (0 if reason else 1)
        answers = [packet for packet in client.read() if isinstance(packet, Pubrec)]
        assert [answer.reason & 0x80 for answer in answers] == [reason & 0x80], also_plainly


class Interest:
    def __init__(self) -> None:
        self.told: list[tuple[str, bytes]] = []

    def appeared(self, filter: bytes) -> None:
        self.told.append(("appeared", filter))

    def vanished(self, filter: bytes) -> None:
        self.told.append(("vanished", filter))


def test_listener_hears_of_the_first_and_the_last_plain_subscription() -> None:
    world = World()
    one, two = world.connect("one"), world.connect("two")
    one.subscribe("before")
    interest = Interest()
    world.broker.router.listen(interest)
    for client in (one, two):
        client.subscribe("a/#", "$share/g/b")
        client.subscribe("a/#")
    one.send(Unsubscribe(2, ("a/#", "$share/g/b")))
    one.send(Unsubscribe(3, ("a/#",)))
    assert interest.told == [("appeared", b"before"), ("appeared", b"a/#")]
    two.vanish()  # ends its session
    assert interest.told[2:] == [("vanished", b"a/#")]


def test_long_topics_leave_no_large_cache() -> None:
    world = World(route_cache_max=100)
    client = world.connect("c")
    client.send(*(Publish(f"{number}{'x' * 4_000}", b"") for number in range(90)))
    assert sum(map(len, world.broker.router.routes)) < 100 * 256 + 5_000
