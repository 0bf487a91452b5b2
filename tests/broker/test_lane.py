"""The fast lane behaves like the general way: same input, same output, byte for byte."""

from hypothesis import given
from hypothesis import strategies as st

from braidmq.wire import V5, V311, Connect, Properties, Publish, Subscribe, Subscription, encode
from tests.broker.world import Client, World

TOPICS = ("a", "a/b", "a/b/c", "x", "$x/y")
FILTERS = ("a", "a/+", "#", "a/#", "+/b", "$x/#")
SHARED_FILTERS = ("$share/g/a/#", "$share/g/#")


def subscriptions(
    filters: tuple[str, ...], no_local: st.SearchStrategy[bool]
) -> st.SearchStrategy[Subscription]:
    return st.builds(Subscription, st.sampled_from(filters), st.integers(0, 2), no_local, st.booleans())


# The copies that one session gets by different ways come in no order among each other, so a session of the
# test has either plain subscriptions (which give one copy in all) or one shared one.
wishes = st.one_of(
    st.lists(st.tuples(subscriptions(FILTERS, st.booleans()), st.sampled_from((0, 7, 300))), max_size=3),
    st.lists(
        st.tuples(subscriptions(SHARED_FILTERS, st.just(False)), st.sampled_from((0, 7, 300))),
        min_size=1,
        max_size=1,
    ),
)


@st.composite
def subscribers(draw: st.DrawFn) -> tuple[int, Properties, list[tuple[Subscription, int]]]:
    version = draw(st.sampled_from((V311, V5)))
    properties = Properties()
    if version == V5:
        properties = Properties(
            topic_alias_maximum=draw(st.sampled_from((None, 2))),
            maximum_packet_size_bytes=draw(st.sampled_from((None, 60))),
        )
    return version, properties, draw(wishes)


publishes = st.builds(
    lambda topic, size, qos, retain, packet_id, expiry: Publish(
        topic,
        b"p" * size,
        qos,
        retain,
        packet_id=packet_id if qos else 0,
        properties=Properties(message_expiry_s=expiry),
    ),
    st.sampled_from(TOPICS),
    st.sampled_from((0, 1, 20, 118, 130)),
    st.sampled_from((0, 0, 0, 0, 0, 1, 2)),
    st.sampled_from((False, False, False, True)),
    st.integers(1, 3),
    st.sampled_from((None, None, None, 10)),
)


def play(
    *,
    fast: bool,
    others: list[tuple[int, Properties, list[tuple[Subscription, int]]]],
    version: int,
    sent: list[Publish],
    chunk: int,
) -> tuple[list[bytes], dict[str, int]]:
    world = World()
    clients: list[Client] = []
    for number, (their_version, properties, wanted) in enumerate(others):
        client = world.connect(f"c{number}", their_version, properties=properties)
        for packet_id, (subscription, identifier) in enumerate(wanted, 1):
            identifiers = (identifier,) if identifier and their_version == V5 else ()
            if their_version != V5:
                subscription = Subscription(subscription.filter, subscription.qos)
            properties = Properties(subscription_identifiers=identifiers)
            client.send(Subscribe(packet_id, (subscription,), properties))
        clients.append(client)
    publisher = clients[0] if others and others[0][0] == version else world.connect("publisher", version)
    publisher.connection.takes_fast_lane = fast
    data = b"".join(encode(packet, version) for packet in sent)
    for start in range(0, len(data), chunk):
        publisher.send_bytes(data[start : start + chunk])
    world.check()
    return [client.read_bytes() for client in (*clients, publisher)], world.broker.hub.counters.by_name()


@given(
    others=st.lists(subscribers(), max_size=4),
    version=st.sampled_from((V311, V5)),
    sent=st.lists(publishes, max_size=30),
    chunk=st.sampled_from((1, 7, 64, 100_000)),
)
def test_fast_lane_and_general_way_agree(
    others: list[tuple[int, Properties, list[tuple[Subscription, int]]]],
    version: int,
    sent: list[Publish],
    chunk: int,
) -> None:
    fast = play(fast=True, others=others, version=version, sent=sent, chunk=chunk)
    general = play(fast=False, others=others, version=version, sent=sent, chunk=100_000)
    assert fast == general


@st.composite
def crowds(draw: st.DrawFn) -> list[tuple[int, Properties, list[tuple[Subscription, int]]]]:
    """Members of one group who speak different versions, and plain subscribers of both beside them."""
    mixed = [(version, draw(st.sampled_from((0, 0, 7)))) for version in (V311, V5, V5, V311)]
    shared = Subscription("$share/g/#", 0)
    plain = Subscription(draw(st.sampled_from(("#", "a/#"))), 0)
    crowd = [(version, Properties(), [(shared, identifier)]) for version, identifier in mixed]
    crowd += [(version, Properties(), [(plain, 0)]) for version in (V5, V311)]
    return draw(st.permutations(crowd))


@given(
    crowd=crowds(),
    version=st.sampled_from((V311, V5)),
    sent=st.lists(publishes, min_size=2, max_size=20),
    chunk=st.sampled_from((64, 100_000)),
)
def test_fast_lane_agrees_about_groups_of_mixed_versions(
    crowd: list[tuple[int, Properties, list[tuple[Subscription, int]]]],
    version: int,
    sent: list[Publish],
    chunk: int,
) -> None:
    fast = play(fast=True, others=crowd, version=version, sent=sent, chunk=chunk)
    general = play(fast=False, others=crowd, version=version, sent=sent, chunk=100_000)
    assert fast == general


def test_group_of_another_version_gets_each_message_once() -> None:
    world = World()
    members = [world.connect(f"m{number}", V5) for number in range(2)]
    for member in members:
        member.subscribe("$share/g/t", qos=0)
    plain = world.connect("plain", V5)
    plain.subscribe("t", qos=0)
    publisher = world.connect("p", V311)
    publisher.send(Publish("t", b"first"))  # makes the route known, so that the rest take the fast lane
    for client in (*members, plain):
        client.read()
    publisher.send(*(Publish("t", str(number).encode()) for number in range(6)))
    assert plain.payloads() == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert sorted(payload for member in members for payload in member.payloads()) == [
        b"0", b"1", b"2", b"3", b"4", b"5",
    ]  # fmt: skip


def test_run_goes_on_behind_another_packet() -> None:
    world = World()
    subscriber = world.connect("s")
    subscriber.subscribe("t")
    publisher = world.connect("p")
    publish, ping = encode(Publish("t", b"1"), V5), b"\xc0\x00"
    publisher.send_bytes(publish)
    publisher.send_bytes(publish + ping + publish + publish + ping + publish)
    assert subscriber.payloads() == [b"1"] * 5


def test_run_before_a_broken_packet_is_delivered() -> None:
    world = World()
    subscriber = world.connect("s")
    subscriber.subscribe("t")
    publisher = world.connect("p")
    good = encode(Publish("t", b"1"), V5)
    publisher.send_bytes(good + good + good + b"\x00\x00")
    assert publisher.is_closed
    assert subscriber.payloads() == [b"1"] * 3


def test_large_packets_arrive_whole_however_they_are_cut() -> None:
    world = World(packet_bytes_max=1 << 22, output_bytes_max=1 << 24)
    subscriber = world.connect("s")
    subscriber.subscribe("t")
    publisher = world.connect("p")
    payload = bytes(range(256)) * 8000
    data = encode(Publish("t", payload), V5) * 2
    for start in range(0, len(data), 50_001):
        publisher.send_bytes(data[start : start + 50_001])
    assert subscriber.payloads() == [payload, payload]


def test_announced_length_costs_no_memory_before_the_bytes_come() -> None:
    world = World(packet_bytes_max=1 << 27)
    publisher = world.connect("p")
    publisher.send_bytes(b"\x30\xff\xff\xff\x1f" + bytes(20_000))  # says 67 MB, sends 20 kB
    assert len(publisher.connection.receive_buffer()) <= 20_005


def test_input_before_connect_is_bounded() -> None:
    world = World(connect_bytes_max=1024)
    client = world.open()
    client.send_bytes(b"\x10" + b"\xff\x7f" + bytes(100))
    assert client.is_closed


def test_connect_in_single_bytes() -> None:
    world = World()
    client = world.open()
    for byte in encode(Connect("slow"), V5):
        client.send_bytes(bytes([byte]))
    assert client.connection.is_open
