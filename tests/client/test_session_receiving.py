"""The receiving half of a session: acknowledgements, redelivery, aliases; and subscriptions."""

import pytest

from braidmq.client.errors import (
    ConnectionLostError,
    ServerDisconnectedError,
    SubscribeRefusedError,
    UnsubscribeRefusedError,
)
from braidmq.client.events import Completed, Failed, MessagesReceived, ResubscribeRefused
from braidmq.client.options import SessionOptions
from braidmq.client.session import Session
from braidmq.wire import (
    V5,
    V311,
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
    Unsuback,
    Unsubscribe,
)
from tests.client.helpers import closing_error, connect, connected, deliver, reconnect, sent_packets


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

    @pytest.mark.parametrize("version", [V311, V5])
    def test_subscriptions_are_restored_when_the_answer_to_connect_was_lost(self, version: int) -> None:
        """The CONNECT without an answer may have made a session, which the next CONNACK calls present."""
        session = self.subscribed(version)
        session.connection_lost()
        session.connect(0.0)
        reconnect(session, present=True)
        # No retained messages again where the subscription was there after all; MQTT 3 can't say so.
        handling = 1 if version == V5 else 0
        assert sent_packets(session) == [Subscribe(2, (Subscription("a", 1, retain_handling=handling),))]
        deliver(session, Suback(2, (1,)))
        assert session.subscriptions == (Subscription("a", 1),)
        reconnect(session, present=True)
        assert sent_packets(session) == []

    def test_a_restoration_without_answer_is_asked_for_again(self) -> None:
        session = self.subscribed(V5)
        reconnect(session, present=False)
        assert sent_packets(session) == [Subscribe(2, (Subscription("a", 1),))]
        reconnect(session, present=True)
        assert sent_packets(session) == [Subscribe(3, (Subscription("a", 1, retain_handling=1),))]

    def subscribed(self, version: int) -> Session:
        session = connected(version=version, clean_start=False)
        session.subscribe([Subscription("a", 1)])
        deliver(session, Suback(1, (1,)))
        sent_packets(session)
        return session

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

    def test_a_resumed_session_is_allowed_another_window_each_time(self) -> None:
        session = connected(receive_maximum=2, session_expiry_s=9, clean_start=False)
        deliver(session, Publish("t", b"", 1, packet_id=1), Publish("t", b"", 1, packet_id=2))
        for held in (2, 4, 6):
            reconnect(session, present=True)
            again = [Publish("t", b"", 1, dup=True, packet_id=n) for n in range(1, held + 1)]
            new = [Publish("t", b"", 1, packet_id=n) for n in (held + 1, held + 2)]
            assert deliver(session, *again, *new) == [MessagesReceived(held + 2)]
        reconnect(session, present=False)
        packets = [Publish("t", b"", 1, packet_id=n) for n in (1, 2, 3)]
        closing_error(deliver(session, *packets))

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

    @pytest.mark.parametrize("answered", [False, True])
    def test_qos_2_of_a_session_that_may_be_new_is_new_unless_marked_dup(self, answered: bool) -> None:
        """A CONNECT without an answer: the server may have forgotten which identifiers it had used."""
        session = connected(clean_start=False)
        deliver(session, Publish("t", b"old", 2, packet_id=1))
        [old] = session.take_batch(9)
        if answered:
            old.ack()
        session.connection_lost()
        session.connect(0.0)
        reconnect(session, present=True)
        deliver(session, Publish("t", b"old", 2, dup=True, packet_id=1))
        assert len(session.take_batch(9)) == 0
        reconnect(session, present=True)
        deliver(session, Publish("t", b"new", 2, packet_id=1))
        assert [message.payload for message in session.take_batch(9)] == [b"new"]

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
