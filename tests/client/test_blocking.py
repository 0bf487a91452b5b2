"""The blocking client against real brokers, and against one that does as it is told."""

import ssl
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from braidmq.client import (
    BlockingClient,
    ClientClosedError,
    ConnectFailedError,
    ConnectionLostError,
    ConnectRefusedError,
    LimitExceededError,
    MessageBatch,
    PublishRefusedError,
    RequestTimeoutError,
    ServerDisconnectedError,
    SessionLostError,
    SubscribeRefusedError,
    TlsFiles,
)
from braidmq.wire import (
    V5,
    V311,
    Connack,
    Disconnect,
    Pingreq,
    Properties,
    Puback,
    Publish,
    ReasonCode,
    Suback,
    Subscription,
)
from tests.client.conftest import RunningBroker
from tests.client.fake_broker import FakeBroker
from tests.client.model_server import ModelServer
from tests.client.waiting import eventually
from tests.faults import FaultProxy, FaultProxyThread
from tests.leaks import no_leaked_threads_or_files

QUICK = {"backoff_min_s": 0.01, "backoff_max_s": 0.05}


@pytest.fixture(autouse=True)
def leaks_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    with no_leaked_threads_or_files():
        yield


def take(client: BlockingClient, count: int) -> list[bytes]:
    got: list[bytes] = []
    while len(got) < count:
        batch = client.receive_batch(count - len(got), timeout_s=20)
        assert len(batch), "no message came"
        got += batch.payloads
        batch.ack()
    return got


class TestRealBrokers:
    @pytest.mark.parametrize("version", [V311, V5])
    @pytest.mark.parametrize("qos", [0, 1, 2])
    def test_round_trip(self, broker: RunningBroker, name: str, version: int, qos: int) -> None:
        with BlockingClient(broker.address, client_id=name, version=version) as client:
            assert client.subscribe(f"{name}/#", qos=qos) == (qos,)
            client.publish(f"{name}/a", "text", qos=qos)
            client.publish(f"{name}/b", b"bytes", qos=qos)
            received = [(m.topic, m.payload, m.qos) for m in islice(client.messages(timeout_s=20), 2)]
            assert received == [(f"{name}/a", b"text", qos), (f"{name}/b", b"bytes", qos)]
            assert len(client.unsubscribe(f"{name}/#")) == (1 if version == V5 else 0)

    def test_many_messages_keep_their_order(self, broker: RunningBroker, name: str) -> None:
        with BlockingClient(broker.address, client_id=name) as client:
            for qos in (0, 1, 2):
                client.subscribe(f"{name}/{qos}", qos=qos)
                payloads = [b"%d" % number for number in range(3000)]
                results = client.publish_many(((f"{name}/{qos}", payload) for payload in payloads), qos=qos)
                assert len(results) == (3000 if qos else 0)
                assert take(client, 3000) == payloads

    def test_a_receiver_that_dies_before_acknowledging(self, broker: RunningBroker, name: str) -> None:
        """What the Spark source relies on: unacknowledged messages come again, and only they."""
        # Mosquitto 2.0.11 now and then sends more than Receive Maximum: with 40, of which 20 were unanswered,
        # it sent 50 more upon two PUBACKs, and the client rightly ended the connection (0x93). The other
        # PUBACKs were lost with it, so that what they were for came again. There, all the messages fit.
        options = {
            "client_id": name,
            "clean_start": False,
            "session_expiry_s": 600,
            "manual_ack": True,
            "receive_maximum": 100 if broker.kind == "mosquitto" else 40,
        }
        with BlockingClient(broker.address, **options) as first:
            first.subscribe(name, qos=1)
            first.publish_many([(name, b"%d" % number) for number in range(100)])
            kept = first.receive_batch(20, timeout_s=20)
            kept.ack()
            lost = first.receive_batch(20, timeout_s=20)
            assert len(kept)
            assert len(lost)
            first.publish(f"{name}/other", b"", qos=1)  # a round trip: the broker has the acks
            # Dies here: the socket is gone without a DISCONNECT.
            first._drop_link()
        with BlockingClient(broker.address, **options) as second:
            assert second.session.session_present
            rest = take(second, 100 - len(kept))
            assert [*kept.payloads, *rest] == [b"%d" % number for number in range(100)]

    def test_cut_connections_lose_nothing(self, broker: RunningBroker, name: str) -> None:
        with FaultProxyThread(broker.host, broker.port) as faults:
            kept = {"clean_start": False, "session_expiry_s": 600, "manual_ack": True}
            with BlockingClient(faults.address, client_id=name, **kept, **QUICK) as client:
                client.subscribe(name, qos=2)
                got: list[bytes] = []
                for round_number in range(4):
                    client.publish_many([(name, b"%d-%d" % (round_number, n)) for n in range(50)], qos=2)
                    batch = client.receive_batch(30, timeout_s=20)
                    faults.call(FaultProxy.cut)
                    got += batch.payloads
                    batch.ack()
                got += take(client, 200 - len(got))
                assert got == [b"%d-%d" % (round_number, n) for round_number in range(4) for n in range(50)]


class TestConnecting:
    def test_nobody_there(self) -> None:
        with pytest.raises(ConnectFailedError), BlockingClient("127.0.0.1:1"):
            pass

    def test_the_next_address_is_tried(self, fake: FakeBroker) -> None:
        with BlockingClient(f"127.0.0.1:1,{fake.address}") as client:
            assert client.connected

    def test_a_final_refusal(self, fake: FakeBroker) -> None:
        fake.refusals = [Connack(False, ReasonCode.NOT_AUTHORIZED)]
        with pytest.raises(ConnectRefusedError), BlockingClient(fake.address, connect_patience_s=30):
            pass
        assert fake.connections == 1

    def test_a_passing_refusal_is_waited_out(self, fake: FakeBroker) -> None:
        fake.refusals = [Connack(False, ReasonCode.SERVER_BUSY)] * 3
        with BlockingClient(fake.address, connect_patience_s=30, **QUICK):
            assert fake.connections == 4

    def test_a_silent_server(self, fake: FakeBroker) -> None:
        fake.mute = True
        with pytest.raises(ConnectFailedError), BlockingClient(fake.address, connect_timeout_s=0.05):
            pass

    def test_tls(self, certificate: tuple[Path, Path]) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        with FakeBroker(tls=context) as fake:
            address = f"localhost:{fake.port}"
            with BlockingClient(address, tls=TlsFiles(ca=str(certificate[0]))) as client:
                client.publish("t", b"x" * 3_000_000, qos=1)
                payload = b"y" * 3_000_000
                fake.call(lambda: fake.model.publish(Publish("t", payload, 1)))
                assert take(client, 1) == [payload]
            with pytest.raises(ConnectFailedError, match="certificate"), BlockingClient(address, tls=True):
                pass

    def test_use_before_and_after(self, fake: FakeBroker) -> None:
        client = BlockingClient(fake.address)
        with pytest.raises(ClientClosedError):
            client.publish("t", b"x")
        with client:
            client.publish("t", b"x")
        with pytest.raises(ClientClosedError):
            client.publish("t", b"x")
        with pytest.raises(ClientClosedError):
            client.receive_batch()
        client.close()


class TestReconnecting:
    def test_subscriptions_come_back_with_a_new_session(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, **QUICK) as client:
            client.subscribe("a", Subscription("b", 2), qos=1)
            fake.cut(lose_session=True)
            client.publish("t", b"x", qos=1)
            assert fake.model.subscribes[1].subscriptions == (Subscription("a", 1), Subscription("b", 2))

    def test_a_refused_restoration_ends_the_client(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, **QUICK) as client:
            client.subscribe("a")
            fake.model._on_subscribe = (  # type: ignore[method-assign]
                lambda packet: fake.model.send(Suback(packet.packet_id, (ReasonCode.NOT_AUTHORIZED,)))
            )
            fake.cut(lose_session=True)
            with pytest.raises(ClientClosedError) as caught:
                client.receive_batch(timeout_s=20)
            assert isinstance(caught.value.__cause__, SubscribeRefusedError)

    def test_a_short_call_ends_in_time_while_nobody_is_there(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, backoff_min_s=30, backoff_max_s=30) as client:
            fake.cut()
            assert len(client.receive_batch(timeout_s=0.05)) == 0
            with pytest.raises(RequestTimeoutError):
                client.publish("t", b"x", qos=1, timeout_s=0.05)
            assert client.session.pending_publishes == 0  # it had not left

    def test_qos_2_in_doubt_when_the_session_is_gone(self) -> None:
        with FakeBroker(ModelServer(hold_acks=True)) as fake, BlockingClient(fake.address, **QUICK) as client:
            cutter = threading.Thread(
                target=lambda: (eventually(lambda: bool(fake.model.taken)), fake.cut(lose_session=True))
            )
            cutter.start()
            with pytest.raises(SessionLostError):
                client.publish("t", b"x", qos=2)
            cutter.join()

    def test_taken_over(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address) as client:
            fake.send(Disconnect(ReasonCode.SESSION_TAKEN_OVER))
            with pytest.raises(ClientClosedError) as caught:
                client.receive_batch(timeout_s=20)
            assert isinstance(caught.value.__cause__, ServerDisconnectedError)
            with pytest.raises(ClientClosedError):
                client.receive_batch(timeout_s=20)

    def test_what_came_before_the_end_is_delivered(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, reconnect=False) as client:
            fake.send(Publish("t", b"last words"), Disconnect(ReasonCode.SERVER_SHUTTING_DOWN))
            assert client.receive_batch(timeout_s=20).payloads == [b"last words"]
            with pytest.raises(ClientClosedError):
                client.receive_batch(timeout_s=20)

    def test_an_acknowledgement_finds_the_connection_gone(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, reconnect=False, manual_ack=True) as client:
            fake.call(lambda: fake.model.publish(Publish("t", b"x", 1)))
            batch = client.receive_batch(timeout_s=20)
            fake.cut()
            with pytest.raises(ClientClosedError) as caught:
                self.acknowledge_until_it_fails(client, batch)
            assert isinstance(caught.value.__cause__, ConnectionLostError)

    def acknowledge_until_it_fails(self, client: BlockingClient, batch: MessageBatch) -> None:
        """The first write after a reset may still succeed."""
        batch.ack()
        for _ in range(1000):
            client.session.publish(Publish("t", b"x"))
            batch.ack()

    def test_a_stalled_server_is_noticed(self, fake: FakeBroker) -> None:
        patience = {"keep_alive_s": 1, "ping_timeout_s": 0.1, "connect_timeout_s": 0.5}
        with BlockingClient(fake.address, **patience, **QUICK) as client:
            fake.mute = True
            threading.Timer(1.5, lambda: setattr(fake, "mute", False)).start()
            while fake.connections < 2:
                client.receive_batch(timeout_s=0.2)


class TestCalls:
    def test_refusals_and_limits(self) -> None:
        model = ModelServer(Properties(maximum_qos=1))
        with FakeBroker(model) as fake, BlockingClient(fake.address) as client:
            with pytest.raises(LimitExceededError):
                client.publish("t", b"x", qos=2)
            fake.model._on_publish = (  # type: ignore[method-assign]
                lambda packet: fake.model.send(Puback(packet.packet_id, ReasonCode.QUOTA_EXCEEDED))
            )
            with pytest.raises(PublishRefusedError):
                client.publish("t", b"x", qos=1)
            with pytest.raises(PublishRefusedError):
                client.publish_many([("t", b"x")] * 3)

    def test_a_timeout_leaves_the_message_in_the_session(self) -> None:
        with FakeBroker(ModelServer(hold_acks=True)) as fake, BlockingClient(fake.address) as client:
            with pytest.raises(RequestTimeoutError):
                client.publish("t", b"x", qos=1, timeout_s=0.05)
            assert client.session.pending_publishes == 1
            fake.call(fake.model.release_acks)
            while client.session.pending_publishes:
                client.receive_batch(timeout_s=0.01)

    def test_the_window_holds(self) -> None:
        model = ModelServer(Properties(receive_maximum=3))
        payloads = [b"%d" % number for number in range(200)]
        with FakeBroker(model) as fake, BlockingClient(fake.address, pending_publishes_max=5) as client:
            client.publish_many([("t", payload) for payload in payloads])
            assert [packet.payload for packet in fake.model.taken] == payloads


class TestReceiving:
    def test_auto_acknowledgement_comes_with_the_next_question(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address) as client:
            fake.call(lambda: [fake.model.publish(Publish("t", b"%d" % n, 1)) for n in range(2)])
            assert client.receive_batch(1, timeout_s=20).payloads == [b"0"]
            client.publish("t", b"", qos=1)
            assert fake.model.finished == []
            assert client.receive_batch(1, timeout_s=20).payloads == [b"1"]
            client.publish("t", b"", qos=1)
            assert [packet.payload for packet in fake.model.finished] == [b"0"]
        eventually(lambda: len(fake.model.finished) == 2)  # leaving in peace is done with the last one

    def test_leaving_with_an_exception_acknowledges_nothing(self, fake: FakeBroker) -> None:
        def receive_and_fail() -> None:
            with BlockingClient(fake.address) as client:
                fake.call(lambda: fake.model.publish(Publish("t", b"x", 1)))
                assert len(client.receive_batch(timeout_s=20)) == 1
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            receive_and_fail()
        eventually(lambda: not fake.model.connected)
        assert fake.model.finished == []

    def test_receive_maximum_is_the_back_pressure(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, manual_ack=True, receive_maximum=5) as client:
            fake.call(lambda: [fake.model.publish(Publish("t", b"%d" % n, 1)) for n in range(12)])
            batches = []
            while sum(map(len, batches)) < 12:
                batch = client.receive_batch(100, timeout_s=20, max_wait_s=0.05)
                assert 0 < len(batch) <= 5
                assert fake.call(lambda: len(fake.model.in_flight)) <= 5
                batches.append(batch)
                batch.ack()
            payloads = [payload for batch in batches for payload in batch.payloads]
            assert payloads == [b"%d" % n for n in range(12)]

    def test_a_full_inbox_stops_reading(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, queue_messages_max=100) as client:
            fake.call(lambda: [fake.model.publish(Publish("t", b"x" * 10_000)) for _ in range(3000)])
            client.receive_batch(1, timeout_s=20)
            assert client.session.queued_bytes < 3 << 20
            assert len(take(client, 2999)) == 2999
            assert client.dropped_messages == 0

    def test_a_full_inbox_does_not_keep_answers_back(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, queue_messages_max=10) as client:
            fake.call(lambda: [fake.model.publish(Publish("t", b"x" * 1000)) for _ in range(5000)])
            client.publish("t", b"answer me", qos=1)
            assert client.dropped_messages > 0

    def test_no_message_in_time(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address) as client:
            assert len(client.receive_batch(timeout_s=0)) == 0
            assert list(client.messages(timeout_s=0.01)) == []

    def test_max_wait_fills_a_batch(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address) as client:
            sender = threading.Thread(
                target=lambda: [
                    fake.call(lambda number=number: fake.model.publish(Publish("t", b"%d" % number)))
                    for number in range(5)
                ]
            )
            sender.start()
            batch = client.receive_batch(5, timeout_s=20, max_wait_s=20)
            assert batch.payloads == [b"0", b"1", b"2", b"3", b"4"]
            sender.join()


class TestPinger:
    def test_it_keeps_the_connection_while_the_program_computes(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, keep_alive_s=1, pinger=True) as client:
            eventually(lambda: sum(isinstance(packet, Pingreq) for packet in fake.model.received) >= 2)
            client.publish("t", b"still here", qos=1)
            assert fake.connections == 1

    def test_without_it_the_next_call_reconnects(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, **QUICK) as client:
            fake.cut()
            time.sleep(0)  # the program computes
            client.publish("t", b"x", qos=1)
            assert fake.connections == 2

    def test_it_does_not_outlive_a_dead_connection(self, fake: FakeBroker) -> None:
        with BlockingClient(fake.address, keep_alive_s=1, pinger=True, **QUICK) as client:
            fake.cut()
            client.publish("t", b"x", qos=1)
            eventually(lambda: any(isinstance(packet, Pingreq) for packet in fake.model.received))
