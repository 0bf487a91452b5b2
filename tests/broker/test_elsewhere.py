"""Clients that should go elsewhere are told where, as far as their version of MQTT has words for it."""

import pytest

from braidmq.wire import V5, V311, Connack, Connect, Disconnect, Properties, ReasonCode
from tests.broker.world import World

EAST = "east.example:1883"


def test_a_new_client_is_told_where_to_go_and_welcome_again_later() -> None:
    world = World()
    world.broker.elsewhere = lambda: EAST
    client = world.open()
    client.send(Connect("one"))
    answer = client.expect(Connack)
    assert answer.reason == ReasonCode.USE_ANOTHER_SERVER
    assert answer.properties.server_reference == EAST
    assert answer.properties.reason_string == "this server is being drained"
    world.broker.elsewhere = lambda: None
    world.connect("one")


def test_mqtt_3_hears_that_the_server_is_not_available() -> None:
    world = World()
    world.broker.elsewhere = lambda: ""
    client = world.open(V311)
    client.send(Connect("one", version=V311))
    assert client.expect(Connack).reason == ReasonCode.SERVER_UNAVAILABLE


@pytest.mark.parametrize(("bytes_max", "is_told"), [(None, True), (60, True), (20, False)])
def test_who_is_sent_away_is_told_where_to_if_it_fits(bytes_max: int | None, is_told: bool) -> None:
    world = World()
    client = world.connect("one", version=V5, properties=Properties(maximum_packet_size_bytes=bytes_max))
    client.connection.end(ReasonCode.USE_ANOTHER_SERVER, "to somebody with less to do" * 3, EAST)
    answer = client.expect(Disconnect)
    assert answer.reason == ReasonCode.USE_ANOTHER_SERVER
    assert answer.properties.server_reference == (EAST if is_told else None)
    assert (answer.properties.reason_string is not None) == (bytes_max is None)
