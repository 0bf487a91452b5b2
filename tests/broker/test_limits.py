"""Limits that only the core can show from inside: what they refuse, and what they never change."""

import pytest

from braidmq.access.rules import parse_rules
from braidmq.access.verdicts import Admitted, Claim
from braidmq.broker.access import BuiltInGate
from braidmq.wire import (
    V5,
    V311,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Will,
)
from tests.broker.world import Client, World


@pytest.mark.parametrize(("asked_s", "told_s"), [(0, 20), (5, 20), (20, None), (600, 20)])
def test_a_keep_alive_that_the_server_imposes_is_told_and_kept(asked_s: int, told_s: int | None) -> None:
    world = World(server_keep_alive_s=20)
    client = world.open(V5)
    client.send(Connect("c", keep_alive_s=asked_s))
    assert client.expect(Connack).properties.server_keep_alive_s == told_s
    world.pass_time(29)
    client.send(Pingreq())
    client.read()
    world.pass_time(29)
    assert not client.is_closed
    world.pass_time(2)
    assert client.expect(Disconnect).reason == 0x8D


def test_a_keep_alive_can_not_be_imposed_on_who_could_not_be_told() -> None:
    world = World(server_keep_alive_s=20)
    client = world.connect("c", V311, keep_alive_s=600)
    world.pass_time(500)
    assert not client.is_closed


@pytest.mark.parametrize(("asked_s", "code"), [(0, 2), (1, 0), (20, 0), (21, 2)])
def test_the_longest_keep_alive_holds_for_mqtt_3_too(asked_s: int, code: int) -> None:
    world = World(keep_alive_s_max=20)
    client = world.open(V311)
    client.send(Connect("c", version=V311, keep_alive_s=asked_s))
    assert client.read_bytes() == bytes((0x20, 2, 0, code))
    assert client.is_closed == (code != 0)


def test_retained_bytes_max_counts_topics_and_payloads() -> None:
    world = World(retained_bytes_max=10)
    client = world.connect("c")

    def retain(topic: str, payload: bytes) -> int:
        client.send(Publish(topic, payload, 1, retain=True, packet_id=1))
        reason: int = client.expect(Puback).reason
        return reason

    taken, refused = 0x10, 0x97  # no subscriber; quota exceeded
    assert retain("a", b"1234") == taken
    assert retain("b", b"1234") == taken
    assert retain("c", b"") == taken  # deletes nothing, and needs no room
    assert retain("c", b"1") == refused
    assert retain("a", b"12345") == refused  # one byte more than before
    assert world.broker.retained.held_bytes == 10
    assert retain("a", b"1") == taken
    assert retain("c", b"12") == taken
    assert retain("b", b"") == taken
    assert world.broker.retained.held_bytes == 5


@pytest.mark.parametrize("cache_max", [1, 2, 1000])
def test_a_small_route_cache_costs_time_and_never_a_message(cache_max: int) -> None:
    world = World(route_cache_max=cache_max)
    reader, writer = world.connect("reader"), world.connect("writer")
    reader.subscribe("t/+/x", "t/1/#", "$share/g/t/2/x", qos=0)
    topics = [f"t/{number % 5}/x" for number in range(50)]
    writer.send(*(Publish(topic, b"%d" % number) for number, topic in enumerate(topics)))
    found = [int(payload) for payload in reader.payloads()]
    twice = [number for number, topic in enumerate(topics) if topic == "t/2/x"]  # by itself and by the group
    assert sorted(found) == sorted([*range(50), *twice])
    reader.subscribe("t/3/x", qos=0)
    writer.send(Publish("t/3/x", b"99"))
    assert reader.payloads() == [b"99"]


def test_who_comes_when_all_seats_are_taken_is_told_and_counted() -> None:
    world = World(connections_max=1)
    world.connect("first")
    late = world.open()
    late.send(Connect("late"))
    assert late.expect(Connack).reason == 0x89
    assert world.broker.refused_connections == 1


def test_connections_that_say_nothing_take_no_seat() -> None:
    world = World(connections_max=1)
    for _ in range(3):
        world.open()
    world.connect("in")


def test_the_oldest_that_is_not_in_yet_gives_way_to_newer_ones() -> None:
    world = World(connecting_max=2)
    world.connect("in")
    silent, slow, quick = world.open(), world.open(), world.open()
    assert (silent.is_closed, slow.is_closed, quick.is_closed) == (True, False, False)
    quick.send(Connect("quick"))
    assert quick.expect(Connack).reason == 0
    assert not world.open().is_closed
    assert not slow.is_closed
    slow.vanish()
    assert len(world.broker.newcomers) == 1
    assert world.broker.newcomers.pushed_out == 1


def test_there_are_no_more_sockets_than_the_system_grants() -> None:
    world = World()
    world.broker.grant_sockets(2)
    first, second = world.connect("first"), world.connect("second")
    late = world.open()
    late.send(Connect("late"))
    world.run_deferred()
    assert late.is_closed
    assert late.read() == []
    assert [first.is_closed, second.is_closed] == [False, False]
    assert world.broker.refused_connections == 1


def test_those_who_say_nothing_do_not_take_all_the_sockets_that_the_system_grants() -> None:
    world = World()
    world.broker.grant_sockets(8)
    for _ in range(20):
        world.open()
    for number in range(8):
        world.connect(f"in-{number}")
    assert len(world.broker.connections) == 8


class Named:
    """Everybody is who they say they are."""

    def judge(self, claim: Claim) -> Admitted:
        return Admitted(claim.username)

    def still_holds(self, admitted: Admitted) -> bool:
        return True


def test_a_user_has_so_many_sessions_and_no_more() -> None:
    world = World(sessions_per_user_max=2, gate=BuiltInGate(authenticators=[Named()]))

    def connect(client_id: str, username: str | None) -> tuple[Client, int]:
        client = world.open()
        lasting = Properties(session_expiry_s=1000)
        client.send(Connect(client_id, username=username, properties=lasting))
        return client, client.expect(Connack).reason

    first, _ = connect("a1", "ada")
    first.vanish()
    assert [connect(name, "ada")[1] for name in ("a2", "a1", "a3")] == [0, 0, 0x97]
    assert connect("b1", "bob")[1] == 0
    assert [connect(f"n{number}", None)[1] for number in range(3)] == [0, 0, 0]
    world.broker.delete_session(world.broker.sessions["a2"])
    assert connect("a3", "ada")[1] == 0


def test_a_topic_beyond_the_limits_is_refused_and_nothing_else() -> None:
    world = World(topic_levels_max=3, topic_bytes_max=20)
    client = world.connect("c")
    refused = ReasonCode.TOPIC_NAME_INVALID
    for topic in ("a/b/c/d", "x" * 21):
        client.send(Publish(topic, b"", 1, packet_id=1), Publish(topic, b"", 2, packet_id=2))
        assert client.read() == [Puback(1, refused), Pubrec(2, refused)]
    aliased = Properties(topic_alias=1)
    client.send(
        Publish("a/b/c/d", b"", 1, packet_id=3, properties=aliased),
        Publish("", b"", 1, packet_id=4, properties=aliased),
        Publish("a/b/c", b"", 1, packet_id=5, properties=aliased),
        Publish("", b"", 1, packet_id=6, properties=aliased),
    )
    nobody = ReasonCode.NO_MATCHING_SUBSCRIBERS
    assert client.read() == [Puback(3, refused), Puback(4, refused), Puback(5, nobody), Puback(6, nobody)]
    assert world.broker.hub.counters.by_name()["dropped_topic_too_long"] == 6


def test_all_wills_together_have_a_bound() -> None:
    will = Will("gone", b"x" * 800)  # with what keeping it costs, a little more than 1,000 bytes
    world = World(wills_bytes_max=10_500)
    lasting = Properties(session_expiry_s=100)
    clients = [world.connect(f"c-{number}", will=will, properties=lasting) for number in range(10)]
    late = world.open()
    late.send(Connect("late", will=will))
    assert late.expect(Connack).reason == 0x97
    assert world.broker.wills.refused == 1
    again = world.connect("c-0", clean_start=False, will=will, properties=lasting)  # its own is replaced
    assert clients[0].is_closed
    for client in (again, *clients[1:5]):
        client.send(Disconnect())
    for client in clients[5:]:
        client.vanish()
    world.pass_time(1000)
    assert world.broker.wills.held_bytes == 0
    world.connect("late", will=will)


def test_the_receive_maximum_counts_what_came_by_this_connection() -> None:
    """A client that has forgotten what it began would else never get in a word again."""
    world = World(receive_maximum=2)
    lasting = Properties(session_expiry_s=1000)
    forgetful = world.connect("c", properties=lasting)
    forgetful.send(Publish("t", b"", 2, packet_id=1), Publish("t", b"", 2, packet_id=2))
    forgetful.vanish()
    client, _ = world.resume("c", properties=lasting)
    client.send(Publish("t", b"", 1, packet_id=3), Publish("t", b"", 2, packet_id=4), Pubrel(1))
    assert [type(packet) for packet in client.read()] == [Puback, Pubrec, Pubcomp]
    client.send(Publish("t", b"", 2, packet_id=5), Publish("t", b"", 2, packet_id=6))
    _, goodbye = client.read()
    assert isinstance(goodbye, Disconnect)
    assert goodbye.reason == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_long_topics_leave_no_large_table_of_rights() -> None:
    rules = parse_rules('[[rule]]\nallow = ["write"]\ntopic = "#"\n', "f")
    world = World(gate=BuiltInGate(rules=rules), topic_bytes_max=60_000)
    client = world.connect("c")
    client.send(*(Publish(f"{number}{'x' * 50_000}", b"") for number in range(20)))
    rights = client.connection.rights
    assert rights is not None
    assert sum(map(len, rights)) < 350_000
