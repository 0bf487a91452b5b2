"""The sending half of a session: the window, repetition, what the server can't do."""

import pytest

from braidmq.client.errors import (
    LimitExceededError,
    NotConnectedError,
    PublishRefusedError,
    SessionLostError,
)
from braidmq.client.events import Completed, Failed
from braidmq.client.options import SessionOptions
from braidmq.client.session import Session
from braidmq.errors import BraidError, ProtocolError
from braidmq.wire import (
    Disconnect,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
)
from tests.client.helpers import closing_error, connect, connected, deliver, reconnect, sent_packets
from tests.client.model_server import ModelServer


class TestServerLimits:
    @pytest.mark.parametrize(
        ("told", "packet", "reason"),
        [
            (Properties(maximum_qos=1), Publish("t", b"", 2), ReasonCode.QOS_NOT_SUPPORTED),
            (Properties(maximum_qos=0), Publish("t", b"", 1), ReasonCode.QOS_NOT_SUPPORTED),
            (Properties(retain_available=False), Publish("t", retain=True), ReasonCode.RETAIN_NOT_SUPPORTED),
            (Properties(maximum_packet_size_bytes=50), Publish("t", b"x" * 50), ReasonCode.PACKET_TOO_LARGE),
            (Properties(maximum_packet_size_bytes=9), Publish("t", b"abcd", 1), ReasonCode.PACKET_TOO_LARGE),
        ],
    )
    def test_publish(self, told: Properties, packet: Publish, reason: int) -> None:
        session = connected(told)
        with pytest.raises(LimitExceededError) as caught:
            session.publish(packet)
        assert caught.value.reason == reason
        assert sent_packets(session) == []
        assert session.pending_publishes == 0

    @pytest.mark.parametrize(
        ("told", "topic_filter", "identifiers", "reason"),
        [
            (Properties(wildcard_subscription_available=False), "a/#", (), 0xA2),
            (Properties(wildcard_subscription_available=False), "$share/g/+", (), 0xA2),
            (Properties(shared_subscription_available=False), "$share/g/a", (), 0x9E),
            (Properties(subscription_identifiers_available=False), "a", (3,), 0xA1),
        ],
    )
    def test_subscribe(
        self, told: Properties, topic_filter: str, identifiers: tuple[int, ...], reason: int
    ) -> None:
        session = connected(told)
        with pytest.raises(LimitExceededError) as caught:
            session.subscribe([Subscription(topic_filter)], Properties(subscription_identifiers=identifiers))
        assert caught.value.reason == reason

    def test_a_waiting_message_that_the_new_server_can_not_take_fails_alone(self) -> None:
        session = Session(SessionOptions(client_id="c"))
        large = session.publish(Publish("t", b"x" * 100, 1))
        small = session.publish(Publish("t", b"x", 1))
        events = connect(session, Properties(maximum_packet_size_bytes=50))
        [failed] = [event for event in events if isinstance(event, Failed)]
        assert failed.token == large
        assert isinstance(failed.error, LimitExceededError)
        [packet] = sent_packets(session)
        assert isinstance(packet, Publish)
        assert packet.payload == b"x"
        assert deliver(session, Puback(packet.packet_id)) == [Completed(small, Puback(packet.packet_id))]

    def test_qos_0_needs_a_connection(self) -> None:
        with pytest.raises(NotConnectedError):
            Session(SessionOptions()).publish(Publish("t"))

    @pytest.mark.parametrize("packet", [
        Publish("a/+", b"", 1),
        Publish("", b"", 1),
        Publish("a\0b", b"", 1),
        Publish("t", b"", 3),
        Publish("t", b"", 1, properties=Properties(subscription_identifiers=(1,))),
        Publish("t", b"", 1, properties=Properties(topic_alias=1)),
        Publish("t", b"", 1, properties=Properties(server_reference="x")),
    ])
    def test_what_no_server_could_take_is_refused_at_once(self, packet: Publish) -> None:
        session = Session(SessionOptions())
        with pytest.raises((BraidError, ValueError)):
            session.publish(packet)
        assert session.pending_publishes == 0

    @pytest.mark.parametrize("topic_filter", ["", "a/#/b", "a+", "$share/g", "$share//a"])
    def test_wrong_filters_are_refused_at_once(self, topic_filter: str) -> None:
        session = Session(SessionOptions())
        with pytest.raises(ProtocolError):
            session.subscribe([Subscription(topic_filter)])


class TestPublishing:
    def test_the_window_is_the_servers_receive_maximum(self) -> None:
        session = connected(Properties(receive_maximum=2))
        for number in range(4):
            session.publish(Publish("t", b"%d" % number, 1 + number % 2))
        first = sent_packets(session)
        assert [(p.payload, p.packet_id) for p in first if isinstance(p, Publish)] == [(b"0", 1), (b"1", 2)]
        deliver(session, Puback(1))
        assert sent_packets(session) == [Publish("t", b"2", 1, packet_id=3)]
        deliver(session, Pubrec(2))
        assert sent_packets(session) == [Pubrel(2)]  # PUBREC gives nothing back
        deliver(session, Pubcomp(2))
        assert sent_packets(session) == [Publish("t", b"3", 2, packet_id=4)]

    def test_a_refused_pubrec_ends_the_exchange_and_frees_the_window(self) -> None:
        session = connected(Properties(receive_maximum=1))
        token = session.publish(Publish("t", b"0", 2))
        session.publish(Publish("t", b"1", 2))
        session.data_to_send(0.0)
        refusal = Pubrec(1, ReasonCode.QUOTA_EXCEEDED, Properties(reason_string="full"))
        [failed] = deliver(session, refusal)
        assert isinstance(failed, Failed)
        assert failed.token == token
        assert isinstance(failed.error, PublishRefusedError)
        assert failed.error.reason == ReasonCode.QUOTA_EXCEEDED
        assert "full" in str(failed.error)
        assert sent_packets(session) == [Publish("t", b"1", 2, packet_id=2)]

    def test_a_refused_puback(self) -> None:
        session = connected()
        token = session.publish(Publish("t", b"0", 1))
        [failed] = deliver(session, Puback(1, ReasonCode.NOT_AUTHORIZED))
        assert isinstance(failed, Failed)
        assert failed.token == token

    def test_no_matching_subscribers_is_a_success(self) -> None:
        session = connected()
        token = session.publish(Publish("t", b"0", 1))
        answer = Puback(1, ReasonCode.NO_MATCHING_SUBSCRIBERS)
        assert deliver(session, answer) == [Completed(token, answer)]

    def test_unknown_acknowledgements_do_no_harm(self) -> None:
        session = connected()
        assert deliver(session, Puback(7), Pubcomp(8)) == []
        assert sent_packets(session) == []
        deliver(session, Pubrec(9))
        assert sent_packets(session) == [Pubrel(9, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)]

    @pytest.mark.parametrize(("qos", "packet"), [(1, Pubrec(1)), (2, Puback(1))])
    def test_an_acknowledgement_of_the_wrong_kind_is_a_fault(self, qos: int, packet: Puback | Pubrec) -> None:
        session = connected()
        session.publish(Publish("t", b"0", qos))
        session.data_to_send(0.0)
        closing_error(deliver(session, packet))
        assert sent_packets(session) == [Disconnect(ReasonCode.PROTOCOL_ERROR)]

    def test_a_resumed_session_sends_again_in_order_with_dup(self) -> None:
        session = connected(session_expiry_s=9)
        for number in range(4):
            session.publish(Publish("t", b"%d" % number, 1 + number % 2))
        deliver(session, Puback(1), Pubrec(2))
        session.publish(Publish("t", b"new", 1))
        reconnect(session, present=True)
        assert sent_packets(session) == [
            Pubrel(2),
            Publish("t", b"2", 1, dup=True, packet_id=3),
            Publish("t", b"3", 2, dup=True, packet_id=4),
            Publish("t", b"new", 1, dup=True, packet_id=5),
        ]

    def test_a_smaller_window_after_a_reconnect_holds_the_rest_back(self) -> None:
        session = connected(session_expiry_s=9)
        for number in range(3):
            session.publish(Publish("t", b"%d" % number, 1))
        reconnect(session, Properties(receive_maximum=1), present=True)
        assert sent_packets(session) == [Publish("t", b"0", 1, dup=True, packet_id=1)]
        deliver(session, Puback(1))
        assert sent_packets(session) == [Publish("t", b"1", 1, dup=True, packet_id=2)]

    def test_the_end_of_an_old_exchange_gives_nothing_back(self) -> None:
        session = connected(Properties(receive_maximum=1), session_expiry_s=9)
        session.publish(Publish("t", b"0", 2))
        deliver(session, Pubrec(1))
        session.publish(Publish("t", b"1", 1))
        session.publish(Publish("t", b"2", 1))
        reconnect(session, Properties(receive_maximum=1), present=True)
        assert sent_packets(session) == [Pubrel(1), Publish("t", b"1", 1, packet_id=2)]
        deliver(session, Pubcomp(1))
        assert sent_packets(session) == []

    def test_a_forgotten_session(self) -> None:
        """QoS 1 goes out as new, a taken QoS 2 message is done, one in doubt fails."""
        session = connected(session_expiry_s=9)
        once = session.publish(Publish("t", b"1", 1))
        taken = session.publish(Publish("t", b"2", 2))
        doubtful = session.publish(Publish("t", b"3", 2))
        deliver(session, Pubrec(2))
        events = reconnect(session, present=False)
        assert Completed(taken, None) in events
        [failed] = [event for event in events if isinstance(event, Failed)]
        assert failed.token == doubtful
        assert isinstance(failed.error, SessionLostError)
        [packet] = sent_packets(session)
        assert isinstance(packet, Publish)
        assert (packet.payload, packet.dup) == (b"1", False)
        assert deliver(session, Puback(packet.packet_id)) == [Completed(once, Puback(packet.packet_id))]

    def test_an_inherited_session_does_not_swallow_new_messages(self) -> None:
        """A program died between PUBREC and PUBREL; its successor must not be taken for a repetition."""
        server = ModelServer()
        server.has_session = True
        server.unreleased = {1, 2}
        session = Session(SessionOptions(client_id="c", clean_start=False, session_expiry_s=9))
        session.connect(0.0)
        for number in range(4):
            session.publish(Publish("t", b"%d" % number, 2))
        for _ in range(5):
            server.receive(bytes(session.data_to_send(0.0)))
            session.receive(server.data_to_send(), 0.0)
        assert [packet.payload for packet in server.taken] == [b"0", b"1", b"2", b"3"]
        assert session.pending_publishes == 0

    def test_withdrawing_works_until_it_is_sent(self) -> None:
        session = connected(Properties(receive_maximum=1))
        first = session.publish(Publish("t", b"0", 1))
        second = session.publish(Publish("t", b"1", 1))
        assert not session.withdraw(first)
        assert session.withdraw(second)
        session.data_to_send(0.0)
        deliver(session, Puback(1))
        assert sent_packets(session) == []

    def test_all_packet_identifiers_in_use(self) -> None:
        session = connected()
        publishes = [session.publish(Publish("t", b"", 1)) for _ in range(65_535)]
        session.data_to_send(0.0)
        token = session.subscribe([Subscription("a")])
        session.publish(Publish("t", b"last", 1))
        assert sent_packets(session) == []
        assert deliver(session, Puback(40_000)) == [Completed(publishes[39_999], Puback(40_000))]
        assert sent_packets(session) == [Subscribe(40_000, (Subscription("a"),))]
        assert deliver(session, Suback(40_000, (0,))) == [Completed(token, Suback(40_000, (0,)))]
        assert sent_packets(session) == [Publish("t", b"last", 1, packet_id=40_000)]

    def test_topic_aliases_are_used_as_far_as_the_server_allows(self) -> None:
        session = connected(Properties(topic_alias_maximum=1), send_topic_aliases=True)
        for topic in ("a", "a", "b", "b"):
            session.publish(Publish(topic))
        assert [
            (packet.topic, packet.properties.topic_alias)
            for packet in sent_packets(session)
            if isinstance(packet, Publish)
        ] == [("a", 1), ("", 1), ("b", None), ("b", None)]
        reconnect(session, Properties(topic_alias_maximum=1), present=False)
        session.publish(Publish("b", b"", 1))
        [packet] = sent_packets(session)
        assert isinstance(packet, Publish)
        assert (packet.topic, packet.properties.topic_alias) == ("b", 1)


def test_that_nobody_wants_a_message_is_known_at_qos_2_too() -> None:
    session = connected()
    token = session.publish(Publish("t", b"", 2))
    deliver(session, Pubrec(1, ReasonCode.NO_MATCHING_SUBSCRIBERS))
    [done] = deliver(session, Pubcomp(1))
    assert isinstance(done, Completed)
    assert done.token == token
    assert isinstance(done.answer, Pubrec)
    assert done.answer.reason == ReasonCode.NO_MATCHING_SUBSCRIBERS
