"""MQTT 3.1.1 and 3.1 where they differ from 5.0: refusals, clean session, answers without reasons."""

from __future__ import annotations

import pytest

from braidmq.wire import V5, Properties, Puback, Publish, Pubrec, Subscription, Will
from tests.conformance.kit import Connector, Dial, Elapse, Reason, assert_serving
from tests.support import frames
from tests.support.broker import Broker

BOTH = pytest.mark.parametrize("version", [3, 4])


@pytest.mark.mqtt311("MQTT-3.1.4-4", "MQTT-3.2.0-1", "MQTT-3.2.2-1")
@BOTH
def test_the_connack_is_two_bytes(dial: Dial, name: str, version: int) -> None:
    client = dial(version)
    client.connect(name)
    assert client.last_frame.body == b"\x00\x00"


@pytest.mark.mqtt311("MQTT-3.1.2-1")
@pytest.mark.parametrize("protocol_name", ["MQTX", "mqtt", "MQIsdp\x20", ""])
def test_another_protocol_name_closes(dial: Dial, protocol_name: str) -> None:
    client = dial(4)
    client.send_bytes(frames.connect(frames.blob("a"), protocol_name=protocol_name, level=4))
    client.expect_refused(1)


@pytest.mark.mqtt311("MQTT-3.1.2-2")
@pytest.mark.parametrize(("protocol_name", "level"), [("MQIsdp", 4), ("MQIsdp", 2), ("MQTT", 2)])
def test_another_protocol_level_is_refused_with_code_1(dial: Dial, protocol_name: str, level: int) -> None:
    client = dial(4)
    client.send_bytes(frames.connect(frames.blob("a"), protocol_name=protocol_name, level=level))
    client.expect_refused(1)


@pytest.mark.mqtt311("MQTT-3.1.2-4", "MQTT-3.1.2-5", "MQTT-3.2.2-2", "MQTT-3.2.2-3", "MQTT-3.1.4-3")
@BOTH
def test_without_clean_session_state_and_messages_are_kept(
    connect: Connector, name: str, version: int
) -> None:
    first, publisher = connect(name, version=version, clean_start=False), connect(version=version)
    assert not first.connack.session_present
    first.subscribe(f"{name}/t", qos=2)
    first.disconnect()
    for qos in (1, 2):
        publisher.publish(f"{name}/t", b"%d" % qos, qos=qos)
    second = connect(name, version=version, clean_start=False)
    # MQTT 3.1 has no session present flag: its byte is reserved.
    assert second.connack.session_present == (version == 4)
    for qos in (1, 2):
        second.take(payload=b"%d" % qos, qos=qos)
    second.expect_nothing()


@pytest.mark.mqtt311("MQTT-3.1.2-6", "MQTT-3.1.4-3")
@BOTH
def test_a_clean_session_discards_and_leaves_nothing(connect: Connector, name: str, version: int) -> None:
    connect(name, version=version, clean_start=False).disconnect()
    clean = connect(name, version=version, clean_start=True)
    assert not clean.connack.session_present
    clean.subscribe(f"{name}/t", qos=1)
    clean.drop()
    connect(version=version).publish(f"{name}/t", b"x", qos=1)
    after = connect(name, version=version, clean_start=False)
    assert not after.connack.session_present
    after.expect_nothing()


@pytest.mark.mqtt311("MQTT-3.1.2-4")
def test_a_kept_session_of_v311_outlives_seconds(connect: Connector, elapse: Elapse, name: str) -> None:
    connect(name, version=4, clean_start=False).drop()
    elapse()
    assert connect(name, version=4, clean_start=False).connack.session_present


@pytest.mark.mqtt311("MQTT-3.1.3-6", "MQTT-3.1.3-7")
def test_an_empty_client_id_with_clean_session_is_let_in(dial: Dial, name: str) -> None:
    clients = [dial(4) for _ in range(2)]
    for client in clients:
        client.connect("", clean_start=True)
    clients[0].subscribe(name)
    clients[1].publish(name, b"two different clients")
    clients[0].take(payload=b"two different clients")


@pytest.mark.mqtt311("MQTT-3.1.3-8", "MQTT-3.2.2-4", "MQTT-3.2.2-5")
def test_an_empty_client_id_without_clean_session_is_refused(broker: Broker, dial: Dial) -> None:
    client = dial(4)
    client.connect("", clean_start=False, reason=2)
    assert client.last_frame.body == b"\x00\x02"
    client.expect_closed()
    assert_serving(broker)


@pytest.mark.mqtt311("MQTT-3.1.3-8")
@pytest.mark.parametrize("clean_start", [False, True])
def test_v31_refuses_an_empty_client_id(dial: Dial, clean_start: bool) -> None:
    client = dial(3)
    client.connect("", clean_start=clean_start, reason=2)
    client.expect_closed()


@pytest.mark.mqtt311("MQTT-3.1.3-9", "MQTT-3.2.2-5")
@pytest.mark.braidmq_only
@BOTH
def test_a_refused_client_id_gets_code_2(small: Broker, dial: Dial, version: int) -> None:
    client = dial(version, small)
    client.connect("x" * 31, reason=2)
    client.expect_closed()


@pytest.mark.mqtt311("MQTT-3.1.4-2")
@BOTH
def test_the_newer_connection_with_the_same_id_wins(connect: Connector, name: str, version: int) -> None:
    first = connect(name, version=version)
    second = connect(name, version=version)
    first.expect_closed()
    second.expect_nothing()


@pytest.mark.mqtt311("MQTT-3.1.4-2")
@pytest.mark.parametrize(("old", "new"), [(4, 5), (5, 4), (3, 5)])
def test_a_takeover_across_versions(connect: Connector, name: str, old: int, new: int) -> None:
    first = connect(name, version=old)
    second = connect(name, version=new)
    first.expect_disconnect(Reason.SESSION_TAKEN_OVER)
    second.expect_nothing()


FLAWED = {
    "will QoS without will": (["MQTT-3.1.2-11", "MQTT-3.1.2-13"], 0x08, b""),
    "will retain without will": (["MQTT-3.1.2-11", "MQTT-3.1.2-15"], 0x20, b""),
    "will QoS 3": (["MQTT-3.1.2-14"], 0x1C, frames.blob("w") + frames.blob("x")),
    "will missing": (["MQTT-3.1.2-9"], 0x04, b""),
    "user name without flag": (["MQTT-3.1.2-18"], 0, frames.blob("u")),
    "user name missing": (["MQTT-3.1.2-19"], 0x80, b""),
    "password without flag": (["MQTT-3.1.2-20"], 0x80, frames.blob("u") + frames.blob("p")),
    "password missing": (["MQTT-3.1.2-21"], 0xC0, frames.blob("u")),
    "password without user name": (["MQTT-3.1.2-22"], 0x40, frames.blob("p")),
    "user name not UTF-8": (["MQTT-3.1.3-11"], 0x80, frames.blob(b"\xff")),
    "will topic not UTF-8": (["MQTT-3.1.3-10"], 0x04, frames.blob(b"\xff") + frames.blob("x")),
}


@pytest.mark.mqtt311("MQTT-3.1.4-1", "MQTT-4.8.0-1")
@pytest.mark.parametrize(
    ("flags", "rest"),
    [
        pytest.param(flags, rest, id=what, marks=pytest.mark.mqtt311(*ids))
        for what, (ids, flags, rest) in FLAWED.items()
    ],
)
def test_a_broken_connect_closes_without_a_connack(dial: Dial, name: str, flags: int, rest: bytes) -> None:
    client = dial(4)
    client.send_bytes(frames.connect(frames.blob(name), rest, flags=frames.CLEAN | flags, level=4))
    client.expect_closed()


@pytest.mark.mqtt311("MQTT-2.3.1-6", "MQTT-2.3.1-7")
@BOTH
def test_acknowledgements_have_no_reason_code(connect: Connector, name: str, version: int) -> None:
    client = connect(version=version)
    client.send(Publish(name, b"x", 1, packet_id=10), Publish(name, b"x", 2, packet_id=11))
    client.expect(Puback, packet_id=10)
    assert client.last_frame.body == frames.u16(10)
    client.expect(Pubrec, packet_id=11)
    assert client.last_frame.body == frames.u16(11)


@pytest.mark.mqtt311("MQTT-3.9.3-2")
@BOTH
def test_a_suback_has_the_old_codes(connect: Connector, name: str, version: int) -> None:
    client = connect(version=version)
    client.subscribe(Subscription(f"{name}/a", 0), Subscription(f"{name}/b", 2))
    assert client.last_frame.body == frames.u16(1) + b"\x00\x02"


@pytest.mark.mqtt311("MQTT-3.9.3-2")
@pytest.mark.braidmq_only
def test_a_refused_subscription_is_0x80_below_v5(small: Broker, connect: Connector, name: str) -> None:
    client = connect(version=4, to=small)
    assert client.subscribe(*(f"{name}/{number}" for number in range(3))).reasons == (0, 0, 0x80)


@pytest.mark.mqtt311("MQTT-3.14.1-1")
def test_disconnect_flags_close_and_keep_the_will(connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    client = connect(version=4, will=Will(name, b"gone"))
    client.send_bytes(b"\xe1\x00")
    client.expect_closed()
    witness.take(payload=b"gone")


@pytest.mark.mqtt311("MQTT-4.5.0-1", "MQTT-2.3.1-5")
@BOTH
def test_a_v5_message_reaches_an_older_client_without_properties(
    connect: Connector, name: str, version: int
) -> None:
    old, new = connect(version=version), connect()
    old.subscribe(name, qos=1)
    for qos in (0, 1):
        new.publish(
            name, b"x", qos=qos, content_type="a", user_properties=(("k", "v"),), message_expiry_s=60
        )
        message = old.take(topic=name, payload=b"x", qos=qos)
        identifier = frames.u16(message.packet_id) if qos else b""
        assert old.last_frame.body == frames.blob(name) + identifier + b"x"


@pytest.mark.mqtt311("MQTT-4.5.0-1")
@BOTH
def test_an_older_clients_message_reaches_v5_without_properties(
    connect: Connector, name: str, version: int
) -> None:
    old, new = connect(version=version), connect()
    new.subscribe(name, qos=2)
    for qos in (0, 1, 2):
        old.publish(name, b"x", qos=qos)
        assert new.take(payload=b"x", qos=qos).properties == Properties()


@pytest.mark.mqtt311("MQTT-3.3.1-6", "MQTT-3.8.4-3")
@BOTH
def test_subscribing_again_sends_retained_messages_again(
    connect: Connector, name: str, version: int
) -> None:
    client = connect(version=version)
    client.publish(name, b"kept", retain=True)
    for _ in range(2):
        client.subscribe(name)
        client.take(payload=b"kept", retain=True)


@pytest.mark.mqtt311("MQTT-3.1.2-4")
@pytest.mark.parametrize(("old", "new"), [(4, 5), (5, 4)])
def test_a_session_can_be_resumed_with_another_version(
    connect: Connector, name: str, old: int, new: int
) -> None:
    def keep(version: int) -> dict[str, int]:
        return {"session_expiry_s": 30} if version == V5 else {}

    first = connect(name, version=old, clean_start=False, **keep(old))
    first.subscribe(f"{name}/t", qos=1)
    first.disconnect()
    connect().publish(f"{name}/t", b"x", qos=1, content_type="a")
    second = connect(name, version=new, clean_start=False, **keep(new))
    assert second.connack.session_present
    second.take(payload=b"x", qos=1)


@pytest.mark.mqtt311("MQTT-3.1.2-12")
def test_without_a_will_none_is_published(connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    connect(f"{name}x", version=4, will=Will(name, b"old"), clean_start=False).disconnect()
    connect(f"{name}x", version=4, clean_start=False).drop()
    witness.expect_nothing()


@pytest.mark.mqtt311("MQTT-2.2.2-2", "MQTT-3.8.1-1", "MQTT-3.10.1-1", "MQTT-3.6.1-1")
@pytest.mark.parametrize(
    "packet",
    [
        frames.frame(0x80, frames.u16(1), frames.blob("a"), b"\x00"),
        frames.frame(0xA0, frames.u16(1), frames.blob("a")),
        frames.frame(0x60, frames.u16(1)),
    ],
    ids=["SUBSCRIBE", "UNSUBSCRIBE", "PUBREL"],
)
def test_wrong_header_flags_close(connect: Connector, packet: bytes) -> None:
    client = connect(version=4)
    client.send_bytes(packet)
    client.expect_closed()
