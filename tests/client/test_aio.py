"""The asyncio client against a broker that does as it is told."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from braidmq.client import (
    Client,
    ClientClosedError,
    ConnectFailedError,
    ConnectionLostError,
    ConnectRefusedError,
    LimitExceededError,
    PublishRefusedError,
    RequestTimeoutError,
    SessionLostError,
    SubscribeRefusedError,
    TlsFiles,
)
from braidmq.errors import ConfigError
from braidmq.wire import (
    Connack,
    Disconnect,
    Properties,
    Puback,
    Publish,
    Pubrec,
    ReasonCode,
    Suback,
    Subscription,
)
from tests.client.fake_broker import FakeBroker
from tests.client.model_server import ModelServer
from tests.client.waiting import take, until
from tests.leaks import no_leaks

QUICK = {"backoff_min_s": 0.01, "backoff_max_s": 0.05}


@pytest.fixture(autouse=True)
async def leaks_nothing() -> AsyncIterator[None]:
    async with no_leaks():
        yield


class TestConnecting:
    async def test_nobody_there(self) -> None:
        with pytest.raises(ConnectFailedError) as caught:
            async with Client("127.0.0.1:1,localhost:1"):
                pass
        assert len(caught.value.failures) >= 2

    async def test_the_next_address_is_tried(self, fake: FakeBroker) -> None:
        async with Client(["127.0.0.1:1", fake.address]) as client:
            assert client.connected

    async def test_a_name_with_several_addresses(
        self, fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
            assert host == "brokers.example"
            return [(2, 1, 6, "", (address, port)) for address in ("127.0.0.2", "127.0.0.3", "127.0.0.1")]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        async with Client(f"brokers.example:{fake.port}", random=lambda: 0.5) as client:
            assert client.connected

    async def test_a_final_refusal(self, fake: FakeBroker) -> None:
        fake.refusals = [Connack(False, ReasonCode.BAD_USER_NAME_OR_PASSWORD)]
        with pytest.raises(ConnectRefusedError) as caught:
            async with Client(fake.address, connect_patience_s=30):
                pass
        assert caught.value.reason == ReasonCode.BAD_USER_NAME_OR_PASSWORD
        assert fake.connections == 1

    async def test_a_passing_refusal_is_waited_out(self, fake: FakeBroker) -> None:
        fake.refusals = [Connack(False, ReasonCode.SERVER_BUSY)] * 3
        async with Client(fake.address, connect_patience_s=30, **QUICK) as client:
            assert client.connected
        assert fake.connections == 4

    async def test_another_server_is_named(self, fake: FakeBroker) -> None:
        with FakeBroker() as other:
            reference = Properties(server_reference=other.address)
            fake.refusals = [Connack(False, ReasonCode.USE_ANOTHER_SERVER, reference)]
            async with Client(fake.address, connect_patience_s=30, **QUICK) as client:
                assert client.connected
            assert other.connections == 1

    async def test_a_silent_server(self, fake: FakeBroker) -> None:
        fake.mute = True
        with pytest.raises(ConnectFailedError):
            async with Client(fake.address, connect_timeout_s=0.05):
                pass

    async def test_cancelled_while_connecting(self, fake: FakeBroker) -> None:
        fake.mute = True
        client = Client(fake.address)
        entering = asyncio.create_task(client.__aenter__())
        await until(lambda: fake.connections == 1)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering

    async def test_without_reconnect_a_loss_is_the_end(self, fake: FakeBroker) -> None:
        async with Client(fake.address, reconnect=False) as client:
            fake.cut()
            with pytest.raises(ClientClosedError) as caught:
                await anext(client.messages())
            assert isinstance(caught.value.__cause__, ConnectionLostError)

    @pytest.mark.parametrize("options", [{"colour": "red"}, {"keep_alive_s": -1}])
    async def test_wrong_options(self, options: dict[str, object]) -> None:
        with pytest.raises(ConfigError):
            Client("localhost", **options)  # type: ignore[arg-type]

    async def test_tls(self, certificate: tuple[Path, Path]) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        with FakeBroker(tls=context) as fake:
            address = f"localhost:{fake.port}"
            async with Client(address, tls=TlsFiles(ca=str(certificate[0]))) as client:
                await client.publish("t", b"x" * 100_000, qos=1)
                payload = b"y" * 300_000
                fake.call(lambda: fake.model.publish(Publish("t", payload, 1)))
                assert await take(client, 1) == [payload]
            with pytest.raises(ConnectFailedError, match="certificate"):
                async with Client(address, tls=True):
                    pass
            async with Client(address, tls=TlsFiles(verify=False)):
                pass

    async def test_missing_tls_files(self) -> None:
        with pytest.raises(ConfigError, match=r"nowhere\.pem"):
            Client("localhost", tls=TlsFiles(ca="nowhere.pem"))


class TestReconnecting:
    async def test_subscriptions_come_back_with_a_new_session(self, fake: FakeBroker) -> None:
        async with Client(fake.address, **QUICK) as client:
            await client.subscribe("a", Subscription("b", 2), qos=1)
            fake.cut(lose_session=True)
            await until(lambda: len(fake.model.subscribes) == 2)
            assert fake.model.subscribes[1].subscriptions == (Subscription("a", 1), Subscription("b", 2))

    async def test_a_refused_restoration_ends_the_client(self, fake: FakeBroker) -> None:
        async with Client(fake.address, **QUICK) as client:
            await client.subscribe("a")
            fake.model._on_subscribe = (  # type: ignore[method-assign]
                lambda packet: fake.model.send(Suback(packet.packet_id, (ReasonCode.NOT_AUTHORIZED,)))
            )
            fake.cut(lose_session=True)
            with pytest.raises(ClientClosedError) as caught:
                await anext(client.messages())
            assert isinstance(caught.value.__cause__, SubscribeRefusedError)

    async def test_calls_outlive_the_connection(self, fake: FakeBroker) -> None:
        """Requests made while the server is away are answered when it is back."""
        async with Client(fake.address, clean_start=False, session_expiry_s=60, **QUICK) as client:
            fake.refusals = [Connack(False, ReasonCode.SERVER_UNAVAILABLE)] * 5
            fake.cut()
            await until(lambda: not client.connected)
            results = await asyncio.gather(
                client.publish("t", b"0"),
                client.publish("t", b"1", qos=1),
                client.publish("t", b"2", qos=2),
                client.subscribe("a"),
            )
            assert results[3] == (0,)
            # Nothing tells when a message of QoS 0 has arrived.
            await until(lambda: {packet.payload for packet in fake.model.taken} == {b"0", b"1", b"2"})

    async def test_qos_2_in_doubt_when_the_session_is_gone(self) -> None:
        with FakeBroker(ModelServer(hold_acks=True)) as fake:
            async with Client(fake.address, **QUICK) as client:
                publishing = asyncio.create_task(client.publish("t", b"x", qos=2))
                await until(lambda: len(fake.model.taken) == 1)
                fake.cut(lose_session=True)
                with pytest.raises(SessionLostError):
                    await publishing

    async def test_a_stalled_server_is_noticed(self, fake: FakeBroker) -> None:
        async with Client(fake.address, keep_alive_s=1, ping_timeout_s=0.1, **QUICK) as client:
            fake.mute = True
            await until(lambda: not client.connected)
            fake.mute = False
            await client.wait_connected()
            assert fake.connections >= 2

    async def test_pings_keep_an_idle_connection(self, fake: FakeBroker) -> None:
        async with Client(fake.address, keep_alive_s=1) as client:
            pings = lambda: [p for p in fake.model.received if type(p).__name__ == "Pingreq"]  # noqa: E731
            await until(lambda: len(pings()) >= 2)
            assert client.connected
            assert fake.connections == 1


class TestCalls:
    async def test_refusals_by_reason(self, fake: FakeBroker) -> None:
        async with Client(fake.address) as client:
            fake.model._on_publish = lambda packet: fake.model.send(  # type: ignore[method-assign]
                (Puback if packet.qos == 1 else Pubrec)(packet.packet_id, ReasonCode.QUOTA_EXCEEDED)
            )
            for qos in (1, 2):
                with pytest.raises(PublishRefusedError) as caught:
                    await client.publish("t", b"x", qos=qos)
                assert caught.value.reason == ReasonCode.QUOTA_EXCEEDED
            with pytest.raises(PublishRefusedError):
                await client.publish_many([("t", b"x")] * 3)

    async def test_limits_of_the_server(self) -> None:
        with FakeBroker(ModelServer(Properties(maximum_qos=1, maximum_packet_size_bytes=100))) as fake:
            async with Client(fake.address) as client:
                with pytest.raises(LimitExceededError):
                    await client.publish("t", b"x", qos=2)
                with pytest.raises(LimitExceededError):
                    await client.publish("t", b"x" * 100, qos=1)
                await client.publish("t", b"x", qos=1)

    async def test_a_timeout_leaves_the_message_in_the_session(self) -> None:
        with FakeBroker(ModelServer(hold_acks=True)) as fake:
            async with Client(fake.address, request_timeout_s=0.05) as client:
                with pytest.raises(RequestTimeoutError):
                    await client.publish("t", b"x", qos=1)
                assert client.session.pending_publishes == 1
                fake.call(fake.model.release_acks)
                await until(lambda: client.session.pending_publishes == 0)

    async def test_a_cancelled_publish_that_never_left_is_forgotten(self) -> None:
        with FakeBroker(ModelServer(Properties(receive_maximum=1), hold_acks=True)) as fake:
            async with Client(fake.address) as client:
                first = asyncio.create_task(client.publish("t", b"1", qos=1))
                await until(lambda: len(fake.model.taken) == 1)
                second = asyncio.create_task(client.publish("t", b"2", qos=1))
                await until(lambda: client.session.pending_publishes == 2)
                second.cancel()
                await asyncio.wait([second])
                assert client.session.pending_publishes == 1
                fake.call(fake.model.release_acks)
                await first
                assert [packet.payload for packet in fake.model.taken] == [b"1"]

    async def test_publish_waits_for_room(self) -> None:
        with FakeBroker(ModelServer(hold_acks=True)) as fake:
            async with Client(fake.address, pending_publishes_max=3) as client:
                publishing = [asyncio.create_task(client.publish("t", b"x", qos=1)) for _ in range(5)]
                await until(lambda: len(fake.model.taken) == 3)
                assert client.session.pending_publishes == 3
                fake.call(lambda: setattr(fake.model, "hold_acks", False))
                fake.call(lambda: fake.model.release_acks(10))
                await asyncio.gather(*publishing)

    async def test_closing_answers_whoever_waits(self) -> None:
        with FakeBroker(ModelServer(hold_acks=True)) as fake:
            async with Client(fake.address, pending_publishes_max=1) as client:
                waiting = [asyncio.create_task(client.publish("t", b"x", qos=1)) for _ in range(2)]
                reading = asyncio.create_task(anext(client.messages(), None))
                await until(lambda: len(fake.model.taken) == 1)
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(answer) for answer in answers] == [ClientClosedError, ClientClosedError]
            assert await reading is None
            with pytest.raises(ClientClosedError):
                await client.publish("t", b"x")
            with pytest.raises(ClientClosedError):
                await client.subscribe("t")
            await client.close()


class TestReceiving:
    async def test_auto_acknowledgement_comes_with_the_next_question(self, fake: FakeBroker) -> None:
        async with Client(fake.address) as client:
            for payload in (b"1", b"2"):
                fake.call(lambda payload=payload: fake.model.publish(Publish("t", payload, 1)))
            messages = client.messages()
            await anext(messages)
            await client.publish("t", b"", qos=1)  # a round trip: what was to come has come
            assert fake.model.finished == []
            await anext(messages)
            await client.publish("t", b"", qos=1)
            assert [packet.payload for packet in fake.model.finished] == [b"1"]

    async def test_manual_acknowledgement_of_a_batch(self, fake: FakeBroker) -> None:
        async with Client(fake.address, manual_ack=True, receive_maximum=5) as client:
            fake.call(lambda: [fake.model.publish(Publish("t", b"%d" % n, 1 + n % 2)) for n in range(8)])
            batch = await client.next_batch(100, max_wait_s=0.2)
            assert batch is not None
            assert len(batch) == 5  # our receive maximum holds the server back
            batch.ack()
            rest = await client.next_batch(100, max_wait_s=0.2)
            assert rest is not None
            assert [*batch.payloads, *rest.payloads] == [b"%d" % n for n in range(8)]
            rest.ack()
            await until(lambda: len(fake.model.finished) == 8)

    async def test_leaving_the_loop_loses_no_message(self, fake: FakeBroker) -> None:
        async with Client(fake.address) as client:
            fake.call(lambda: [fake.model.publish(Publish("t", b"%d" % n)) for n in range(4)])
            got = []
            for _ in range(4):
                async for message in client.messages():
                    got.append(message.payload)
                    break
            assert got == [b"0", b"1", b"2", b"3"]

    async def test_a_full_inbox_stops_reading(self, fake: FakeBroker) -> None:
        """QoS 0 without end, and nobody takes it: memory stays bounded, and nothing is lost later."""
        async with Client(fake.address, queue_messages_max=100, queue_bytes_max=1 << 20) as client:
            sent = 3000
            fake.call(lambda: [fake.model.publish(Publish("t", b"x" * 10_000)) for _ in range(sent)])
            await until(lambda: client.session.queued_messages >= 100)
            await asyncio.sleep(0.05)
            assert client.session.queued_bytes < 3 << 20
            got = 0
            async with asyncio.timeout(30):
                async for batch in client.batches():
                    got += len(batch)
                    if got == sent:
                        break
            assert client.dropped_messages == 0

    async def test_a_full_inbox_does_not_keep_answers_back(self, fake: FakeBroker) -> None:
        """A publisher inside the receiving loop: its PUBACK is behind messages that have no room."""
        async with Client(fake.address, queue_messages_max=10) as client:
            fake.call(lambda: [fake.model.publish(Publish("t", b"x" * 1000)) for _ in range(5000)])
            await until(lambda: client.session.queued_messages >= 10)
            async with asyncio.timeout(30):
                await client.publish("t", b"answer me", qos=1)
            assert client.dropped_messages > 0
            received = 0
            while client.session.queued_messages:
                batch = await client.next_batch(10_000)
                assert batch is not None
                received += len(batch)
            assert received + client.dropped_messages <= 5000

    async def test_max_wait_fills_a_batch(self, fake: FakeBroker) -> None:
        async with Client(fake.address) as client:
            waiting = asyncio.create_task(client.next_batch(3, max_wait_s=30))
            for number in range(3):
                fake.call(lambda number=number: fake.model.publish(Publish("t", b"%d" % number)))
            batch = await waiting
            assert batch is not None
            assert batch.payloads == [b"0", b"1", b"2"]

    async def test_what_came_before_the_end_is_delivered(self, fake: FakeBroker) -> None:
        async with Client(fake.address, reconnect=False) as client:
            fake.send(Publish("t", b"last words"), Disconnect(ReasonCode.SERVER_SHUTTING_DOWN))
            messages = client.messages()
            assert (await anext(messages)).payload == b"last words"
            with pytest.raises(ClientClosedError):
                await anext(messages)
