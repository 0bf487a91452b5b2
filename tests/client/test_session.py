"""The session's rules one by one: handshake, limits, keep alive, errors, acknowledgements."""

import pytest

from braidmq.client.errors import (
    ConnectionLostError,
    ConnectRefusedError,
    LimitExceededError,
    NotConnectedError,
    PublishRefusedError,
    ServerDisconnectedError,
    SessionLostError,
    SubscribeRefusedError,
    UnsubscribeRefusedError,
)
from braidmq.client.events import Completed, Connected, Failed, MessagesReceived, ResubscribeRefused
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
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
    encode,
)
from tests.client.helpers import closing_error, connect, connected, deliver, reconnect, sent_packets
from tests.client.model_server import ModelServer


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


class TestSubscribing:
    def test_granted_and_refused_filters(self) -> None:
        session = connected()
        token = session.subscribe([Subscription("a", 1), Subscription("b", 2)])
        assert sent_packets(session) == [Subscribe(1, (Subscription("a", 1), Subscription("b", 2)))]
        [failed] = deliver(session, Suback(1, (1, ReasonCode.NOT_AUTHORIZED)))
        assert isinstance(failed, Failed)
        assert failed.token == token
        assert isinstance(failed.error, SubscribeRefusedError)
        assert failed.error.filters == ("a", "b")
        assert failed.error.reasons == (1, ReasonCode.NOT_AUTHORIZED)
        assert session.subscriptions == (Subscription("a", 1),)

    @pytest.mark.parametrize("version", [V311, V5])
    def test_unsubscribe(self, version: int) -> None:
        session = connected(version=version)
        session.subscribe([Subscription("a")])
        deliver(session, Suback(1, (0,)))
        token = session.unsubscribe(["a"])
        answer = Unsuback(2, (0,) if version == V5 else ())
        session.data_to_send(0.0)
        assert deliver(session, answer) == [Completed(token, answer)]
        assert session.subscriptions == ()

    def test_a_refused_unsubscribe_keeps_the_subscription(self) -> None:
        session = connected()
        session.subscribe([Subscription("a")])
        deliver(session, Suback(1, (0,)))
        session.unsubscribe(["a"])
        [failed] = deliver(session, Unsuback(2, (ReasonCode.NOT_AUTHORIZED,)))
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, UnsubscribeRefusedError)
        assert session.subscriptions == (Subscription("a"),)

    def test_a_lost_request_is_asked_again(self) -> None:
        session = connected(session_expiry_s=9)
        token = session.subscribe([Subscription("a")])
        reconnect(session, present=True)
        [packet] = sent_packets(session)
        assert isinstance(packet, Subscribe)
        answer = Suback(packet.packet_id, (0,))
        assert deliver(session, answer) == [Completed(token, answer)]

    def test_subscriptions_are_restored_when_the_session_is_gone(self) -> None:
        session = connected(session_expiry_s=9)
        identifier = Properties(subscription_identifiers=(5,))
        session.subscribe([Subscription("a", 1), Subscription("b", no_local=True)])
        session.subscribe([Subscription("c", 2)], identifier)
        deliver(session, Suback(1, (1, 0)), Suback(2, (2,)))
        session.data_to_send(0.0)
        reconnect(session, present=True)
        assert sent_packets(session) == []
        reconnect(session, present=False)
        first, second = sent_packets(session)
        assert isinstance(first, Subscribe)
        assert isinstance(second, Subscribe)
        assert first.subscriptions == (Subscription("a", 1), Subscription("b", no_local=True))
        assert (second.subscriptions, second.properties) == ((Subscription("c", 2),), identifier)
        assert deliver(session, Suback(first.packet_id, (1, 0)), Suback(second.packet_id, (2,))) == []

    def test_a_refusal_to_restore_is_told(self) -> None:
        session = connected(session_expiry_s=9)
        session.subscribe([Subscription("a")])
        deliver(session, Suback(1, (0,)))
        session.data_to_send(0.0)
        reconnect(session, present=False)
        [packet] = sent_packets(session)
        assert isinstance(packet, Subscribe)
        [event] = deliver(session, Suback(packet.packet_id, (ReasonCode.NOT_AUTHORIZED,)))
        assert isinstance(event, ResubscribeRefused)
        assert session.subscriptions == ()

    def test_many_subscriptions_are_restored_in_several_packets(self) -> None:
        session = connected(session_expiry_s=9)
        session.subscribe([Subscription(f"t/{number}") for number in range(150)])
        deliver(session, Suback(1, (0,) * 150))
        session.data_to_send(0.0)
        reconnect(session, present=False)
        packets = sent_packets(session)
        assert [len(p.subscriptions) for p in packets if isinstance(p, Subscribe)] == [64, 64, 22]

    @pytest.mark.parametrize("answer", [Suback(1, (0,)), Suback(1, (0, 0, 0)), Unsuback(1, (0, 0))])
    def test_an_answer_that_does_not_fit_is_a_fault(self, answer: Suback | Unsuback) -> None:
        session = connected()
        session.subscribe([Subscription("a"), Subscription("b")])
        session.data_to_send(0.0)
        closing_error(deliver(session, answer))
        assert sent_packets(session) == [Disconnect(ReasonCode.PROTOCOL_ERROR)]

    def test_a_request_that_never_left_can_be_withdrawn(self) -> None:
        session = Session(SessionOptions(client_id="c"))
        assert session.withdraw(session.unsubscribe(["a"]))
        connect(session)
        assert sent_packets(session) == []
        assert not session.withdraw(session.unsubscribe(["a"]))
        assert sent_packets(session) == [Unsubscribe(1, ("a",))]


class TestReceiving:
    def test_acknowledgements_leave_in_the_order_of_receipt(self) -> None:
        session = connected()
        deliver(session, *(Publish("t", b"", 1 + n % 2, packet_id=n) for n in range(1, 6)))
        messages = list(session.take_batch(10))
        for message in (messages[2], messages[1], messages[4]):
            message.ack()
        assert sent_packets(session) == []  # [MQTT-4.6.0-2]: the first one is missing
        messages[0].ack()
        assert sent_packets(session) == [Pubrec(1), Puback(2), Pubrec(3)]
        messages[3].ack()
        messages[3].ack()
        assert sent_packets(session) == [Puback(4), Pubrec(5)]

    def test_a_reason_goes_with_the_acknowledgement(self) -> None:
        session = connected()
        deliver(session, Publish("t", b"", 1, packet_id=1), Publish("t", b"", 2, packet_id=2))
        one, two = session.take_batch(10)
        one.ack(ReasonCode.NOT_AUTHORIZED)
        two.ack(ReasonCode.QUOTA_EXCEEDED)
        refusals = [Puback(1, ReasonCode.NOT_AUTHORIZED), Pubrec(2, ReasonCode.QUOTA_EXCEEDED)]
        assert sent_packets(session) == refusals
        # A refused QoS 2 message is finished: its identifier is free for another one.
        deliver(session, Publish("t", b"other", 2, packet_id=2))
        assert session.take_batch(10).payloads == [b"other"]

    def test_mqtt_3_has_no_reasons(self) -> None:
        session = connected(version=V311)
        deliver(session, Publish("t", b"", 1, packet_id=1))
        session.take_batch(1).ack(ReasonCode.NOT_AUTHORIZED)
        assert sent_packets(session) == [Puback(1)]

    @pytest.mark.parametrize("qos", [1, 2])
    def test_our_receive_maximum_is_enforced(self, qos: int) -> None:
        session = connected(receive_maximum=2)
        packets = [Publish("t", b"", qos, packet_id=n) for n in (1, 2, 3)]
        error = closing_error(deliver(session, *packets))
        assert isinstance(error, ConnectionLostError)
        assert sent_packets(session) == [Disconnect(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED)]
        assert session.queued_messages == 2

    def test_a_resumed_session_is_allowed_a_second_window(self) -> None:
        session = connected(receive_maximum=2, session_expiry_s=9, clean_start=False)
        deliver(session, Publish("t", b"", 1, packet_id=1), Publish("t", b"", 1, packet_id=2))
        reconnect(session, present=True)
        again = [Publish("t", b"", 1, dup=True, packet_id=n) for n in (1, 2)]
        new = [Publish("t", b"", 1, packet_id=n) for n in (3, 4)]
        assert deliver(session, *again, *new) == [MessagesReceived(4)]
        closing_error(deliver(session, Publish("t", b"", 1, packet_id=5)))

    def test_qos_2_counts_until_pubcomp(self) -> None:
        session = connected(receive_maximum=1)
        deliver(session, Publish("t", b"", 2, packet_id=1))
        session.take_batch(1).ack()
        deliver(session, Pubrel(1), Publish("t", b"", 2, packet_id=2))
        assert sent_packets(session) == [Pubrec(1), Pubcomp(1)]
        session.take_batch(1).ack()
        closing_error(deliver(session, Publish("t", b"", 1, packet_id=3)))

    def test_pubrel_of_an_unknown_message(self) -> None:
        session = connected()
        deliver(session, Pubrel(5))
        assert sent_packets(session) == [Pubcomp(5, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)]

    def test_qos_1_comes_again_after_a_reconnect_and_the_old_acknowledgement_is_void(self) -> None:
        session = connected(session_expiry_s=9, clean_start=False)
        deliver(session, Publish("t", b"1", 1, packet_id=1))
        [early] = session.take_batch(10)
        reconnect(session, present=True)
        deliver(session, Publish("t", b"1", 1, dup=True, packet_id=1))
        [again] = session.take_batch(10)
        assert again.dup
        early.ack()
        assert sent_packets(session) == []
        again.ack()
        assert sent_packets(session) == [Puback(1)]

    def test_what_was_not_taken_before_a_reconnect_comes_once(self) -> None:
        session = connected(session_expiry_s=9, clean_start=False)
        three = [Publish("t", b"%d" % qos, qos, packet_id=qos) for qos in (0, 1, 2)]
        deliver(session, *three)
        reconnect(session, present=True)
        deliver(session, *(Publish("t", b"%d" % qos, qos, dup=True, packet_id=qos) for qos in (1, 2)))
        assert session.take_batch(10).payloads == [b"0"]  # stored apart from what came later
        assert session.take_batch(10).payloads == [b"1", b"2"]

    def test_what_was_not_taken_is_kept_when_the_session_is_gone(self) -> None:
        session = connected(session_expiry_s=9, clean_start=False)
        deliver(session, Publish("t", b"1", 1, packet_id=1), Publish("t", b"2", 2, packet_id=2))
        reconnect(session, present=False)
        batch = session.take_batch(10)
        assert batch.payloads == [b"1", b"2"]
        batch.ack()
        assert sent_packets(session) == []

    @pytest.mark.parametrize("acknowledged", ["before the loss", "while offline", "after the redelivery"])
    def test_qos_2_held_over_a_reconnect_is_delivered_once(self, acknowledged: str) -> None:
        session = connected(session_expiry_s=9, clean_start=False)
        deliver(session, Publish("t", b"x", 2, packet_id=7))
        batch = session.take_batch(10)
        if acknowledged == "before the loss":
            batch.ack()
        session.connection_lost()
        if acknowledged == "while offline":
            batch.ack()
        connect(session, present=True)
        deliver(session, Publish("t", b"x", 2, dup=True, packet_id=7))
        assert session.queued_messages == 0
        if acknowledged == "after the redelivery":
            assert sent_packets(session) == []
            batch.ack()
        assert sent_packets(session) == [Pubrec(7)]
        deliver(session, Pubrel(7))
        assert sent_packets(session) == [Pubcomp(7)]

    def test_topic_aliases_are_resolved(self) -> None:
        session = connected(topic_alias_maximum=2)
        deliver(
            session,
            Publish("a/b", b"1", properties=Properties(topic_alias=2)),
            Publish("", b"2", properties=Properties(topic_alias=2)),
            Publish("c", b"3", 1, packet_id=1, properties=Properties(topic_alias=2)),
            Publish("", b"4", 2, packet_id=2, properties=Properties(topic_alias=2)),
        )
        assert session.take_batch(10).topics == ["a/b", "a/b", "c", "c"]

    @pytest.mark.parametrize(
        ("alias", "topic", "reason"),
        [(3, "a", ReasonCode.TOPIC_ALIAS_INVALID), (1, "", ReasonCode.PROTOCOL_ERROR)],
    )
    def test_wrong_aliases_end_the_connection(self, alias: int, topic: str, reason: int) -> None:
        session = connected(topic_alias_maximum=2)
        closing_error(deliver(session, Publish(topic, b"", properties=Properties(topic_alias=alias))))
        assert sent_packets(session) == [Disconnect(reason)]

    def test_aliases_do_not_outlive_the_connection(self) -> None:
        session = connected(topic_alias_maximum=2, session_expiry_s=9, clean_start=False)
        deliver(session, Publish("a", b"", properties=Properties(topic_alias=1)))
        reconnect(session, present=True)
        closing_error(deliver(session, Publish("", b"", properties=Properties(topic_alias=1))))

    def test_a_packet_over_our_maximum(self) -> None:
        session = connected(max_packet_bytes=100)
        closing_error(deliver(session, Publish("t", b"x" * 100)))
        assert sent_packets(session) == [Disconnect(ReasonCode.PACKET_TOO_LARGE)]

    def test_dropping_qos_0_counts_and_spares_the_rest(self) -> None:
        session = connected(topic_alias_maximum=1)
        session.drop_qos0(True)
        deliver(
            session,
            Publish("t", b"0"),
            Publish("t", b"1", 1, packet_id=1),
            Publish("t", b"0"),
            Publish("t", b"2", 2, packet_id=2),
            Publish("t", b"0", properties=Properties(topic_alias=1)),
        )
        assert session.dropped_messages == 3
        assert session.take_batch(10).payloads == [b"1", b"2"]
        session.drop_qos0(False)
        assert deliver(session, Publish("t", b"0")) == [MessagesReceived(1)]

    def test_the_servers_goodbye(self) -> None:
        session = connected()
        error = closing_error(deliver(session, Disconnect(ReasonCode.SESSION_TAKEN_OVER)))
        assert isinstance(error, ServerDisconnectedError)
        assert error.reason == ReasonCode.SESSION_TAKEN_OVER
        assert sent_packets(session) == []

    @pytest.mark.parametrize("version", [V311, V5])
    def test_malformed_bytes(self, version: int) -> None:
        session = connected(version=version)
        closing_error(session.receive(b"\x00\x00", 0.0))
        expected = [Disconnect(ReasonCode.MALFORMED_PACKET)] if version == V5 else []
        assert sent_packets(session) == expected


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
