"""Section 3.1: which CONNECT is taken, which is refused, and what its fields and properties do."""

from __future__ import annotations

import string
from typing import Any

import pytest

from braidmq.wire import Connack, Connect, Disconnect, Pingreq, Publish, Will
from tests.conformance.kit import BROKEN, Connector, Dial, Reason, assert_serving
from tests.support import frames
from tests.support.broker import Broker
from tests.support.raw import RawClient, read_frame

NOT_CONNECT = {
    "PUBLISH": frames.publish("a", b"x"),
    "PUBACK": frames.frame(frames.PUBACK, frames.u16(1)),
    "PUBREL": frames.frame(frames.PUBREL, frames.u16(1)),
    "SUBSCRIBE": frames.subscribe(1, ("a", 0)),
    "UNSUBSCRIBE": frames.unsubscribe(1, "a"),
    "PINGREQ": b"\xc0\x00",
    "DISCONNECT": b"\xe0\x00",
    "AUTH": b"\xf0\x00",
    "CONNACK": b"\x20\x03\x00\x00\x00",
}


@pytest.mark.mqtt("MQTT-3.1.0-1", "MQTT-3.14.0-1", "MQTT-3.2.0-1")
@pytest.mark.mqtt311("MQTT-3.1.0-1")
@pytest.mark.parametrize("packet", NOT_CONNECT.values(), ids=NOT_CONNECT.keys())
def test_another_first_packet_closes_without_a_word(broker: Broker, dial: Dial, packet: bytes) -> None:
    client = dial()
    client.send_bytes(packet)
    client.expect_closed()
    assert_serving(broker)


@pytest.mark.mqtt("MQTT-3.1.0-2", "MQTT-3.2.0-2")
@pytest.mark.mqtt311("MQTT-3.1.0-2")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_second_connect_closes(connect: Connector, version: int) -> None:
    client = connect(version=version)
    client.send(Connect(client.client_id, version=version))
    client.expect_disconnect(Reason.PROTOCOL_ERROR)


def expect_version_refused(client: RawClient) -> None:
    """0x84 is MQTT 5's code for it and 0x01 that of the versions before: the newcomer's age is not known."""
    reply = read_frame(client.sock)
    assert reply.first_byte == frames.CONNACK
    assert reply.body[:2] in (b"\x00\x84", b"\x00\x01")
    client.expect_closed()


@pytest.mark.mqtt("MQTT-3.1.2-1", "MQTT-3.14.0-1")
@pytest.mark.parametrize("protocol_name", ["MQTX", "mqtt", "MQTTX", "", "HTTP"])
def test_another_protocol_name_is_refused(dial: Dial, protocol_name: str) -> None:
    client = dial()
    client.send_bytes(frames.connect(frames.blob("a"), protocol_name=protocol_name))
    expect_version_refused(client)


@pytest.mark.mqtt("MQTT-3.1.2-2", "MQTT-3.14.0-1")
@pytest.mark.mqtt311("MQTT-3.1.2-2")
@pytest.mark.parametrize("level", [0, 2, 6, 127])
def test_an_unknown_protocol_level_is_refused_by_its_code(dial: Dial, level: int) -> None:
    client = dial()
    client.send_bytes(frames.connect(frames.blob("a"), level=level))
    expect_version_refused(client)


@pytest.mark.mqtt("MQTT-3.1.2-3", "MQTT-3.1.4-1")
@pytest.mark.mqtt311("MQTT-3.1.2-3", "MQTT-3.1.4-1")
@pytest.mark.parametrize("level", [4, 5])
def test_the_reserved_connect_flag_is_refused(dial: Dial, name: str, level: int) -> None:
    client = dial(level)
    client.send_bytes(frames.connect(frames.blob(name), flags=frames.CLEAN | 1, level=level))
    if level == 5:
        client.expect_refused(*BROKEN)
    else:
        client.expect_closed()


WILL = frames.blob("w") + frames.blob("gone")
BAD_CONNECTS = {
    "will flag without the will": (
        ["MQTT-3.1.2-9"],
        frames.connect(frames.blob("a"), flags=frames.CLEAN | frames.WILL_FLAG),
    ),
    "will topic without payload": (
        ["MQTT-3.1.2-9"],
        frames.connect(frames.blob("a"), b"\x00", frames.blob("w"), flags=frames.CLEAN | frames.WILL_FLAG),
    ),
    "will QoS without will": (["MQTT-3.1.2-11"], frames.connect(frames.blob("a"), flags=frames.CLEAN | 0x08)),
    "will QoS 3": (
        ["MQTT-3.1.2-12"],
        frames.connect(frames.blob("a"), b"\x00", WILL, flags=frames.CLEAN | frames.WILL_FLAG | 0x18),
    ),
    "will retain without will": (
        ["MQTT-3.1.2-13"],
        frames.connect(frames.blob("a"), flags=frames.CLEAN | frames.WILL_RETAIN),
    ),
    "user name without its flag": (["MQTT-3.1.2-16"], frames.connect(frames.blob("a"), frames.blob("u"))),
    "user name missing": (
        ["MQTT-3.1.2-17"],
        frames.connect(frames.blob("a"), flags=frames.CLEAN | frames.USERNAME_FLAG),
    ),
    "password without its flag": (
        ["MQTT-3.1.2-18"],
        frames.connect(
            frames.blob("a"),
            frames.blob("u"),
            frames.blob("p"),
            flags=frames.CLEAN | frames.USERNAME_FLAG,
        ),
    ),
    "password missing": (
        ["MQTT-3.1.2-19"],
        frames.connect(frames.blob("a"), flags=frames.CLEAN | frames.PASSWORD_FLAG),
    ),
    "no client id": (["MQTT-3.1.3-3"], frames.connect()),
    "client id not UTF-8": (["MQTT-3.1.3-4", "MQTT-1.5.4-1"], frames.connect(frames.blob(b"\xff\xfe"))),
    "client id with a null": (["MQTT-3.1.3-4", "MQTT-1.5.4-2"], frames.connect(frames.blob(b"a\x00b"))),
    "will topic not UTF-8": (
        ["MQTT-3.1.3-11"],
        frames.connect(
            frames.blob("a"),
            b"\x00",
            frames.blob(b"\xc3"),
            frames.blob("gone"),
            flags=frames.CLEAN | frames.WILL_FLAG,
        ),
    ),
    "user name not UTF-8": (
        ["MQTT-3.1.3-12"],
        frames.connect(frames.blob("a"), frames.blob(b"\xc3"), flags=frames.CLEAN | frames.USERNAME_FLAG),
    ),
    "cut in the variable header": (
        ["MQTT-3.1.4-1"],
        frames.frame(frames.CONNECT, frames.blob("MQTT"), b"\x05"),
    ),
    "empty": (["MQTT-3.1.4-1"], frames.frame(frames.CONNECT)),
    "receive maximum zero": (
        ["MQTT-3.1.4-1"],
        frames.connect(frames.blob("a"), properties=frames.props(b"\x21\x00\x00")),
    ),
    "maximum packet size zero": (
        ["MQTT-3.1.4-1"],
        frames.connect(frames.blob("a"), properties=frames.props(b"\x27\x00\x00\x00\x00")),
    ),
    "session expiry twice": (
        ["MQTT-3.1.4-1"],
        frames.connect(frames.blob("a"), properties=frames.props(b"\x11\x00\x00\x00\x01" * 2)),
    ),
    "request problem information 2": (
        ["MQTT-3.1.4-1"],
        frames.connect(frames.blob("a"), properties=frames.props(b"\x17\x02")),
    ),
    "authentication data without method": (
        ["MQTT-3.1.4-1"],
        frames.connect(frames.blob("a"), properties=frames.props(b"\x16" + frames.blob("x"))),
    ),
    "a property that isn't for CONNECT": (
        ["MQTT-3.1.4-1"],
        frames.connect(frames.blob("a"), properties=frames.props(b"\x23\x00\x01")),
    ),
    "an unknown property": (
        ["MQTT-3.1.4-1"],
        frames.connect(frames.blob("a"), properties=frames.props(b"\x7e\x00")),
    ),
    "property length beyond the packet": (
        ["MQTT-3.1.4-1"],
        frames.connect(frames.blob("a"), properties=b"\x7f"),
    ),
    "fields in another order": (
        ["MQTT-3.1.3-1"],
        frames.connect(WILL, b"\x00", frames.blob("a"), flags=frames.CLEAN | frames.WILL_FLAG),
    ),
}


@pytest.mark.mqtt("MQTT-3.1.4-1", "MQTT-4.13.1-1", "MQTT-4.13.2-1", "MQTT-3.14.0-1", "MQTT-3.2.2-7")
@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(packet, id=what, marks=pytest.mark.mqtt(*ids))
        for what, (ids, packet) in BAD_CONNECTS.items()
    ],
)
def test_a_broken_connect_is_refused(broker: Broker, dial: Dial, packet: bytes) -> None:
    client = dial()
    client.send_bytes(packet)
    client.expect_refused(*BROKEN, Reason.CLIENT_IDENTIFIER_NOT_VALID, Reason.TOPIC_NAME_INVALID)
    assert_serving(broker)


@pytest.mark.mqtt("MQTT-3.1.4-2", "MQTT-4.12.0-1", "MQTT-3.2.2-6", "MQTT-3.2.2-7", "MQTT-4.13.2-1")
def test_an_unknown_authentication_method_is_refused_by_its_code(dial: Dial, name: str) -> None:
    client = dial()
    connack = client.connect(
        name, reason=Reason.BAD_AUTHENTICATION_METHOD, authentication_method="x", authentication_data=b"y"
    )
    assert not connack.session_present
    client.expect_closed()


@pytest.mark.mqtt("MQTT-3.1.4-6")
@pytest.mark.mqtt311("MQTT-3.1.4-5")
def test_nothing_after_a_refused_connect_is_processed(dial: Dial, connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    refused = dial()
    refused.send_bytes(
        frames.connect(frames.blob(name), properties=frames.props(b"\x15" + frames.blob("no such method")))
        + frames.publish(name, b"sneaked in")
    )
    refused.drain()
    witness.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.4-5", "MQTT-3.2.2-2", "MQTT-3.2.2-8", "MQTT-3.2.0-1")
@pytest.mark.mqtt311("MQTT-3.1.4-4", "MQTT-3.2.0-1", "MQTT-3.2.2-1")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_good_connect_gets_connack_success(connect: Connector, version: int) -> None:
    client = connect(version=version)
    assert not client.connack.session_present
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-17", "MQTT-3.1.2-19", "MQTT-3.1.3-1", "MQTT-3.1.3-12")
def test_every_field_and_property_of_connect_is_taken(dial: Dial, name: str) -> None:
    client = dial()
    client.connect(
        name,
        keep_alive_s=10,
        will=Will(f"{name}/will", b"gone", 1, True),
        username="user",
        password=b"\x00\xff",
        session_expiry_s=30,
        receive_maximum=10,
        maximum_packet_size_bytes=100_000,
        topic_alias_maximum=5,
        request_response_information=True,
        request_problem_information=True,
        user_properties=(("a", "1"), ("a", "2")),
    )
    client.expect_nothing()
    client.disconnect()


@pytest.mark.mqtt("MQTT-3.1.2-18", "MQTT-3.1.2-19")
def test_a_password_without_user_name_is_fine_in_v5(dial: Dial, name: str) -> None:
    client = dial()
    client.send_bytes(
        frames.connect(frames.blob(name), frames.blob("p"), flags=frames.CLEAN | frames.PASSWORD_FLAG)
    )
    client.expect(Connack, reason=Reason.SUCCESS)


@pytest.mark.mqtt("MQTT-3.1.3-5", "MQTT-3.1.3-4")
@pytest.mark.mqtt311("MQTT-3.1.3-5")
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    "client_id",
    [
        "a",
        "Z",
        "9",
        string.digits + string.ascii_lowercase[:13],
        string.ascii_uppercase[-23:],
        string.ascii_letters[13:36],
    ],
)
def test_client_ids_of_1_to_23_letters_and_digits(dial: Dial, client_id: str, version: int) -> None:
    assert len(client_id) <= 23
    client = dial(version)
    client.connect(client_id)
    client.disconnect()


@pytest.mark.mqtt("MQTT-3.1.3-6", "MQTT-3.1.3-7", "MQTT-3.2.2-16")
def test_an_empty_client_id_is_assigned_one(connect: Connector) -> None:
    clients = [connect("") for _ in range(3)]
    assigned = {client.connack.properties.assigned_client_id for client in clients}
    assert len(assigned) == 3
    assert all(assigned)


@pytest.mark.mqtt("MQTT-3.1.3-7", "MQTT-3.1.3-2")
def test_the_assigned_client_id_names_the_session(connect: Connector, name: str) -> None:
    first = connect("", session_expiry_s=30)
    assigned = first.connack.properties.assigned_client_id
    first.subscribe(name, qos=1)
    first.disconnect()
    again = connect(assigned, clean_start=False, session_expiry_s=0)
    assert again.connack.session_present
    assert again.connack.properties.assigned_client_id is None


@pytest.mark.mqtt("MQTT-3.1.3-8")
@pytest.mark.braidmq_only
def test_a_refused_client_id_gets_its_code(small: Broker, dial: Dial) -> None:
    for version, reason in ((5, Reason.CLIENT_IDENTIFIER_NOT_VALID), (4, 2)):
        dial(version, small).connect("x" * 30)
        client = dial(version, small)
        client.connect("x" * 31, reason=reason)
        client.expect_closed()
    assert_serving(small)


@pytest.mark.mqtt("MQTT-3.1.4-3", "MQTT-3.14.4-1", "MQTT-3.14.4-2", "MQTT-3.1.3-2")
def test_a_second_connection_takes_the_session_over(connect: Connector, name: str) -> None:
    first = connect(name)
    second = connect(name)
    assert not second.connack.session_present
    first.expect_disconnect(Reason.SESSION_TAKEN_OVER)
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.4-3", "MQTT-3.1.2-5", "MQTT-4.1.0-1")
def test_a_takeover_keeps_the_session_state(connect: Connector, name: str) -> None:
    first = connect(name, session_expiry_s=30)
    first.subscribe(f"{name}/t", qos=1)
    second = connect(name, clean_start=False)
    assert second.connack.session_present
    first.expect_disconnect(Reason.SESSION_TAKEN_OVER)
    second.publish(f"{name}/t", b"mine now", qos=1)
    second.take(payload=b"mine now", qos=1)


@pytest.mark.mqtt("MQTT-3.1.2-28")
@pytest.mark.parametrize("asked", [None, False])
def test_no_response_information_unless_asked_for(connect: Connector, asked: bool | None) -> None:
    client = connect(request_response_information=asked)
    assert client.connack.properties.response_information is None


@pytest.mark.mqtt("MQTT-3.1.2-29")
def test_without_problem_information_acks_carry_no_text(connect: Connector, name: str) -> None:
    client = connect(request_problem_information=False)
    replies: list[Any] = [client.subscribe(name, f"{name}/#", qos=1), client.unsubscribe(f"{name}/nothing")]
    client.unsubscribe(name, f"{name}/#")
    client.send(Publish(name, qos=1, packet_id=77))
    client.send(Publish(name, qos=2, packet_id=78))
    client.send_bytes(frames.frame(frames.PUBREL, frames.u16(999)))
    replies += [client.receive() for _ in range(3)]
    for packet in replies:
        assert packet.properties.reason_string is None
        assert packet.properties.user_properties == ()


@pytest.mark.mqtt("MQTT-3.1.2-30")
def test_packets_sent_before_the_connack_are_processed_after_it(dial: Dial, name: str) -> None:
    client = dial()
    client.send(Connect(name), Pingreq(), Disconnect())
    client.expect(Connack, reason=Reason.SUCCESS)
    assert type(client.receive()).__name__ == "Pingresp"
    client.expect_closed()
