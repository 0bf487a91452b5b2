"""Sections 3.15 and 4.12: enhanced authentication with SCRAM-SHA-256, at connect time and later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from braidmq.config import format_verifier
from braidmq.scram import make_credential
from braidmq.wire import Auth, Connack, Connect, Disconnect, Pingreq, Properties, Publish
from tests.conformance.conftest import Config
from tests.conformance.kit import BROKEN, Connector, Dial, Reason, assert_serving
from tests.support import frames
from tests.support.broker import Broker
from tests.support.raw import RawClient
from tests.support.scram import Scram

METHOD = "SCRAM-SHA-256"
USER, PASSWORD = "anna", "pencil, paper = ü"
ITERATIONS = 4096

by_braidmq = pytest.mark.braidmq_only


@pytest.fixture
def guarded(brokers: Callable[[Config | None], Broker]) -> Broker:
    """A broker that knows one user, and lets strangers in too."""
    verifier = format_verifier(make_credential(PASSWORD, b"a salt of 16 byt", ITERATIONS))
    return brokers({"auth": {"scram_users": {USER: verifier}, "allow_anonymous": True}})


@pytest.fixture
def closed_shop(brokers: Callable[[Config | None], Broker]) -> Broker:
    """A broker that lets nobody in who hasn't said who they are."""
    verifier = format_verifier(make_credential(PASSWORD, b"a salt of 16 byt", ITERATIONS))
    return brokers({"auth": {"scram_users": {USER: verifier}, "allow_anonymous": False}})


def auth(reason: int, data: bytes, method: str = METHOD) -> Auth:
    return Auth(reason, Properties(authentication_method=method, authentication_data=data))


def start(client: RawClient, name: str, scram: Scram, **properties: object) -> Auth:
    """CONNECT with the first message; gives the broker's challenge."""
    client.client_id = name
    everything = Properties(authentication_method=METHOD, authentication_data=scram.first(), **properties)  # type: ignore[arg-type]
    client.send(Connect(name, properties=everything))
    return client.expect(Auth)


def log_in(client: RawClient, name: str, **properties: object) -> Connack:
    scram = Scram(USER, PASSWORD)
    challenge = start(client, name, scram, **properties)
    answer = scram.final(challenge.properties.authentication_data or b"")
    client.send(auth(Reason.CONTINUE_AUTHENTICATION, answer))
    connack = client.expect(Connack, reason=Reason.SUCCESS)
    assert scram.proves(connack.properties.authentication_data or b"")
    return connack


@pytest.mark.mqtt("MQTT-4.12.0-2", "MQTT-4.12.0-5", "MQTT-3.15.2-1", "MQTT-3.2.0-1")
@by_braidmq
def test_a_user_who_knows_the_password_gets_in(guarded: Broker, dial: Dial, name: str) -> None:
    client, scram = dial(5, guarded), Scram(USER, PASSWORD)
    challenge = start(client, name, scram)
    assert challenge.reason == Reason.CONTINUE_AUTHENTICATION
    assert challenge.properties.authentication_method == METHOD
    answer = scram.final(challenge.properties.authentication_data or b"")
    client.send(auth(Reason.CONTINUE_AUTHENTICATION, answer))
    connack = client.expect(Connack, reason=Reason.SUCCESS)
    assert connack.properties.authentication_method == METHOD
    assert scram.proves(connack.properties.authentication_data or b"")
    client.subscribe(name)
    client.publish(name, b"let in")
    client.take(payload=b"let in")


@pytest.mark.mqtt("MQTT-4.12.0-4", "MQTT-3.1.4-2", "MQTT-3.2.2-7")
@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD)])
@by_braidmq
def test_a_wrong_name_or_password_is_refused(
    guarded: Broker, dial: Dial, name: str, user: str, password: str
) -> None:
    client, scram = dial(5, guarded), Scram(user, password)
    challenge = start(client, name, scram)
    answer = scram.final(challenge.properties.authentication_data or b"")
    client.send(auth(Reason.CONTINUE_AUTHENTICATION, answer))
    assert client.expect_refused(Reason.NOT_AUTHORIZED)
    assert_serving(guarded)


@pytest.mark.mqtt("MQTT-4.12.0-4")
@pytest.mark.parametrize("data", [b"", b"nonsense", b"n,,n=anna", b"\xff" * 5000])
@by_braidmq
def test_a_broken_first_message_is_refused(guarded: Broker, dial: Dial, name: str, data: bytes) -> None:
    client = dial(5, guarded)
    client.send(Connect(name, properties=Properties(authentication_method=METHOD, authentication_data=data)))
    assert client.expect_refused(Reason.NOT_AUTHORIZED, *BROKEN)
    assert_serving(guarded)


@pytest.mark.mqtt("MQTT-3.1.2-30", "MQTT-3.1.4-6", "MQTT-3.14.0-1", "MQTT-3.2.0-1")
@pytest.mark.parametrize("packet", [Pingreq(), Publish("sneaked/in", b"x"), Connect("again")], ids=str)
@by_braidmq
def test_other_packets_before_the_connack_are_refused(
    guarded: Broker, dial: Dial, connect: Connector, name: str, packet: Publish | Pingreq | Connect
) -> None:
    witness, client = connect(to=guarded), dial(5, guarded)
    witness.subscribe("sneaked/in")
    start(client, name, Scram(USER, PASSWORD))
    client.send(packet)
    client.expect_refused(*BROKEN, Reason.NOT_AUTHORIZED)
    witness.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-30")
@by_braidmq
def test_a_disconnect_before_the_connack_is_fine(guarded: Broker, dial: Dial, name: str) -> None:
    client = dial(5, guarded)
    start(client, name, Scram(USER, PASSWORD))
    client.send(Disconnect())
    client.expect_closed()
    assert_serving(guarded)


@pytest.mark.mqtt("MQTT-4.12.0-3", "MQTT-4.12.0-5")
@pytest.mark.parametrize(
    ("reason", "method"),
    [(Reason.RE_AUTHENTICATE, METHOD), (Reason.CONTINUE_AUTHENTICATION, "ANOTHER"), (Reason.SUCCESS, METHOD)],
)
@by_braidmq
def test_an_answer_of_another_kind_is_refused(
    guarded: Broker, dial: Dial, name: str, reason: int, method: str
) -> None:
    client, scram = dial(5, guarded), Scram(USER, PASSWORD)
    challenge = start(client, name, scram)
    answer = scram.final(challenge.properties.authentication_data or b"")
    client.send(auth(reason, answer, method))
    client.expect_refused(*BROKEN, Reason.NOT_AUTHORIZED, Reason.BAD_AUTHENTICATION_METHOD)


@pytest.mark.mqtt("MQTT-4.12.0-6")
@by_braidmq
def test_without_a_method_there_is_no_authentication(guarded: Broker, connect: Connector) -> None:
    client = connect(to=guarded)
    assert client.connack.properties.authentication_method is None
    assert client.connack.properties.authentication_data is None


@pytest.mark.mqtt("MQTT-4.12.0-7", "MQTT-4.13.1-1")
def test_an_auth_packet_without_a_method_in_connect_closes(connect: Connector) -> None:
    client = connect()
    client.send(auth(Reason.RE_AUTHENTICATE, b"x"))
    client.expect_disconnect(Reason.PROTOCOL_ERROR)


@pytest.mark.mqtt("MQTT-4.12.0-7")
def test_a_bare_auth_packet_closes(connect: Connector) -> None:
    client = connect()
    client.send_bytes(b"\xf0\x00")
    client.expect_disconnect(*BROKEN)


@pytest.mark.mqtt("MQTT-4.12.1-1", "MQTT-4.12.0-5", "MQTT-3.15.2-1")
@by_braidmq
def test_authenticating_again_while_messages_flow(guarded: Broker, dial: Dial, name: str) -> None:
    client, scram = dial(5, guarded), Scram(USER, PASSWORD)
    log_in(client, name)
    client.subscribe(name)
    client.send(auth(Reason.RE_AUTHENTICATE, scram.first()))
    challenge = client.expect(Auth, reason=Reason.CONTINUE_AUTHENTICATION)
    assert challenge.properties.authentication_method == METHOD
    client.publish(name, b"meanwhile")
    client.take(payload=b"meanwhile")
    answer = scram.final(challenge.properties.authentication_data or b"")
    client.send(auth(Reason.CONTINUE_AUTHENTICATION, answer))
    done = client.expect(Auth, reason=Reason.SUCCESS)
    assert done.properties.authentication_method == METHOD
    assert scram.proves(done.properties.authentication_data or b"")
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-4.12.1-2")
@by_braidmq
def test_failing_to_authenticate_again_closes(guarded: Broker, dial: Dial, name: str) -> None:
    client, scram = dial(5, guarded), Scram(USER, "wrong")
    log_in(client, name)
    client.send(auth(Reason.RE_AUTHENTICATE, scram.first()))
    challenge = client.expect(Auth)
    answer = scram.final(challenge.properties.authentication_data or b"")
    client.send(auth(Reason.CONTINUE_AUTHENTICATION, answer))
    client.expect_disconnect(Reason.NOT_AUTHORIZED)
    assert_serving(guarded)


@pytest.mark.mqtt("MQTT-4.12.1-1", "MQTT-4.13.1-1")
@by_braidmq
def test_another_method_for_authenticating_again_closes(guarded: Broker, dial: Dial, name: str) -> None:
    client = dial(5, guarded)
    log_in(client, name)
    client.send(auth(Reason.RE_AUTHENTICATE, b"x", "ANOTHER"))
    client.expect_disconnect(Reason.PROTOCOL_ERROR, Reason.BAD_AUTHENTICATION_METHOD)


@pytest.mark.mqtt("MQTT-4.12.1-1", "MQTT-4.13.1-1")
@by_braidmq
def test_an_answer_that_was_not_asked_for_closes(guarded: Broker, dial: Dial, name: str) -> None:
    client = dial(5, guarded)
    log_in(client, name)
    client.send(auth(Reason.CONTINUE_AUTHENTICATION, b"x"))
    client.expect_disconnect(Reason.PROTOCOL_ERROR)


@pytest.mark.mqtt("MQTT-3.15.2-2", "MQTT-3.15.2-3", "MQTT-3.1.2-24")
@by_braidmq
def test_auth_packets_fit_the_packet_size_of_the_client(guarded: Broker, dial: Dial, name: str) -> None:
    client = dial(5, guarded)
    scram = Scram(USER, PASSWORD)
    challenge = start(client, name, scram, maximum_packet_size_bytes=200)
    assert client.last_frame.size_bytes <= 200
    assert challenge.properties.reason_string is None


@pytest.mark.mqtt("MQTT-3.1.4-2", "MQTT-3.2.2-7")
@by_braidmq
def test_strangers_are_refused_where_they_are_not_wanted(closed_shop: Broker, dial: Dial, name: str) -> None:
    client = dial(5, closed_shop)
    client.connect(name, reason=Reason.NOT_AUTHORIZED)
    client.expect_closed()
    log_in(dial(5, closed_shop), f"{name}known")


@pytest.mark.mqtt311("MQTT-3.2.2-5", "MQTT-3.2.2-6")
@pytest.mark.parametrize("version", [3, 4])
@by_braidmq
def test_strangers_are_refused_with_code_5_below_v5(
    closed_shop: Broker, dial: Dial, name: str, version: int
) -> None:
    client = dial(version, closed_shop)
    client.connect(name, reason=5)
    assert client.last_frame.body == b"\x00\x05"
    client.expect_closed()


@pytest.mark.mqtt("MQTT-3.1.4-6", "MQTT-3.1.4-3", "MQTT-4.1.0-1")
@by_braidmq
def test_who_fails_to_authenticate_takes_over_nothing(
    guarded: Broker, dial: Dial, connect: Connector, name: str
) -> None:
    first = connect(name, to=guarded)
    intruder, scram = dial(5, guarded), Scram(USER, "wrong")
    challenge = start(intruder, name, scram)
    first.expect_nothing()
    answer = scram.final(challenge.properties.authentication_data or b"")
    intruder.send(auth(Reason.CONTINUE_AUTHENTICATION, answer))
    intruder.expect_refused(Reason.NOT_AUTHORIZED)
    first.expect_nothing()


@pytest.mark.mqtt("MQTT-4.12.0-1")
@pytest.mark.parametrize("method", ["PLAIN", "", "scram-sha-256"])
def test_a_method_that_is_not_known_is_refused(dial: Dial, name: str, method: str) -> None:
    client = dial()
    block = frames.props(b"\x15" + frames.blob(method))
    client.send_bytes(frames.connect(frames.blob(name), properties=block))
    assert client.expect_refused(Reason.BAD_AUTHENTICATION_METHOD)
