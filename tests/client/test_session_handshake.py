"""How a session begins and ends: CONNECT, AUTH, DISCONNECT, and keep alive in between."""

from unittest.mock import Mock

import pytest

from braidmq.client.errors import (
    ConnectionLostError,
    ConnectRefusedError,
    NotConnectedError,
)
from braidmq.client.events import Connected
from braidmq.client.options import SessionOptions
from braidmq.client.session import Session, State
from braidmq.errors import BraidError, ConfigError, ProtocolError
from braidmq.wire import (
    V5,
    V31,
    V311,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Publish,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
    encode,
)
from tests.client.helpers import closing_error, connect, connected, deliver, sent_packets


class TestHandshake:
    def test_connect_says_everything_that_was_chosen(self) -> None:
        will = Will("gone", b"x", 1, True, Properties(will_delay_s=5))
        session = Session(SessionOptions(
            client_id="me", clean_start=False, session_expiry_s=77, keep_alive_s=33, receive_maximum=9,
            max_packet_bytes=5000, topic_alias_maximum=4, will=will, username="u", password="p",
            connect_properties=Properties(
                user_properties=(("a", "1"), ("a", "2")), request_problem_information=False
            ),
        ))
        session.connect(0.0)
        told = Properties(
            session_expiry_s=77, receive_maximum=9, maximum_packet_size_bytes=5000, topic_alias_maximum=4,
            user_properties=(("a", "1"), ("a", "2")), request_problem_information=False,
        )
        assert sent_packets(session) == [Connect("me", False, 33, V5, will, "u", b"p", told)]

    @pytest.mark.parametrize("version", [V31, V311])
    def test_mqtt_3_keeps_its_session_flag_on_reconnect(self, version: int) -> None:
        session = connected(version=version, clean_start=True)
        session.connection_lost()
        session.connect(0.0)
        assert sent_packets(session) == [Connect("c", True, 60, version)]

    def test_mqtt_5_asks_for_its_session_on_reconnect(self) -> None:
        session = connected(clean_start=True, session_expiry_s=5)
        session.connection_lost()
        session.connect(0.0)
        [packet] = sent_packets(session)
        assert isinstance(packet, Connect)
        assert not packet.clean_start

    def test_an_assigned_client_id_is_kept(self) -> None:
        session = connected(Properties(assigned_client_id="auto-7"), client_id="")
        assert session.client_id == "auto-7"
        session.connection_lost()
        session.connect(0.0)
        [packet] = sent_packets(session)
        assert isinstance(packet, Connect)
        assert packet.client_id == "auto-7"

    @pytest.mark.parametrize("version", [V311, V5])
    def test_a_refusal_keeps_its_reason(self, version: int) -> None:
        session = Session(SessionOptions(client_id="c", version=version))
        session.connect(0.0)
        error = closing_error(deliver(session, Connack(False, ReasonCode.NOT_AUTHORIZED)))
        assert isinstance(error, ConnectRefusedError)
        assert error.reason == ReasonCode.NOT_AUTHORIZED
        assert session.state is State.CLOSED

    def test_no_connack_in_time(self) -> None:
        session = Session(SessionOptions(connect_timeout_s=3.0))
        session.connect(10.0)
        assert session.deadline() == 13.0
        assert session.advance(12.9) == []
        assert isinstance(closing_error(session.advance(13.0)), ConnectionLostError)

    def test_a_session_that_should_be_gone_is_a_fault(self) -> None:
        session = Session(SessionOptions(clean_start=True))
        session.connect(0.0)
        assert isinstance(closing_error(deliver(session, Connack(True))), ConnectionLostError)

    @pytest.mark.parametrize("packet", [Publish("t"), Pingresp(), Puback(1), Disconnect(), Suback(1, (0,))])
    def test_nothing_may_come_before_connack(self, packet: object) -> None:
        session = Session(SessionOptions())
        session.connect(0.0)
        session.data_to_send(0.0)
        closing_error(deliver(session, packet))  # type: ignore[arg-type]
        assert sent_packets(session)[-1] == Disconnect(ReasonCode.PROTOCOL_ERROR)

    @pytest.mark.parametrize("packet", [Connack(), Connect("x"), Pingreq(), Unsubscribe(1, ("a",))])
    def test_what_only_a_client_sends_or_comes_twice_ends_the_connection(self, packet: object) -> None:
        session = connected()
        closing_error(deliver(session, packet))  # type: ignore[arg-type]
        assert sent_packets(session) == [Disconnect(ReasonCode.PROTOCOL_ERROR)]

    def test_a_connect_of_a_version_that_we_do_not_know_ends_the_connection_too(self) -> None:
        session = connected()
        closing_error(session.receive(b"\x10\x0a\x00\x04MQTT\x09\x02\x00\x00", 0.0))
        assert sent_packets(session) == [Disconnect(ReasonCode.PROTOCOL_ERROR)]

    def test_every_fault_has_a_farewell_that_can_be_written(self) -> None:
        for reason in ReasonCode:
            session = connected()
            session._handle = Mock(side_effect=ProtocolError(reason, "x" * 70_000))  # type: ignore[method-assign]
            closing_error(deliver(session, Pingresp()))
            [farewell] = sent_packets(session)
            assert isinstance(farewell, Disconnect)
            assert farewell.reason >= 0x80

    def test_data_behind_the_end_is_ignored(self) -> None:
        session = connected()
        deliver(session, Disconnect(ReasonCode.SERVER_SHUTTING_DOWN), Publish("t", b"late"))
        assert deliver(session, Publish("t", b"later")) == []
        assert session.queued_messages == 0

    @pytest.mark.parametrize(
        ("name", "value"),
        [("version", 6), ("keep_alive_s", -1), ("receive_maximum", 0), ("max_packet_bytes", 1),
         ("topic_alias_maximum", 70_000), ("session_expiry_s", 2**32)],
    )
    def test_impossible_options_are_refused_by_name(self, name: str, value: int) -> None:
        with pytest.raises(ConfigError, match=name):
            SessionOptions(**{name: value})  # type: ignore[arg-type]

    def test_mqtt_3_needs_a_name_to_keep_a_session(self) -> None:
        with pytest.raises(ConfigError, match="client_id"):
            SessionOptions(version=V311, clean_start=False)


class TestAuthentication:
    class Method:
        """Answers every challenge with its reverse, and wants to see the word `right` in the end."""

        method = "reverse"

        def begin(self) -> bytes:
            return b"hello"

        def answer(self, challenge: bytes) -> bytes:
            return challenge[::-1]

        def finish(self, final: bytes) -> None:
            if final != b"right":
                raise BraidError("wrong server")

    def told(self, data: bytes, method: str = "reverse") -> Properties:
        return Properties(authentication_method=method, authentication_data=data)

    def started(self) -> Session:
        session = Session(SessionOptions(client_id="c", authenticator=self.Method()))
        session.connect(0.0)
        [packet] = sent_packets(session)
        assert isinstance(packet, Connect)
        assert packet.properties == self.told(b"hello")
        return session

    def test_the_exchange(self) -> None:
        session = self.started()
        deliver(session, Auth(ReasonCode.CONTINUE_AUTHENTICATION, self.told(b"abc")))
        assert sent_packets(session) == [Auth(ReasonCode.CONTINUE_AUTHENTICATION, self.told(b"cba"))]
        [event] = deliver(session, Connack(properties=self.told(b"right")))
        assert isinstance(event, Connected)

    def test_a_server_that_can_not_show_who_it_is(self) -> None:
        session = self.started()
        error = closing_error(deliver(session, Connack(properties=self.told(b"wrong"))))
        assert "wrong server" in str(error)
        assert session.state is State.CLOSED

    def test_another_method_is_a_fault(self) -> None:
        session = self.started()
        closing_error(deliver(session, Auth(ReasonCode.CONTINUE_AUTHENTICATION, self.told(b"", "other"))))

    def test_auth_without_having_asked_for_it(self) -> None:
        session = Session(SessionOptions())
        session.connect(0.0)
        closing_error(deliver(session, Auth(ReasonCode.CONTINUE_AUTHENTICATION, self.told(b"x"))))

    def test_re_authentication(self) -> None:
        session = self.started()
        deliver(session, Connack(properties=self.told(b"right")))
        session.reauthenticate()
        assert sent_packets(session) == [Auth(ReasonCode.RE_AUTHENTICATE, self.told(b"hello"))]
        [event] = deliver(session, Auth(ReasonCode.SUCCESS, self.told(b"right")))
        assert type(event).__name__ == "Reauthenticated"
        closing_error(deliver(session, Auth(ReasonCode.SUCCESS, self.told(b"right"))))

    def test_re_authentication_needs_a_method(self) -> None:
        with pytest.raises(NotConnectedError):
            connected().reauthenticate()


class TestKeepAlive:
    def test_a_ping_when_nothing_was_sent(self) -> None:
        session = connected(keep_alive_s=10)
        assert session.deadline() == 9.0
        session.receive(encode(Publish("t"), V5), 8.0)
        assert session.advance(9.0) == []
        assert sent_packets(session, 9.0) == [Pingreq()]

    def test_a_ping_when_nothing_was_received(self) -> None:
        session = connected(keep_alive_s=10)
        session.publish(Publish("t"))
        session.data_to_send(8.0)
        session.advance(9.0)
        assert sent_packets(session, 9.0) == [Pingreq()]

    def test_silence_ends_the_connection(self) -> None:
        session = connected(keep_alive_s=10, ping_timeout_s=4.0)
        session.advance(9.0)
        session.data_to_send(9.0)
        assert session.deadline() == 13.0
        assert session.advance(12.9) == []
        assert isinstance(closing_error(session.advance(13.0)), ConnectionLostError)

    def test_an_answer_keeps_it(self) -> None:
        session = connected(keep_alive_s=10, ping_timeout_s=4.0)
        session.advance(9.0)
        session.data_to_send(9.0)
        deliver(session, Pingresp(), now=9.5)
        assert session.advance(14.0) == []
        assert session.deadline() == 18.0

    def test_whatever_comes_shows_that_the_server_lives(self) -> None:
        session = connected(keep_alive_s=10, ping_timeout_s=4.0)
        session.advance(9.0)
        session.data_to_send(9.0)
        deliver(session, Publish("t"), now=12.0)
        assert session.advance(13.0) == []
        closing_error(session.advance(16.0))

    def test_silence_while_we_do_not_read_is_ours(self) -> None:
        session = connected(keep_alive_s=10, ping_timeout_s=4.0)
        session.advance(9.0)
        session.data_to_send(9.0)
        assert session.advance(30.0, reading=False) == []
        session.reading_resumed(30.0)
        assert session.advance(33.9) == []
        closing_error(session.advance(34.0))

    @pytest.mark.parametrize(("ours", "theirs", "deadline"), [(10, 5, 4.5), (5, 10, 9.0), (0, 10, 9.0)])
    def test_the_server_decides(self, ours: int, theirs: int, deadline: float) -> None:
        session = connected(Properties(server_keep_alive_s=theirs), keep_alive_s=ours)
        assert session.deadline() == deadline

    def test_who_does_not_read_is_woken_for_pings_only(self) -> None:
        session = connected(keep_alive_s=10, ping_timeout_s=4.0)
        session.advance(9.0)
        session.data_to_send(9.0)
        assert session.deadline(reading=False) == 18.0
        session.advance(18.0, reading=False)
        assert sent_packets(session, 18.0) == [Pingreq()]
        assert session.deadline(reading=False) == 27.0

    def test_none(self) -> None:
        session = connected(keep_alive_s=0)
        assert session.deadline() is None
        assert session.advance(1e9) == []
        assert sent_packets(session) == []


def test_nothing_follows_the_goodbye() -> None:
    session = connected()
    session.disconnect()
    assert sent_packets(session) == [Disconnect()]
    session.publish(Publish("t", b"", 1))
    session.subscribe([Subscription("t")])
    with pytest.raises(NotConnectedError):
        session.publish(Publish("t"))
    assert sent_packets(session) == []
    session.connection_lost()
    connect(session)
    assert {type(packet) for packet in sent_packets(session)} == {Publish, Subscribe}


def test_goodbye_with_a_reason() -> None:
    session = connected()
    session.disconnect(ReasonCode.DISCONNECT_WITH_WILL_MESSAGE, Properties(session_expiry_s=1))
    expected = Disconnect(ReasonCode.DISCONNECT_WITH_WILL_MESSAGE, Properties(session_expiry_s=1))
    assert sent_packets(session) == [expected]
    session.disconnect()
    assert sent_packets(session) == []
